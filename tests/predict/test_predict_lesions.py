"""Whole runs on DICOM and NIfTI, with the geometry read back by other libraries."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pydicom
import pytest
from helpers import dicom_writer
from helpers.threshold_model import save_threshold_model

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict import points
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.predict_lesions import predict_lesions
from tf_probunet.predict.read_inputs import read_inputs

_SPACING = (0.5, 0.8)
_POINT = (4, 20, 14)  # Slice, row and column.


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    return save_threshold_model(path, offset=0.4)


@pytest.fixture(scope="module")
def scan():
    """A block at slices 3 to 6, rows 18 to 23 and columns 12 to 16."""
    stack = np.full((10, 40, 32), -1000.0)
    stack[3:7, 18:24, 12:17] = 300
    return stack


@pytest.fixture(scope="module")
def series(tmp_path_factory, scan):
    folder = tmp_path_factory.mktemp("dicom") / "series"
    for path in dicom_writer.write_series(folder, scan, spacing_mm=_SPACING):
        dataset = pydicom.dcmread(path)
        dataset.FrameOfReferenceUID = "1.2.3"
        dataset.SliceThickness = 2.0
        dataset.save_as(path)
    return folder


def _run(model, path, out_dir, *, center=_POINT, crop=None, **rules):
    text = None if center is None else ",".join(map(str, center))
    settings = {"num_samples": 5, "seed": 3, **rules.pop("settings", {})}
    return predict_lesions(
        model_path=model,
        inputs=[str(path)],
        out_dir=out_dir,
        crop=CropConfig(center=text, **(crop or {})),
        config=PredictConfig(**settings),
        rules=LesionConfig(**rules),
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory, model, series):
    out = tmp_path_factory.mktemp("out")
    return _run(model, series, out), out / "series_lesion"


def test_summary_and_picture(result):
    found, folder = result
    (lesion,) = found["lesions"]
    assert lesion["slices"] == [1, 8]
    expected = 4 * 6 * 5 * 0.5 * 0.8 * 2
    assert lesion["volume_mm3"]["median"] == pytest.approx(expected)
    assert json.loads((folder / "summary.json").read_text())["step_mm"] == 2
    assert (folder / "summary.png").read_bytes().startswith(b"\x89PNG")


def test_segmentations_lie_on_the_series(result, series, scan):
    hd = pytest.importorskip("highdicom")
    _, folder = result
    binary = hd.seg.segread(folder / "hypotheses.dcm")
    fractional = hd.seg.segread(folder / "mean.dcm")
    assert binary.segmentation_type == hd.seg.SegmentationTypeValues.BINARY
    assert fractional.segmentation_type == hd.seg.SegmentationTypeValues.FRACTIONAL
    sources = [pydicom.dcmread(path) for path in sorted(series.iterdir())]
    uids = [source.SOPInstanceUID for source in sources[3:7]]
    masks = binary.get_pixels_by_source_instance(uids, segment_numbers=[1])[..., 0]
    np.testing.assert_array_equal(masks, scan[3:7] > 0)
    mean = fractional.get_pixels_by_source_instance(uids)[..., 0]
    np.testing.assert_array_equal(mean > 0.5, scan[3:7] > 0)
    for segmentation in (binary, fractional):
        assert segmentation.FrameOfReferenceUID == "1.2.3"
        shared = segmentation.SharedFunctionalGroupsSequence[0]
        measures = shared.PixelMeasuresSequence[0]
        assert list(measures.PixelSpacing) == list(_SPACING)
        heights = {
            float(groups.PlanePositionSequence[0].ImagePositionPatient[2])
            for groups in segmentation.PerFrameFunctionalGroupsSequence
        }
        assert {-94.0, -92.0, -90.0, -88.0} <= heights
    # As a volume of its own, resampled to the place of each of the source's voxels.
    array, affine = _volume(binary)
    inverse = np.linalg.inv(affine)
    for index, source in enumerate(sources):
        assert _sampled(array, inverse, source) == (scan[index] > 0).tolist()


def _volume(segmentation):
    """The first segment as [slices, rows, columns], with its affine, by the header."""
    shared = segmentation.SharedFunctionalGroupsSequence[0]

    def number(groups):  # With a single segment, newer files say it once for all.
        holder = groups if "SegmentIdentificationSequence" in groups else shared
        return holder.SegmentIdentificationSequence[0].ReferencedSegmentNumber

    frames = [
        (np.array(groups.PlanePositionSequence[0].ImagePositionPatient, float), mask)
        for groups, mask in zip(
            segmentation.PerFrameFunctionalGroupsSequence, segmentation.pixel_array
        )
        if number(groups) == 1
    ]
    frames.sort(key=lambda frame: frame[0][2])
    directions = shared.PlaneOrientationSequence[0].ImageOrientationPatient
    spacing = shared.PixelMeasuresSequence[0].PixelSpacing
    affine = np.eye(4)
    affine[:3, 0] = frames[1][0] - frames[0][0]
    affine[:3, 1] = np.array(directions[3:], float) * float(spacing[0])
    affine[:3, 2] = np.array(directions[:3], float) * float(spacing[1])
    affine[:3, 3] = frames[0][0]
    return np.stack([mask for _, mask in frames]), affine


def _sampled(array, inverse, source):
    """Takes the values of a volume [slices, rows, columns] at a slice's pixels."""
    rows, cols = np.indices((source.Rows, source.Columns))
    places = np.array(source.ImagePositionPatient, float) + np.stack(
        [
            cols * float(source.PixelSpacing[1]),
            rows * float(source.PixelSpacing[0]),
            np.zeros(rows.shape),
        ],
        axis=-1,
    )
    voxels = np.rint(places @ inverse[:3, :3].T + inverse[:3, 3]).astype(int)
    inside = ((voxels >= 0) & (voxels < array.shape)).all(axis=-1)
    clipped = tuple(np.moveaxis(voxels.clip(0, np.array(array.shape) - 1), -1, 0))
    return (array[clipped].astype(bool) & inside).tolist()


