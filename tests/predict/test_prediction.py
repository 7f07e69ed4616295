"""Tests of the part, the resolution and the samples of a prediction, and its notes."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import PIL.Image
import pytest
from helpers import dicom_writer
from helpers.predictions import (
    closed_form,
    hounsfield_units,
    predict_files,
    sample_labels,
)

from tf_probunet import limits
from tf_probunet.evaluation import sources
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.resampling import resample
from tf_probunet.predict import predict as predict_lib
from tf_probunet.predict import sampling
from tf_probunet.predict.prediction import model_input

_ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("quick_pictures")


def test_a_region_and_nothing_outside(hu_model, tmp_path):
    hounsfield = hounsfield_units((40, 50))
    np.save(tmp_path / "x.npy", hounsfield)
    crop = {"region": "5,7,16,24"}
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy", crop=crop)
    labels = sample_labels(tmp_path / "out" / "x")
    assert labels.shape == (4, 40, 50)
    values = ((hounsfield[5:21, 7:31] + 1000) / 1400).astype(np.float32)
    expected = closed_form(hu_model, values) > 0.5
    np.testing.assert_array_equal(labels[:, 5:21, 7:31], expected)
    labels[:, 5:21, 7:31] = 0
    assert not labels.any()


def test_a_crop_of_the_models_own_size(mm_model, tmp_path):
    dicom_writer.write_slice(
        tmp_path / "x.dcm",
        hounsfield_units((60, 60)),
        z_mm=0,
        uid="1.2",
        spacing_mm=(0.8, 0.4),
    )
    crop = {"center": "30,20"}
    path = tmp_path / "x.dcm"
    predict_files(mm_model, tmp_path / "out", path, crop=crop, output_format="png")
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    # 16 pixels of 0.5 mm are 10 rows of 0.8 mm and 20 columns of 0.4 mm.
    assert summary["region"] == {"row": 25, "col": 10, "height": 10, "width": 20}
    seen = {"row": 0, "col": 0, "height": 16, "width": 16}
    expected = {"shape": [16, 16], "seen": seen, "spacing_mm": 0.5}
    assert summary["model_resolution"] == expected


def _grey(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def _own_samples(model, seen, shape, row, col, seed=5):
    """Returns what the SavedModel samples of a part, in maps of an image's shape."""
    drawn = model.module.sample(seen[None, ..., None].astype(np.float32), 4, seed)
    labels = np.zeros((4, *shape), np.uint8)
    labels[:, row : row + 16, col : col + 16] = drawn["labels"][0]
    mean = np.zeros((*shape, 2), np.float32)
    mean[..., 0] = 1
    mean[row : row + 16, col : col + 16] = drawn["probabilities"][0].numpy().mean(0)
    return labels, mean


def test_a_picture_of_the_scored_size_is_taken_as_in_the_evaluation(
    frame_model, tmp_path
):
    pixels = _grey((32, 32))
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    result = predict_files(frame_model, tmp_path / "out", tmp_path / "x.png")
    (note,) = result["images"][0]["notes"]
    assert "samples the marked area reaches the edge" in note  # It is noise.
    labels, mean = _own_samples(frame_model, pixels[8:24, 8:24] / 255, (32, 32), 8, 8)
    assert labels.any()
    np.testing.assert_array_equal(sample_labels(tmp_path / "out" / "x"), labels)
    maps = np.load(tmp_path / "out" / "x" / "maps.npz")
    np.testing.assert_allclose(maps["mean"], mean, atol=1e-5)
    # The evaluation draws the same, but for its rule for the seed.
    images = (pixels / 255).astype(np.float32)[None, ..., None]
    drawn = sources.SavedModel(frame_model.path, seed=3).draw(["key"], images, 4)
    seed = [sources.image_seed(3, "key")]
    seen = pixels[8:24, 8:24] / 255
    labels, _ = _own_samples(frame_model, seen, (32, 32), 8, 8, seed)
    np.testing.assert_array_equal(drawn.labels[0], labels)


@pytest.mark.parametrize("shape", [(16, 16), (24, 32), (32, 20)])
def test_smaller_pictures_are_frames_too(frame_model, tmp_path, shape):
    pixels = _grey(shape)
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    predict_files(frame_model, tmp_path / "out", tmp_path / "x.png")
    row, col = (shape[0] - 16) // 2, (shape[1] - 16) // 2
    seen = pixels[row : row + 16, col : col + 16] / 255
    labels, _ = _own_samples(frame_model, seen, shape, row, col)
    np.testing.assert_array_equal(sample_labels(tmp_path / "out" / "x"), labels)


