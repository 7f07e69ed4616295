"""Tests that tiles cover an image, on the model's grid, and blend without a seam."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.predict.tiles import tiles


def test_a_small_image_is_one_tile():
    (tile,) = tiles((16, 24), 32, 8)
    assert (tile.rows, tile.cols) == (slice(0, 16), slice(0, 24))
    np.testing.assert_array_equal(tile.weights, np.ones((16, 24)))


def test_three_tiles_by_hand():
    parts = tiles((8, 64), 32, 8)
    # A quarter of 32 is shared at least: steps of 24 at most, 16 when spread evenly.
    assert [part.cols for part in parts] == [
        slice(0, 32),
        slice(16, 48),
        slice(32, 64),
    ]
    first, middle, last = (part.weights[0] for part in parts)
    rise = np.sin(np.pi / 2 * (np.arange(8) + 0.5) / 8) ** 2
    np.testing.assert_allclose(first, [1] * 24 + list(rise[::-1]), atol=1e-6)
    np.testing.assert_allclose(last, first[::-1], atol=1e-6)
    np.testing.assert_allclose(middle, np.minimum(first, last), atol=1e-6)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 40),
    cols=st.integers(1, 40),
    size=st.integers(1, 90),
    divisor=st.sampled_from([1, 2, 4, 8]),
)
def test_tiles_cover_the_image_and_blend_to_it(rows, cols, size, divisor):
    shape = (rows * divisor, cols * divisor)
    image = np.random.default_rng(1).normal(size=shape)
    total, weight = np.zeros(shape), np.zeros(shape)
    for tile in tiles(shape, size, divisor):
        for part, length in zip((tile.rows, tile.cols), shape):
            assert part.start % divisor == part.stop % divisor == 0
            assert 0 <= part.start < part.stop <= length
            assert part.stop - part.start <= max(size, divisor)
        assert (tile.weights > 0).all()
        total[tile.rows, tile.cols] += image[tile.rows, tile.cols] * tile.weights
        weight[tile.rows, tile.cols] += tile.weights
    np.testing.assert_allclose(total / weight, image, rtol=1e-5, atol=1e-6)
