"""Scores and intervals of volumes against integrals, and diameters by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from tf_probunet.evaluation.metrics import volumes

_NUMBERS = st.integers(0, 50)


@given(st.lists(_NUMBERS, min_size=1, max_size=8), _NUMBERS)
def test_crps_is_the_integral_of_the_squared_difference_of_the_distributions(
    samples, observation
):
    found = volumes.crps(np.array(samples), np.array([observation]))
    grid = np.arange(51) + 0.5  # Steps of whole numbers: the integral is a sum.
    below = np.mean(np.array(samples)[:, None] < grid, axis=0)
    expected = ((below - (observation < grid)) ** 2).sum()
    np.testing.assert_allclose(found, [expected], atol=1e-9)


def test_unsigned_volumes_do_not_wrap_around():
    found = volumes.crps(np.array([1, 3], np.uint64), np.array([9], np.uint64))
    np.testing.assert_allclose(found, [7 - 0.5])


def test_interval_holds_its_share_of_further_draws():
    # Any of 20 exchangeable numbers is as likely to be the further draw.
    numbers = np.arange(20.0)
    for share, inside in ((0.5, 10), (0.9, 18)):
        held = [volumes.coverage(np.delete(numbers, i), [numbers[i]], share)
                for i in range(20)]  # fmt: skip
        assert sum(held) == inside


def test_interval_of_few_samples_is_their_range():
    assert volumes.central_interval(np.array([4.0, 2.0, 3.0]), 0.9) == (2, 4)
    assert volumes.central_interval(np.array([7.0]), 0.5) == (7, 7)
    assert volumes.coverage(np.zeros(4), np.array([0.0, 1.0]), 0.5) == 0.5


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="finite"):
        volumes.crps(np.array([np.nan]), np.array([1.0]))
    with pytest.raises(ValueError, match="share is 1.5"):
        volumes.central_interval(np.array([1.0]), 1.5)


def test_diameters_by_hand():
    mask = np.zeros((3, 9, 9), bool)
    assert volumes.diameter_mm(mask, (1, 1)) == 0
    mask[1, 4, 2:7] = True
    assert volumes.diameter_mm(mask[1], (1, 0.5)) == pytest.approx(2.5)
    assert volumes.diameter_mm(mask[1], (0.5, 2)) == pytest.approx(10)
    mask[2, 1:8, 3] = True  # Seven rows are longer than five columns.
    assert volumes.diameter_mm(mask, (1, 1)) == pytest.approx(7)
    single = np.eye(1, dtype=bool)
    assert volumes.diameter_mm(single, (0.7, 0.6)) == pytest.approx(0.7)


@settings(max_examples=50)
@given(arrays(bool, (6, 7)))
def test_diameter_is_the_largest_distance_of_all_outline_points(mask):
    spacing = np.array([0.7, 1.3])
    points = [
        (np.array([row, col]) + step) * spacing
        for row, col in np.argwhere(mask)
        for step in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5))
    ]
    expected = pdist(points).max() if points else 0.0
    assert volumes.diameter_mm(mask, spacing) == pytest.approx(expected)