def test_a_frame_of_hounsfield_units_around_a_pixel(frame_model, tmp_path):
    hounsfield = hounsfield_units((60, 70))
    path = dicom_writer.write_slice(
        tmp_path / "x.dcm", hounsfield, z_mm=0, uid="1.2", spacing_mm=(0.7, 0.7)
    )
    crop = {"center": "30,40"}
    out = tmp_path / "out"
    result = predict_files(frame_model, out, path, crop=crop, output_format="png")
    assert "--window=minmax" in result["images"][0]["notes"][0]
    summary = json.loads((out / "x" / "summary.json").read_text())
    assert summary["region"] == {"row": 14, "col": 24, "height": 32, "width": 32}
    seen = {"row": 8, "col": 8, "height": 16, "width": 16}
    assert summary["model_resolution"]["seen"] == seen
    frame = hounsfield[14:46, 24:56].astype(np.float32)
    values = (frame - frame.min()) / (frame.max() - frame.min())
    labels, mean = _own_samples(frame_model, values[8:24, 8:24], (60, 70), 22, 32)
    np.testing.assert_array_equal(sample_labels(out / "x"), labels)
    maps = np.load(out / "x" / "maps.npz")
    inside = np.s_[14:46, 24:56]
    np.testing.assert_allclose(maps["mean"][inside], mean[inside], atol=1e-5)
    assert not np.delete(maps["mean"], np.s_[14:46], axis=0).any()


def test_a_pixel_near_the_border_is_seen(frame_model, tmp_path):
    pixels = _grey((60, 60))
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    crop = {"center": "10,50"}
    predict_files(frame_model, tmp_path / "out", tmp_path / "x.png", crop=crop)
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    assert summary["region"] == {"row": 0, "col": 28, "height": 32, "width": 32}
    seen = {"row": 2, "col": 14, "height": 16, "width": 16}
    assert summary["model_resolution"]["seen"] == seen


def test_larger_images_are_segmented_whole_if_that_is_meant(frame_model, tmp_path):
    pixels = _grey((40, 64))
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    message = (
        r"x\.png: a whole image of 40x64 pixels, but the model in .* expects crops of "
        r"32x32 pixels with a lesion in the middle; --center=row,col cuts one out, "
        "--whole takes all of it"
    )
    with pytest.raises(ValueError, match=message):
        predict_files(frame_model, tmp_path / "out", tmp_path / "x.png")
    assert not (tmp_path / "out").exists()
    crop = {"whole": True}
    result = predict_files(frame_model, tmp_path / "out", tmp_path / "x.png", crop=crop)
    (note,) = result["images"][0]["notes"]
    assert "expects crops of 32x32 pixels with a lesion in the middle" in note
    drawn = frame_model.module.sample((pixels / 255)[None, ..., None], 4, 5)
    np.testing.assert_array_equal(
        sample_labels(tmp_path / "out" / "x"), drawn["labels"][0]
    )


def test_a_whole_series_is_refused_before_anything_is_computed(
    frame_model, tmp_path, monkeypatch
):
    paths = dicom_writer.write_series(
        tmp_path / "scan", [hounsfield_units((60, 60))] * 3
    )

    def compute(*_):
        raise AssertionError("something is computed")

    monkeypatch.setattr(predict_lib, "predict_image", compute)
    for crop in ({}, {"center": "30,30"}):
        with pytest.raises(
            ValueError, match="is one of 3 slices, .* choose by --slice"
        ):
            predict_files(
                frame_model,
                tmp_path / "out",
                tmp_path / "scan",
                crop=crop,
                output_format="png",
            )
    for crop, inputs in (
        ({"center": "30,30", "slice": "0:2"}, [tmp_path / "scan"]),
        ({"center": "30,30"}, paths[:2]),
        ({"whole": True, "pad": True}, [tmp_path / "scan"]),
    ):
        with pytest.raises(AssertionError, match="something is computed"):
            predict_files(
                frame_model, tmp_path / "out", *inputs, crop=crop, output_format="png"
            )


