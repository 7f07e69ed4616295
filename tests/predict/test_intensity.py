"""Tests of the window: exact values, and values that a model cannot take."""

from __future__ import annotations

import numpy as np
import pytest

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict.intensity import brightened, fit_channels, normalise


def _normalised(values, kind, model, **crop):
    pixels = np.array(values, np.float32).reshape(1, -1, 1)
    image = InputImage("x", "x.file", "array", pixels, kind)
    return normalise(pixels, image, model, CropConfig(**crop))[0, :, 0]


def test_hounsfield_units_by_the_models_window(hu_model):
    values = [-2000, -1000, -300, 400, 900]
    expected = [0, 0, 0.5, 1, 1]
    for kind in ("hu", "float"):
        found = _normalised(values, kind, hu_model)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert found.dtype == np.float32


def test_8_bit_values(picture_model):
    found = _normalised([0, 51, 255], "uint8", picture_model)
    np.testing.assert_allclose(found, [0, 0.2, 1], atol=1e-6)


def test_real_numbers_from_0_to_1(picture_model):
    found = _normalised([0, 0.25, 1], "float", picture_model)
    np.testing.assert_allclose(found, [0, 0.25, 1])
    with pytest.raises(
        ValueError, match="real numbers from 0 to 1.5, .* expects 0 to 1"
    ):
        _normalised([0, 1.5], "float", picture_model)


def test_a_window_for_8_bit_models(picture_model):
    found = _normalised([-100, 0, 100], "hu", picture_model, window="-100,300")
    np.testing.assert_allclose(found, [0, 0.25, 0.5], atol=1e-6)
    found = _normalised([-100, 0, 100], "hu", picture_model, window="minmax")
    np.testing.assert_allclose(found, [0, 0.5, 1], atol=1e-6)
    flat = _normalised([7, 7], "uint16", picture_model, window="minmax")
    assert flat.tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
def test_pictures_for_a_model_of_hounsfield_units(hu_model, kind):
    with pytest.raises(ValueError, match=r"x\.file: holds .* trained on Hounsfield"):
        _normalised([0, 1], kind, hu_model)


def test_a_window_for_a_model_that_has_its_own(hu_model):
    with pytest.raises(ValueError, match="window is minmax, expected none"):
        _normalised([0, 1], "hu", hu_model, window="minmax")


def test_hounsfield_units_for_a_model_of_pictures(picture_model):
    with pytest.raises(ValueError, match="8-bit pictures; --window=low,high or"):
        _normalised([0, 1], "hu", picture_model)


@pytest.mark.parametrize("kind", ["hu", "uint16", "float"])
def test_a_model_of_rescaled_pictures_rescales(frame_model, kind):
    found = _normalised([100, 200, 500], kind, frame_model)
    np.testing.assert_allclose(found, [0, 0.25, 1], atol=1e-6)
    found = _normalised([0, 100, 300], kind, frame_model, window="0,200")
    np.testing.assert_allclose(found, [0, 0.5, 1], atol=1e-6)


def test_whole_8_bit_pictures_are_taken_as_they_are(frame_model):
    found = _normalised([51, 102], "uint8", frame_model)
    np.testing.assert_allclose(found, [0.2, 0.4], atol=1e-6)
    found = _normalised([0.25, 0.5], "float", frame_model)
    np.testing.assert_allclose(found, [0.25, 0.5])


@pytest.mark.parametrize("cut", [{"center": "0,0"}, {"region": "0,0,1,3"}])
def test_parts_of_8_bit_pictures_are_rescaled(frame_model, picture_model, cut):
    found = _normalised([51, 102, 255], "uint8", frame_model, **cut)
    np.testing.assert_allclose(found, [0, 0.25, 1], atol=1e-6)
    found = _normalised([51, 102, 255], "uint8", frame_model, window="0,255", **cut)
    np.testing.assert_allclose(found, [0.2, 0.4, 1], atol=1e-6)
    found = _normalised([51, 102, 255], "uint8", picture_model, **cut)
    np.testing.assert_allclose(found, [0.2, 0.4, 1], atol=1e-6)


def test_channels(hu_model, picture_model):
    image = InputImage("x", "x.png", "picture", np.zeros((8, 8, 2)), "uint8")
    with pytest.raises(ValueError, match=r"x\.png: has 2 channels, .* expects 1$"):
        normalise(image.pixels, image, hu_model, CropConfig())
    colours = np.zeros((8, 8, 3))
    colours[3, 4, 1] = 1
    image = InputImage("x", "x.png", "picture", colours, "uint8")
    with pytest.raises(ValueError, match=r"x\.png: is in colour, .* expects grey"):
        fit_channels(image, picture_model)


def test_grey_pictures_stored_as_rgb(picture_model):
    grey = np.arange(64.0).reshape(8, 8, 1)
    image = InputImage("x", "x.png", "picture", np.repeat(grey, 3, -1), "uint8")
    np.testing.assert_array_equal(fit_channels(image, picture_model), grey)


def test_pictures_are_not_dark_because_of_bone():
    """Rescaled to its own range, tissue beside a rib lies at 0.4."""
    image = np.full((40, 40, 1), 0.08)  # Lung.
    image[:, 25:] = 0.4
    assert brightened(image).max() == pytest.approx(0.75)
    image[:4] = 1.0
    shown = brightened(image)
    assert shown[20, 30, 0] == pytest.approx(0.75)
    assert shown[20, 5, 0] == pytest.approx(0.15)
    assert shown.max() == 1
    lung = np.where(image < 0.2, image, 0.1)
    np.testing.assert_allclose(brightened(lung), 2.5 * lung)
    bright = np.where(image > 0.2, 0.9, 0.1)
    np.testing.assert_array_equal(brightened(bright), bright)
    colours = np.repeat(image, 3, axis=-1)
    np.testing.assert_array_equal(brightened(colours), colours)
    flat = np.zeros((4, 4, 1))
    np.testing.assert_array_equal(brightened(flat), flat)


@pytest.mark.parametrize(
    ("rule", "window", "expected"),
    [
        ("window", [-100, 300], [0, 0.25, 1]),
        ("minmax", None, [0, 0.2, 1]),
        # 0.5 % of the way through three values is 1 % of the way to the second.
        ("percentiles", None, [0, 99 / (396 + 99), 1]),
    ],
)
def test_values_are_mapped_as_in_the_preparation(
    picture_model, monkeypatch, rule, window, expected
):
    preparation = {"intensity": rule, "window": window}
    monkeypatch.setitem(picture_model.dataset, "preparation", preparation)
    found = _normalised([-100, 0, 400], "hu", picture_model)
    np.testing.assert_allclose(found, expected, atol=1e-6)