def test_nifti_of_a_series_lies_on_it(result, series, scan):
    nibabel = pytest.importorskip("nibabel")
    _, folder = result
    samples = nibabel.load(folder / "samples.nii.gz")
    assert samples.shape[3] == 5
    inverse = np.linalg.inv(samples.affine)
    for path, pixels in zip(sorted(series.iterdir()), scan):
        source = pydicom.dcmread(path)
        left_posterior = np.diag([-1.0, -1.0, 1.0, 1.0])
        found = _sampled(
            np.asarray(samples.dataobj)[..., 0], inverse @ left_posterior, source
        )
        assert found == (pixels > 0).tolist()


@pytest.mark.parametrize("codes", ["RAS", "LPS", "SLA"])
def test_nifti_lies_on_its_input(tmp_path, model, scan, codes):
    nibabel = pytest.importorskip("nibabel")
    affine = np.diag([-0.8, -0.5, 2.0, 1.0])
    affine[:3, 3] = 30, -20, 100
    image = nibabel.Nifti1Image(scan.transpose(2, 1, 0).astype(np.int16), affine)
    turn = nibabel.orientations.ornt_transform(
        nibabel.io_orientation(affine), nibabel.orientations.axcodes2ornt(codes)
    )
    turned = image.as_reoriented(turn)
    nibabel.save(turned, tmp_path / "scan.nii.gz")
    place = affine @ (*_POINT[::-1], 1)
    found = _run(
        model,
        tmp_path / "scan.nii.gz",
        tmp_path / "out",
        center=None,
        point_mm=",".join(map(str, place[:3])),
    )
    lesion = found["lesions"][0]
    assert lesion["point"] == {"slice": 4, "row": 20, "col": 14}
    folder = tmp_path / "out" / "scan_lesion"
    assert not (folder / "hypotheses.dcm").exists()
    samples = nibabel.load(folder / "samples.nii.gz")
    assert nibabel.aff2axcodes(samples.affine) == tuple(codes)
    mask = np.zeros(turned.shape, bool)
    # The box lies on the input's own grid: whole steps from its first voxel.
    start = np.linalg.inv(turned.affine) @ samples.affine
    np.testing.assert_allclose(start[:3, :3], np.eye(3), atol=1e-6)
    np.testing.assert_allclose(start[:3, 3], np.rint(start[:3, 3]), atol=1e-4)
    first = np.rint(start[:3, 3]).astype(int)
    box = tuple(slice(f, f + n) for f, n in zip(first, samples.shape))
    mask[box] = np.asarray(samples.dataobj)[..., 0]
    np.testing.assert_array_equal(mask, turned.get_fdata() > 0)