def test_a_folder_of_large_pictures_is_no_series(frame_model, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        PIL.Image.fromarray(_grey((60, 60))).save(tmp_path / "in" / f"{name}.png")
    crop = {"center": "30,30"}
    result = predict_files(frame_model, tmp_path / "out", tmp_path / "in", crop=crop)
    assert [image["image"] for image in result["images"]] == ["a", "b"]


def _nodule(spacing_mm, size=80, diameter_mm=8.4):
    """A bright disc in lung, as a scanner with pixels of that size would show it."""
    rows, cols = (np.mgrid[:size, :size] - (size - 1) / 2) * spacing_mm
    return np.where(np.hypot(rows, cols) < diameter_mm / 2, 50, -850)


@pytest.mark.parametrize("spacing_mm", [0.4, 0.5, 0.65, 0.7, 0.98, 1.0])
def test_a_model_of_native_pixels_gets_typical_ones(frame_model, tmp_path, spacing_mm):
    path = dicom_writer.write_slice(
        tmp_path / "x.dcm",
        _nodule(spacing_mm),
        z_mm=0,
        uid="1.2",
        spacing_mm=(spacing_mm, spacing_mm),
    )
    out = tmp_path / "out"
    crop = {"center": "40,40"}
    result = predict_files(frame_model, out, path, crop=crop, output_format="png")
    summary = json.loads((out / "x" / "summary.json").read_text())
    # The frame has 32 pixels of 0.7 mm, or of their own size if scans have such pixels.
    is_close = spacing_mm in (0.65, 0.7, 0.98)
    height = 32 if is_close else round(32 * 0.7 / spacing_mm)
    assert summary["region"]["height"] == height
    assert summary["model_resolution"]["shape"] == [32, 32]
    assert summary["model_resolution"]["spacing_mm"] == (None if is_close else 0.7)
    area = summary["hypotheses"][0]["areas"]["lesion"]["mm2"]
    assert area == pytest.approx(np.pi / 4 * 8.4**2, rel=0.1)
    notes = " ".join(result["images"][0]["notes"])
    resampled = (
        f"pixels of {spacing_mm:g} x {spacing_mm:g} mm were resampled to about 0.7"
    )
    assert (resampled in notes) == (not is_close)


def test_regions_at_a_typical_pixel_size_fit_the_model(frame_model, tmp_path):
    path = dicom_writer.write_slice(
        tmp_path / "x.dcm", _nodule(1.0), z_mm=0, uid="1.2", spacing_mm=(1.0, 1.0)
    )
    crop = {"region": "8,8,50,50"}  # 71.4 pixels of 0.7 mm
    predict_files(frame_model, tmp_path / "out", path, crop=crop, output_format="png")
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    assert summary["model_resolution"]["shape"] == [72, 72]
    with pytest.raises(
        ValueError, match=r"29x29 pixels \(after resampling to 0.7 mm\)"
    ):
        predict_files(
            frame_model,
            tmp_path / "o",
            path,
            crop={"region": "8,8,20,20"},
            output_format="png",
        )


def test_a_lesion_that_leaves_the_frame_is_noted(frame_model, tmp_path):
    crop = {"center": "40,40"}
    for diameter_mm, expected in ((6, False), (13, True)):  # The network sees 11.2 mm.
        path = dicom_writer.write_slice(
            tmp_path / "x.dcm",
            _nodule(0.5, diameter_mm=diameter_mm),
            z_mm=0,
            uid="1.2",
        )
        result = predict_files(
            frame_model,
            tmp_path / f"{diameter_mm}",
            path,
            crop=crop,
            output_format="png",
        )
        notes = " ".join(result["images"][0]["notes"])
        found = (
            "in 4 of 4 samples the marked area reaches the edge of the 16x16 "
            "pixels that the network sees (11 x 11 mm)" in notes
        )
        assert found == expected


def test_a_center_where_nothing_is_found_gets_a_hint(
    frame_model, tmp_path, monkeypatch
):
    def nothing(model, image, *, count, **_):
        probabilities = np.zeros((count, *image.shape[:2], 2), np.float32)
        probabilities[..., 0] = 1
        yield probabilities

    monkeypatch.setattr(sampling, "draw", nothing)
    PIL.Image.fromarray(_grey((60, 70))).save(tmp_path / "x.png")
    crop = {"center": "30,40"}
    result = predict_files(frame_model, tmp_path / "out", tmp_path / "x.png", crop=crop)
    notes = " ".join(result["images"][0]["notes"])
    assert "nothing is marked around row 30, column 40" in notes
    assert "is --center row,col (not column,row)" in notes
    assert "(--spacing_mm gives it); the model was trained on about 0.7 mm" in notes


def test_grey_pictures_stored_as_rgb(frame_model, tmp_path):
    pixels = _grey((32, 32))
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    PIL.Image.fromarray(pixels).convert("RGB").save(tmp_path / "rgb.png")
    predict_files(
        frame_model, tmp_path / "out", tmp_path / "x.png", tmp_path / "rgb.png"
    )
    np.testing.assert_array_equal(
        sample_labels(tmp_path / "out" / "x"), sample_labels(tmp_path / "out" / "rgb")
    )


def test_a_region_is_seen_as_a_whole(frame_model, tmp_path):
    PIL.Image.fromarray(_grey((40, 64))).save(tmp_path / "x.png")
    crop = {"region": "4,8,32,32"}
    predict_files(frame_model, tmp_path / "out", tmp_path / "x.png", crop=crop)
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    seen = {"row": 0, "col": 0, "height": 32, "width": 32}
    assert summary["model_resolution"]["seen"] == seen


def _street(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3)).astype(np.uint8)


