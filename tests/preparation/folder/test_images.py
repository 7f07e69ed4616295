"""What becomes of the images' values: one rule for all, by hand-worked numbers."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
from helpers import folders

from tf_probunet.imaging.input_image import InputImage
from tf_probunet.preparation.folder import images
from tf_probunet.preparation.folder.images import Look, Rule


def _image(values, what="float"):
    pixels = np.array(values, np.float32)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return InputImage("a", "a.npy", "array", pixels, what)


def _stored(rule, *values):
    return [rule.store(p)[..., 0].tolist() for p in rule.apply([*map(_image, values)])]


def test_windows():
    rule = Rule("window", 1, (-100.0, 155.0))
    assert _stored(rule, [[-200, -100, 0, 155, 900]]) == [[[0, 0, 100, 255, 255]]]


def test_the_range_of_a_file_is_that_of_all_its_slices():
    assert _stored(Rule("minmax", 1), [[0, 255]], [[51, 510]]) == [
        [[0, 128]],
        [[26, 255]],
    ]


def test_percentiles_leave_outliers_out():
    values = np.arange(1001.0).reshape(7, 143)
    values[0, 0], values[-1, -1] = -1e6, 1e6
    (found,) = _stored(Rule("percentiles", 1), values)
    # The sixth and the sixth last of 1001 sorted values are 0.5 and 99.5 %.
    flat = np.array(found).ravel()
    assert flat[5] == 0 and flat[995] == 255 and flat[0] == 0 and flat[-1] == 255
    assert flat[500] == round(255 * 495 / 990)


def test_constant_images_are_black():
    assert _stored(Rule("percentiles", 1), [[7, 7]]) == [[[0, 0]]]


def test_hounsfield_units():
    rule = Rule("hu", 1)
    found = _stored(rule, [[-3024, -1024.4, -0.6, 3071, 99999]])
    assert found == [[[-1024, -1024, -1, 3071, 32767]]]
    assert (rule.dtype, rule.intensity) == ("int16", "hu")


def test_channels():
    red = _image([[(200, 0, 0), (0, 100, 0)]], "uint8")
    grey = _image([[(5, 5, 5), (9, 9, 9)]], "uint8")
    plain = _image([[1, 2]], "uint8")
    to_grey, to_rgb = Rule("uint8", 1), Rule("uint8", 3)
    np.testing.assert_allclose(to_grey.apply([red])[0][..., 0], [[59.8, 58.7]])
    assert to_grey.apply([grey])[0].tolist() == [[[5], [9]]]
    assert to_rgb.apply([plain])[0].tolist() == [[[1, 1, 1], [2, 2, 2]]]
    assert images.look([red]).is_colored and not images.look([grey]).is_colored


def _choose(*looks, intensity="auto", window=None, channels="auto"):
    named = {f"{i}.png": look for i, look in enumerate(looks)}
    return images.choose_rule(
        named, intensity=intensity, window=window, channels=channels
    )


GREY = Look("uint8", False, False, 0, 255)
COLOR = Look("uint8", False, True, 0, 255)
DEEP = Look("uint16", False, False, 12, 4095)
REAL = Look("float", False, False, 0.0, 1.0)
CT = Look("hu", False, False, -1024, 3071)
MR = Look("hu", False, False, 0, 1800)
DICOM = Look("hu", True, False, 0, 100)


@pytest.mark.parametrize(
    ("looks", "rule"),
    [
        ([GREY, GREY], Rule("uint8", 1)),
        ([GREY, COLOR], Rule("uint8", 3)),
        ([DEEP, DEEP], Rule("percentiles", 1)),
        ([REAL, REAL], Rule("window", 1, (0.0, 1.0))),
        ([Look("hu", False, False, 0.0, 1.0)], Rule("window", 1, (0.0, 1.0))),
        ([REAL, Look("float", False, False, 0.0, 7.0)], Rule("percentiles", 1)),
        ([CT, CT, MR], Rule("hu", 1)),
        ([MR, MR, CT], Rule("percentiles", 1)),
        ([DICOM], Rule("hu", 1)),
    ],
)
def test_recognised_rules(looks, rule):
    assert _choose(*looks) == rule


def test_chosen_rules():
    assert _choose(DEEP, intensity="minmax") == Rule("minmax", 1)
    assert _choose(DEEP, intensity="0,4095", window=(0.0, 4095.0)) == Rule(
        "window", 1, (0.0, 4095.0)
    )
    assert _choose(COLOR, channels="grey") == Rule("uint8", 1)
    assert _choose(GREY, channels="rgb") == Rule("uint8", 3)


def test_rules_that_do_not_fit():
    with pytest.raises(ValueError, match="0.png and 0 other files hold 8-bit.*1.png"):
        _choose(GREY, DEEP)
    with pytest.raises(ValueError, match="1.png: uint16 values from 12 to 4095 .in 1 "):
        _choose(CT, DEEP, intensity="hu")
    with pytest.raises(ValueError, match="0.png: uint16 values.*--intensity=uint8"):
        _choose(DEEP, intensity="uint8")


def test_photos_that_are_shown_turned(tmp_path):
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    path = folders.save(tmp_path / "a.jpg", folders.picture(0), exif=exif)
    with pytest.raises(ValueError, match=r"a.jpg: its EXIF data.*\(orientation 6\)"):
        images.read(path, "auto")
    exif[0x0112] = 1
    path = folders.save(tmp_path / "a.jpg", folders.picture(0), exif=exif)
    assert images.read(path, "auto")[0].shape == (12, 16)


def test_images_that_are_no_use(tmp_path):
    half = np.full((4, 4, 4), 99, np.uint8)
    path = folders.save(tmp_path / "a.png", half)
    with pytest.raises(ValueError, match="a.png: 4 channels .*expected grey or RGB"):
        images.read(path, "auto")
    np.save(tmp_path / "a.npy", np.array([[0.0, np.inf]]))
    with pytest.raises(ValueError, match="a.npy: values that are NaN or infinite"):
        images.read(tmp_path / "a.npy", "auto")