def test_segmentation_gives_the_points_of_the_next_run(tmp_path, model, series, result):
    _, folder = result
    images = read_inputs([str(series)], CropConfig())
    (point, *_) = points.read(str(folder / "hypotheses.dcm"), images)
    found = _run(
        model, series, tmp_path, center=None, points=str(folder / "hypotheses.dcm")
    )
    assert point.name == "lesion_01"
    assert found["lesions"][0]["lesion"] == "series_lesion_01"
    place = found["lesions"][0]["point"]
    assert place["slice"] in (4, 5) and place["row"] in (20, 21) and place["col"] == 14
    other = tmp_path / "other.dcm"
    dataset = pydicom.dcmread(folder / "hypotheses.dcm")
    dataset.FrameOfReferenceUID = "9.9"
    dataset.save_as(other)
    with pytest.raises(ValueError, match="in the frame of reference 9.9, expected 1.2"):
        points.read(str(other), images)


def test_many_lesions_in_one_go(tmp_path, model, series):
    (tmp_path / "points.csv").write_text(
        "name,slice,row,col\nblock,4,20,14\nnothing,7,6,6\n"
    )
    found = _run(
        model,
        series,
        tmp_path / "out",
        center=None,
        points=str(tmp_path / "points.csv"),
    )
    names = [lesion["lesion"] for lesion in found["lesions"]]
    assert names == ["series_block", "series_nothing"]
    assert found["lesions"][1]["presence_probability"] == 0
    # Nothing to mark: no segmentation, but a summary.
    assert not (tmp_path / "out" / "series_nothing" / "hypotheses.dcm").exists()
    assert (tmp_path / "out" / "series_nothing" / "summary.json").exists()


def test_missing_and_doubled_slices(tmp_path, model, series):
    broken = tmp_path / "series"
    shutil.copytree(series, broken)
    (broken / "000007.dcm").unlink()
    found = _run(model, broken, tmp_path / "out")
    assert found["lesions"][0]["slices"] == [1, 6]  # Up to the gap.
    notes = found["lesions"][0]["notes"]
    assert "the lesion may go on above: slices are missing" in notes
    dataset = pydicom.dcmread(broken / "000003.dcm")
    dataset.SOPInstanceUID = "1.2.99"
    dataset.save_as(broken / "again.dcm")
    with pytest.raises(ValueError, match="lies at the same height as"):
        _run(model, broken, tmp_path / "again")
    assert not (tmp_path / "again" / "summary.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"center": (40, 1, 1)}, "center is 40,1,1: outside of the volume"),
        ({"point_mm": "1,2,3"}, "center 4,20,14 and point_mm 1,2,3 are given"),
        (
            {"center": None, "point_mm": "1,2,3"},
            "point_mm is 1,2,3: outside of the volume",
        ),
        ({"crop": {"whole": True}}, "whole is True, expected none"),
        ({"settings": {"output_format": "png"}}, "output_format is 'png', expected"),
    ],
)
def test_bad_requests_are_refused(tmp_path, model, series, changes, message):
    with pytest.raises(ValueError, match=message):
        _run(model, series, tmp_path / "out", **changes)
    assert not list((tmp_path / "out").glob("*lesion*"))


def test_one_slice_and_pictures_are_refused(tmp_path, model, series):
    one = tmp_path / "one"
    one.mkdir()
    shutil.copy(series / "000004.dcm", one)
    with pytest.raises(ValueError, match="a single slice, expected a series or volume"):
        _run(model, one, tmp_path / "out", center=(0, 20, 14))
    np.save(tmp_path / "stack.npy", np.zeros((3, 32, 32), np.int16))
    with pytest.raises(ValueError, match="not a volume, expected a DICOM series or a"):
        _run(model, tmp_path / "stack.npy", tmp_path / "out")


def test_flags_of_points_are_checked():
    assert LesionConfig(point_mm="1,-2,3.5").point_numbers == (1, -2, 3.5)
    with pytest.raises(ValueError, match="point_mm is '1,2', expected x,y,z in mm"):
        LesionConfig(point_mm="1,2")
    with pytest.raises(ValueError, match="expected one only"):
        LesionConfig(point_mm="1,2,3", points="x.csv")
    with pytest.raises(ValueError, match="which names a slice, expected no other"):
        CropConfig(center="1,2,3", slice="4")
    assert CropConfig(center="1,2,3").follows and not CropConfig(center="1,2").follows