def _blocks(pixels):
    """Means of 4x4 pixels, in 0..1."""
    height, width, channels = pixels.shape
    blocks = pixels.reshape(height // 4, 4, width // 4, 4, channels)
    return (blocks.mean(axis=(1, 3)) / 255).astype(np.float32)


@pytest.mark.parametrize("region", [None, (16, 32, 32, 64)])
def test_an_original_camera_frame_is_reduced_as_in_the_preparation(
    street_model, tmp_path, region
):
    pixels = _street((64, 128))
    PIL.Image.fromarray(pixels).save(tmp_path / "x.png")
    crop = {} if region is None else {"region": ",".join(map(str, region))}
    out = tmp_path / "out"
    result = predict_files(street_model, out, tmp_path / "x.png", crop=crop)
    row, col, height, width = region or (0, 0, 64, 128)
    part = np.s_[row : row + height, col : col + width]
    summary = json.loads((out / "x" / "summary.json").read_text())
    assert summary["model_resolution"]["shape"] == [height // 4, width // 4]
    drawn = street_model.module.sample(_blocks(pixels[part])[None], 4, 5)
    probabilities = [
        resample(p, (height, width)) for p in drawn["probabilities"][0].numpy()
    ]
    maps = np.load(out / "x" / "maps.npz")
    np.testing.assert_allclose(
        maps["mean"][part], np.mean(probabilities, axis=0), atol=1e-4
    )
    expected = np.zeros((4, 64, 128), int)
    expected[:, part[0], part[1]] = np.argmax(probabilities, axis=-1)
    assert (sample_labels(out / "x") != expected).mean() < 1e-3  # Ties, by rounding.
    (note,) = result["images"][0]["notes"]
    assert (
        "reduced by the factor 0.25: the model was trained on frames of 16x32" in note
    )


def test_frames_of_another_shape_and_parts_of_frames(street_model, tmp_path):
    for shape, expected, note in (
        ((60, 128), [16, 32], "reduced by the factor 0.25"),
        ((16, 32), [16, 32], None),
        (
            (8, 16),
            [8, 16],
            "a part of a camera frame of 16x32 pixels, at the same scale",
        ),
    ):
        PIL.Image.fromarray(_street(shape)).save(tmp_path / "x.png")
        out = tmp_path / f"{shape}"
        result = predict_files(street_model, out, tmp_path / "x.png")
        summary = json.loads((out / "x" / "summary.json").read_text())
        assert summary["model_resolution"]["shape"] == expected
        notes = result["images"][0]["notes"]
        assert not notes if note is None else note in notes[0]


def test_a_note_advises_no_flag_that_is_refused(street_model, tmp_path):
    """A model that was trained on crops and scored on whole images has no center."""
    data = dataclasses.replace(street_model.data, task="plain", crop_size=8)
    model = dataclasses.replace(street_model, data=data)
    image = InputImage("x", "x.png", "picture", _street((32, 64)), "uint8")
    (note,) = model_input(image, model, CropConfig()).notes
    assert "trained on crops of 8x8; --region cuts one out" in note
    street = dataclasses.replace(
        street_model, data=dataclasses.replace(data, task="switched")
    )
    frame = dataclasses.replace(image, pixels=_street((16, 32)))
    assert model_input(frame, street, CropConfig()).notes == []
    with pytest.raises(
        ValueError, match="was scored on whole images; expected --region"
    ):
        model_input(image, model, CropConfig(center="3,3"))


def test_there_and_back_through_the_models_resolution(mm_model, tmp_path):
    rows, cols = np.mgrid[:40, :40]
    disc = (rows - 19.5) ** 2 + (cols - 19.5) ** 2 < 100
    hounsfield = np.where(disc, 400, -1000)
    path = dicom_writer.write_slice(
        tmp_path / "x.dcm", hounsfield, z_mm=0, uid="1.2", spacing_mm=(0.8, 0.8)
    )
    predict_files(mm_model, tmp_path / "out", path, output_format="png", num_samples=16)
    labels = sample_labels(tmp_path / "out" / "x", 16).astype(bool)
    # Every sample is the disc, but for the pixels at its rim.
    shares = [(m & disc).sum() / (m | disc).sum() for m in labels if not m.all()]
    assert len(shares) >= 12 and min(shares) > 0.85


@pytest.mark.parametrize("kind", ["dicom", "nifti"])
def test_pixels_of_any_size_are_resampled_only_if_there_is_room(
    mm_model, tmp_path, kind
):
    hounsfield = np.zeros((512, 512), np.int16)
    if kind == "dicom":
        path, mm = tmp_path / "x.dcm", 99
        dicom_writer.write_slice(
            path, hounsfield, z_mm=0, uid="1.2", spacing_mm=(mm,) * 2
        )
    else:
        nibabel = pytest.importorskip("nibabel")
        path, mm = tmp_path / "x.nii", 5000
        nibabel.save(nibabel.Nifti1Image(hounsfield, np.diag([mm, mm, 1, 1])), path)
    side = 512 * mm * 2
    expected = rf"x\..*: {side}x{side} pixels \(of {mm} x {mm} mm, resampled to 0.5 mm"
    with pytest.raises(ValueError, match=expected + r"\) would take .* GiB of memory"):
        predict_files(mm_model, tmp_path / "out", path, output_format="png")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mm", ["1e308", "1e-320"])
@pytest.mark.parametrize("crop", [{"center": "3,3"}, {"pad": True}])
def test_pixels_whose_size_is_no_size(mm_model, tmp_path, mm, crop):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((32, 32), np.float32))
    crop = {**crop, "spacing_mm": f"{mm},{mm}"}
    with pytest.raises(ValueError, match=r"x.npy: pixels of .* mm, expected 0.000001"):
        predict_files(mm_model, tmp_path / "out", path, crop=crop)


def test_maps_of_a_large_image_are_refused_before_they_are_drawn(
    hu_model, tmp_path, monkeypatch
):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((64, 64), np.float32))
    monkeypatch.setattr(limits, "MAX_BYTES", 64 * 64 * (16 + 6 * 16 + 2 * 8 + 40))
    settings = {"crop": {"region": "0,0,8,8"}, "output_format": "png"}
    predict_files(hu_model, tmp_path / "out", path, num_samples=16, **settings)
    with pytest.raises(ValueError, match=r"x.npy: 17 samples of 64x64 pixels would .*"):
        predict_files(hu_model, tmp_path / "more", path, num_samples=17, **settings)
    assert not (tmp_path / "more").exists()


