"""Tests of what is refused before anything is read."""

from __future__ import annotations

import dataclasses

import pytest

from tf_probunet.predict.config import CropConfig, PredictConfig


def test_numbers():
    crop = CropConfig(slice="3:5", region="1,2,30,40", spacing_mm="0.7,0.8")
    assert crop.slices == (3, 5)
    assert crop.region_numbers == (1, 2, 30, 40)
    assert crop.spacing_numbers == (0.7, 0.8)
    assert CropConfig(slice="3").slices == (3, 4)
    assert CropConfig(window="-1000,400").window_numbers == (-1000.0, 400.0)
    assert CropConfig(window="minmax").window_numbers is None
    assert crop.cuts and CropConfig(center="1,2").cuts
    nothing = CropConfig()
    assert not nothing.cuts
    assert nothing.slices is nothing.region_numbers is nothing.center_numbers is None


def test_the_end_of_a_range_is_not_included():
    assert list(CropConfig(slice="1:3").choose(3, about="x")) == [1, 2]
    message = "has 3 slices, so that slice 3 .* expected 0 to 2; a range ends before"
    with pytest.raises(ValueError, match=message):
        CropConfig(slice="1:4").choose(3, about="x")
    fields = {field.name: field for field in dataclasses.fields(CropConfig)}
    assert "the end is not included" in fields["slice"].metadata["help"]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"slice": "x"}, "slice is 'x', expected a number or a range"),
        ({"slice": "5:5"}, "slice is '5:5'"),
        ({"slice": "-1"}, "slice is '-1'"),
        ({"region": "1,2,3"}, "region is '1,2,3', expected 4 whole numbers"),
        ({"center": "1,b"}, "center is '1,b', expected 2 whole numbers"),
        ({"center": "367 318"}, "'367 318', expected 2 whole numbers such as 210,300$"),
        ({"slice": "5:x"}, r"a range as 10:20 \(10 to 19\)"),
        ({"slice": "5", "z_mm": 1.0}, "slice 5 and z_mm 1.0 are given, expected one"),
        ({"z_mm": float("nan")}, "z_mm is nan, expected a height in mm"),
        ({"spacing_mm": "0,1"}, "expected two sizes over 0"),
        ({"spacing_mm": "nan,1"}, "spacing_mm is 'nan,1'"),
        ({"window": "5,5"}, "expected low,high with low below high"),
        ({"region": "1,2,3,4", "center": "1,2"}, "region is 1,2,3,4 and center 1,2"),
    ],
)
def test_bad_crop(settings, message):
    with pytest.raises(ValueError, match=message):
        CropConfig(**settings)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_samples": 0}, "num_samples is 0, expected 1 to 4096"),
        ({"group_iou": 1.5}, "group_iou is 1.5, expected 0 to 1"),
        ({"seed": 2**31}, "seed is 2147483648"),
        ({"output_format": "jpeg"}, "output_format is 'jpeg', expected one of auto"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        PredictConfig(**settings)
