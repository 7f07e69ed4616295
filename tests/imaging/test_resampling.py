"""Tests of resampling against hand-worked and exact cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.imaging.resampling import (
    area_weights,
    crop_weights,
    resample,
    resample_labels,
)


def test_weights_by_hand():
    # To pixels of half the size: quarters and three quarters, and at the edge 1.
    weights, inside = crop_weights(0, 4, 0.5, 2)
    np.testing.assert_allclose(
        weights, [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]], atol=1e-12
    )
    assert inside.all()
    # To pixels of twice the size: a triangle of reach 2.
    weights, _ = crop_weights(1, 1, 2.0, 6)
    np.testing.assert_allclose(weights, [[0, 0.125, 0.375, 0.375, 0.125, 0]])
    # Outside.
    weights, inside = crop_weights(-1, 3, 1.0, 1)
    assert inside.tolist() == [False, True, False]
    assert weights.tolist() == [[0], [1], [0]]


@settings(max_examples=40)
@given(
    st.integers(-50, 50), st.integers(1, 60), st.floats(0.4, 2.5), st.integers(1, 70)
)
def test_weights_sum_to_one_inside(start, size, scale, length):
    weights, inside = crop_weights(start, size, scale, length)
    assert weights.shape == (size, length) and (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), inside, atol=1e-12)


def test_the_same_size_is_left_alone():
    values = np.random.default_rng(0).normal(size=(5, 7, 2)).astype(np.float32)
    assert resample(values, (5, 7)) is values


def test_doubling_by_hand():
    row = np.array([0.0, 4.0])[None, :, None]
    doubled = resample(row, (1, 4))[0, :, 0]
    np.testing.assert_allclose(doubled, [0, 1, 3, 4])  # centres at -1/4, 1/4, 3/4, 5/4


def test_halving_looks_at_all_pixels():
    row = np.array([0.0, 0.0, 8.0, 0.0])[None, :, None]
    halved = resample(row, (1, 2))[0, :, 0]
    # A triangle of half-width 2 around 2.5 gives the weights 1/4, 3/4, 3/4 to 1, 2, 3.
    assert halved[1] == pytest.approx(8 * 0.75 / 1.75)
    assert halved[0] == pytest.approx(8 * 0.25 / 1.75)


def test_areas_by_hand():
    row = np.array([0.0, 4, 8, 20])[None, :, None]
    halved = resample(row, (1, 2), area_weights)[0, :, 0]
    np.testing.assert_allclose(halved, [2, 14])
    thirds = resample(row, (1, 3), area_weights)[0, :, 0]
    np.testing.assert_allclose(thirds, [1, 6, 17], rtol=1e-6)  # 4/3 pixels each


@settings(max_examples=30)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    target=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    value=st.floats(-1e3, 1e3, width=32),
)
def test_constants_stay(size, target, value):
    resampled = resample(np.full((*size, 2), value, np.float32), target)
    assert resampled.shape == (*target, 2)
    np.testing.assert_allclose(resampled, value, rtol=1e-5, atol=1e-4)


def test_labels_take_the_largest_share():
    # Halving a row: triangles 2 wide, with the weights 1, 3, 3, 1 (eighths) inside, and
    # 4, 3, 1 and 1, 3, 4 at the ends, where the outermost pixel continues.
    labels = np.array([[0, 0, 2, 2, 1, 1, 1, 0]], np.uint8)
    found = resample_labels(labels, (1, 4))
    assert found.tolist() == [[0, 2, 1, 1]]
    assert found.dtype == np.uint8


def test_equal_shares_go_to_the_larger_label():
    labels = np.array([[0, 1], [0, 1]], np.uint8)
    assert resample_labels(labels, (1, 1)).tolist() == [[1]]


def test_labels_that_would_vanish_keep_a_pixel():
    labels = np.zeros((9, 9), np.uint8)
    labels[4, 7] = 3
    found = resample_labels(labels, (3, 3))
    assert found.tolist() == [[0, 0, 0], [0, 0, 3], [0, 0, 0]]


@settings(max_examples=30)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(0, 2**32 - 1),
)
def test_resampled_labels_agree_with_brute_force(size, target, seed):
    labels = np.random.default_rng(seed).integers(0, 2, size).astype(np.uint8)
    share = resample(labels[..., None].astype(np.float64), target)[..., 0]
    found = resample_labels(labels, target)
    expected = (share >= 0.5).astype(np.uint8)
    if labels.any() and not expected.any():
        expected[np.unravel_index(share.argmax(), target)] = 1
    clear = np.abs(share - 0.5) > 1e-4
    np.testing.assert_array_equal(found[clear], expected[clear])