def test_tiles_give_the_whole_images_samples(hu_model, tmp_path):
    np.save(tmp_path / "x.npy", hounsfield_units((64, 48)))
    predict_files(hu_model, tmp_path / "whole", tmp_path / "x.npy")
    predict_files(hu_model, tmp_path / "tiles", tmp_path / "x.npy", tile_size=24)
    np.testing.assert_array_equal(
        sample_labels(tmp_path / "whole" / "x"), sample_labels(tmp_path / "tiles" / "x")
    )


def test_sizes_that_do_not_fit_need_padding(hu_model, tmp_path):
    hounsfield = hounsfield_units((13, 21))
    np.save(tmp_path / "x.npy", hounsfield)
    with pytest.raises(ValueError, match="13x21 pixels, .* such as 8x16 or 16x24"):
        predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy")
    assert not (tmp_path / "out").exists()
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy", crop={"pad": True})
    labels = sample_labels(tmp_path / "out" / "x")
    padded = np.pad(hounsfield, [(1, 2), (1, 2)], mode="symmetric")
    values = ((padded + 1000) / 1400).astype(np.float32)
    expected = closed_form(hu_model, values)[:, 1:14, 1:22] > 0.5
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize(
    ("resize", "fits"), [("16,24", True), ("24", True), ("24,16", False), ("16", False)]
)
def test_pictures_for_a_model_of_resized_images(
    picture_model, monkeypatch, resize, fits
):
    monkeypatch.setitem(picture_model.dataset, "preparation", {"resize": resize})
    image = InputImage("x", "x", "picture", np.zeros((16, 24, 1), np.float32), "uint8")
    expected = (
        f"the training images were resized (--resize={resize}), but this one has 16x24 "
        "pixels; resize it alike"
    )
    notes = model_input(image, picture_model, CropConfig()).notes
    assert (expected in notes) == (not fits)
