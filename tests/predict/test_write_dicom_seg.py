"""Tests of DICOM segmentations: masks, shares, and the slice they refer to."""

from __future__ import annotations

import numpy as np
import pydicom
import pytest
from helpers import dicom_writer

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.predict import predict


@pytest.fixture(scope="module", autouse=True)
def highdicom():
    return pytest.importorskip(
        "highdicom", reason="highdicom (an extra) is not installed"
    )


def _write_slice(path, hounsfield):
    dicom_writer.write_slice(path, hounsfield, z_mm=-40, uid="1.2.3.4")
    dataset = pydicom.dcmread(path)
    dataset.FrameOfReferenceUID = "1.2.3"
    dataset.save_as(path)
    return path


def _predict(model, path, out_dir, **changes):
    settings = {"num_samples": 12, "seed": 3, "sampling": "independent"}
    return predict(
        model_path=model.path,
        inputs=[str(path)],
        out_dir=out_dir,
        crop=CropConfig(),
        config=PredictConfig(**settings, **changes),
    )


def test_segments_are_the_hypotheses(tmp_path, hu_model):
    # Three steps of brightness: samples differ in how many of them they mark.
    hounsfield = np.full((16, 24), -900.0)
    hounsfield[2:14, 2:20] = -320
    hounsfield[4:12, 4:16] = -150
    path = _write_slice(tmp_path / "a.dcm", hounsfield)
    result = _predict(hu_model, path, tmp_path / "out")
    found = result["images"][0]["hypotheses"]
    marked = [h["probability"] for h in found if not h["is_empty"]]
    assert len(found) > 1
    written = pydicom.dcmread(tmp_path / "out" / "a" / "hypotheses.dcm")
    assert written.SOPClassUID == "1.2.840.10008.5.1.4.1.1.66.4"
    masks = written.pixel_array.reshape(-1, 16, 24)
    assert len(masks) == len(written.SegmentSequence)
    for segment in written.SegmentSequence:
        assert segment.SegmentLabel.endswith(": lesion")
        assert segment.SegmentDescription.endswith(" mm²")
    texts = [segment.SegmentDescription for segment in written.SegmentSequence]
    for text, probability in zip(texts, marked):
        assert text.startswith(f"probability {probability:.1%}, ")
    nothing = 1 - sum(marked)
    explained = result["images"][0]["explained"]
    assert written.ContentDescription == (
        f"{len(found)} of 12 samples ({explained:.0%}), nothing: {nothing:.1%}"
    )
    for mask in masks:
        # A step is marked as a whole or not at all.
        for level in np.unique(hounsfield):
            assert len(np.unique(mask[hounsfield == level])) == 1
    assert all(mask.any() for mask in masks)
    referenced = written.ReferencedSeriesSequence[0].ReferencedInstanceSequence[0]
    assert referenced.ReferencedSOPInstanceUID == "1.2.3.4"
    shared = written.SharedFunctionalGroupsSequence[0]
    spacing = shared.PixelMeasuresSequence[0].PixelSpacing
    assert [float(value) for value in spacing] == [0.5, 0.5]
    for frame in written.PerFrameFunctionalGroupsSequence:
        position = frame.PlanePositionSequence[0].ImagePositionPatient
        assert [float(value) for value in position] == [-166, -171.7, -40]


def test_nothing_marked_gives_no_file(tmp_path, hu_model):
    path = _write_slice(tmp_path / "a.dcm", np.full((16, 16), -1000.0))
    result = _predict(hu_model, path, tmp_path / "out", output_format="dicom_seg")
    # All pixels are the prior's mean, so that whole images are marked or not at all.
    assert len(result["images"][0]["hypotheses"]) <= 2
    assert (tmp_path / "out" / "a" / "summary.json").exists()


def test_header_without_a_frame_of_reference(tmp_path, hu_model):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((16, 16)), z_mm=0, uid="1.2"
    )
    with pytest.raises(ValueError, match=r"a\.dcm: lacks FrameOfReferenceUID, which"):
        _predict(hu_model, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
