"""Tests of NIfTI results: they lie where the input lies."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import dicom_writer

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.predict import predict


@pytest.fixture
def nibabel():
    return pytest.importorskip("nibabel", reason="nibabel (an extra) is not installed")


def test_results_lie_where_the_input_lies(nibabel, tmp_path, hu_model):
    rng = np.random.default_rng(0)
    data = np.where(rng.random((16, 24, 3)) < 0.3, 200, -900).astype(np.int16)
    affine = np.array([[0.7, 0, 0, -5], [0, -0.6, 0, 40], [0, 0, 2.0, 7], [0, 0, 0, 1]])
    nibabel.save(nibabel.Nifti1Image(data, affine), tmp_path / "v.nii.gz")
    predict(
        model_path=hu_model.path,
        inputs=[str(tmp_path / "v.nii.gz")],
        out_dir=tmp_path / "out",
        crop=CropConfig(slice="1"),
        config=PredictConfig(num_samples=2),
    )
    folder = tmp_path / "out" / "v_001"
    samples = nibabel.load(folder / "samples.nii.gz")
    assert samples.shape == (16, 24, 1, 2)
    np.testing.assert_allclose(
        samples.affine @ [3, 4, 0, 1], affine @ [3, 4, 1, 1], atol=1e-5
    )
    bright = data[:, :, 1] > 0
    for sample in range(2):
        found = np.asarray(samples.dataobj)[:, :, 0, sample]
        np.testing.assert_array_equal(found, bright)
    mean = nibabel.load(folder / "mean.nii.gz")
    assert mean.shape == (16, 24, 1)
    np.testing.assert_allclose(mean.get_fdata()[:, :, 0] > 0.5, bright)
    assert nibabel.load(folder / "entropy.nii.gz").get_fdata().max() <= np.log(2) + 1e-6


def test_slices_of_a_dicom_series_are_as_thick_as_they_are_apart(
    nibabel, tmp_path, hu_model
):
    for i in range(3):
        dicom_writer.write_slice(
            tmp_path / "scan" / f"{i}.dcm",
            np.full((16, 16), -500),
            z_mm=-100 + 2.5 * i,
            uid=f"1.2.{i}",
            spacing_mm=(0.6, 0.8),
        )
    predict(
        model_path=hu_model.path,
        inputs=[str(tmp_path / "scan")],
        out_dir=tmp_path / "out",
        crop=CropConfig(slice="1"),
        config=PredictConfig(num_samples=2, output_format="nifti"),
    )
    for name in ("samples", "mean", "entropy"):
        written = nibabel.load(tmp_path / "out" / "scan_001" / f"{name}.nii.gz")
        zooms = written.header.get_zooms()[:3]
        np.testing.assert_allclose(zooms, [0.8, 0.6, 2.5], rtol=1e-6)
        np.testing.assert_allclose(written.affine[:3, 3], [166, 171.7, -97.5])
