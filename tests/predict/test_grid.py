"""Tests of regions and padding against hand-worked and exact cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.predict import grid

_REGION = grid.Region(0, 0, 20, 30)


def _plan(region=_REGION, **changes):
    known = {"spacing_mm": None, "target_mm": None, "divisor": 8, "pad": True}
    return grid.plan(region, about="x.png", **{**known, **changes})


def test_sizes_follow_from_the_spacing():
    planned = _plan(spacing_mm=(0.7, 0.8), target_mm=0.5)
    assert planned.shape == (28, 48)  # 20 * 1.4 and 30 * 1.6
    assert planned.padded == (32, 48)


def test_without_a_spacing_nothing_is_resampled():
    assert _plan(target_mm=0.5).shape == (20, 30)
    assert _plan(spacing_mm=(0.7, 0.7)).shape == (20, 30)


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(ValueError) as caught:
        _plan(pad=False)
    assert str(caught.value) == (
        "x.png: 20x30 pixels, but the model needs multiples of 8, such as 16x24 or "
        "24x32; give --pad or --region, or resize the image as those of the training "
        "were"
    )
    with pytest.raises(ValueError, match=r"4x4 pixels, .* such as 8x8; give --pad"):
        _plan(grid.Region(0, 0, 4, 4), pad=False)
    with pytest.raises(
        ValueError, match=r"28x42 pixels \(after resampling to 0.5 mm\)"
    ):
        _plan(pad=False, spacing_mm=(0.7, 0.7), target_mm=0.5)


def test_there_and_back_keeps_a_smooth_image():
    rows, cols = np.mgrid[:24, :36]
    image = np.sin(rows / 6)[..., None] + np.cos(cols / 8)[..., None]
    planned = _plan(grid.Region(2, 3, 20, 30), spacing_mm=(0.7, 0.8), target_mm=0.5)
    back = planned.to_input(planned.pad(planned.to_model(image)))
    expected = image[2:22, 3:33]
    np.testing.assert_allclose(back[2:-2, 2:-2], expected[2:-2, 2:-2], atol=0.02)
    np.testing.assert_allclose(back, expected, atol=0.04)  # The border is cut flat.


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 4, 16]))
def test_padding_is_cut_off_again(height, width, divisor):
    image = np.random.default_rng(0).normal(size=(height, width, 1))
    planned = _plan(grid.Region(0, 0, height, width), divisor=divisor)
    padded = planned.pad(planned.to_model(image))
    assert padded.shape[0] % divisor == padded.shape[1] % divisor == 0
    np.testing.assert_array_equal(planned.to_input(padded), image)


def test_padding_mirrors():
    planned = grid.Grid(grid.Region(0, 0, 1, 3), (1, 3), (1, 7))
    padded = planned.pad(np.array([1.0, 2, 3])[None, :, None])
    assert padded[0, :, 0].tolist() == [2, 1, 1, 2, 3, 3, 2]


def test_the_network_sees_the_middle():
    planned = _plan(grid.Region(5, 9, 20, 30), seen_size=8, pad=False)
    assert planned.part == planned.seen == grid.Region(6, 11, 8, 8)
    assert planned.seen_in_image == grid.Region(11, 20, 8, 8)
    assert planned.padded == (8, 8)
    image = np.random.default_rng(0).random((40, 40, 1))
    seen = planned.pad(planned.to_model(image))
    np.testing.assert_array_equal(seen, image[11:19, 20:28])


def test_what_is_not_seen_is_background():
    planned = _plan(grid.Region(0, 0, 4, 5), seen_size=2, divisor=2, pad=False)
    probabilities = np.full((2, 2, 3), [0.2, 0.3, 0.5])
    found = planned.to_input(probabilities)
    expected = np.zeros((4, 5, 3))
    expected[..., 0] = 1
    expected[1:3, 1:3] = [0.2, 0.3, 0.5]
    np.testing.assert_array_equal(found, expected)


def test_the_network_sees_a_pixel_and_its_surroundings():
    around = {"seen_size": 8, "pad": False}
    middle = _plan(grid.Region(4, 6, 16, 16), center=(12, 14), **around)
    assert middle == _plan(grid.Region(4, 6, 16, 16), **around)
    # A region that was moved inwards: the pixel is not in its middle.
    corner = _plan(grid.Region(0, 24, 16, 16), center=(5, 39), **around)
    assert corner.seen == grid.Region(1, 8, 8, 8)
    assert corner.seen_in_image == grid.Region(1, 32, 8, 8)


def test_what_is_seen_of_a_resampled_region():
    planned = _plan(
        grid.Region(10, 20, 20, 40),
        spacing_mm=(0.8, 0.4),
        target_mm=0.5,
        seen_size=16,
        center=(20, 40),
        pad=False,
    )
    assert planned.shape == (32, 32)
    assert planned.seen == grid.Region(8, 8, 16, 16)
    assert planned.seen_in_image == grid.Region(15, 30, 10, 20)


def test_a_region_that_is_seen_as_a_whole():
    planned = _plan(grid.Region(0, 0, 8, 16), seen_size=16, pad=False)
    assert planned.part is None
    assert planned.seen == planned.seen_in_image == grid.Region(0, 0, 8, 16)


def test_region_around_a_pixel():
    assert grid.region_around((10, 20), (8, 6), (40, 40)) == grid.Region(6, 17, 8, 6)
    assert grid.region_around((1, 39), (8, 6), (40, 40)) == grid.Region(0, 34, 8, 6)
    assert grid.region_around((3, 3), (8, 8), (5, 40)) == grid.Region(0, 0, 5, 8)


@pytest.mark.parametrize("numbers", [(0, 0, 9, 4), (-1, 0, 4, 4), (0, 0, 0, 4)])
def test_region_outside(numbers):
    with pytest.raises(ValueError, match="expected one inside the image's 8x8 pixels"):
        grid.Region(*numbers).check_inside((8, 8), "x.png")
