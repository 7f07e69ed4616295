"""Calibration of modes and pixels: hand-worked counts and draws of the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tf_probunet.dataset.cityscapes_labels import (
    MODE_BITS,
    MODE_PROBABILITIES,
    switch_table,
)
from tf_probunet.evaluation.metrics import switched_calibration, switched_modes

ROAD, CAR, CAR_2, ROAD_2 = 0, 13, 21, 23
FIVE = np.array([[1, 11, 13, 8, 0, 2]])  # the five switchable classes and building


def test_pixel_calibration_by_hand():
    counts = np.zeros((24, 19), int)
    counts[ROAD, ROAD], counts[ROAD_2, ROAD], counts[CAR, ROAD] = 1, 2, 1
    counts[CAR, CAR] = counts[CAR_2, CAR] = 1
    result = switched_calibration.pixel_calibration(counts)
    np.testing.assert_allclose(result.probabilities[4], [13 / 17, 4 / 17])
    np.testing.assert_allclose(result.frequencies[4], [1 / 4, 2 / 4])
    np.testing.assert_allclose(result.frequencies[2], [1 / 2, 1 / 2])
    assert np.isnan(result.frequencies[[0, 1, 3]]).all()


def test_the_largest_gap_of_pixels_by_hand():
    counts = np.zeros((24, 19), int)
    counts[ROAD, ROAD], counts[ROAD_2, ROAD] = 12, 5
    assert switched_calibration.pixel_calibration(counts).largest_gap == (
        pytest.approx(1 / 17)
    )
    counts[2, CAR] = 1  # Predicted as a building, never as a car.
    assert switched_calibration.pixel_calibration(counts).largest_gap == (
        pytest.approx(11 / 17)
    )


def test_iou_with_flips_folded_back_by_hand():
    counts = np.zeros((24, 19), int)
    counts[ROAD, ROAD], counts[ROAD_2, ROAD], counts[CAR_2, ROAD] = 3, 4, 1
    counts[CAR, CAR], counts[CAR_2, CAR], counts[2, CAR] = 2, 1, 1
    result = switched_calibration.folded_iou(counts)
    expected = {ROAD: 7 / 8, CAR: 3 / 5, 2: 0}
    assert {i: result.by_class[i] for i in expected} == pytest.approx(expected)
    assert np.isnan(np.delete(result.by_class, list(expected))).all()
    assert result.mean == pytest.approx((7 / 8 + 3 / 5) / 3)
    assert math.isnan(switched_calibration.folded_iou(0 * counts).mean)


def test_mode_calibration_by_hand():
    perfect = switched_calibration.mode_calibration(1000 * MODE_PROBABILITIES)
    assert perfect.kl_divergence == pytest.approx(0, abs=1e-12)
    assert perfect.largest_ratio == pytest.approx(1)
    assert perfect.modes_missed == 0
    counts = MODE_PROBABILITIES.copy()
    moved = counts[31] / 2
    counts[31] -= moved
    counts[0] += moved
    result = switched_calibration.mode_calibration(counts)
    p0, p31 = MODE_PROBABILITIES[0], MODE_PROBABILITIES[31]
    assert result.largest_ratio == pytest.approx(2)
    assert result.kl_divergence == pytest.approx(
        (p0 + moved) * math.log((p0 + moved) / p0) + p31 / 2 * math.log(1 / 2)
    )


def test_collapsed_model_is_far_from_calibrated():
    result = switched_calibration.mode_calibration(16 * np.eye(32)[0])
    assert result.kl_divergence == pytest.approx(-math.log(MODE_PROBABILITIES[0]))
    assert result.largest_ratio == math.inf
    assert result.modes_missed == 31


def test_random_draws_of_the_truth_are_calibrated():
    rng = np.random.default_rng(11)
    modes = rng.choice(32, 4000, p=MODE_PROBABILITIES)
    samples = np.stack([switch_table(mode)[FIVE] for mode in modes])
    # In batches, as images would come.
    counts = sum(switched_modes.mode_counts(s, FIVE) for s in np.split(samples, 250))
    result = switched_calibration.mode_calibration(counts)
    assert counts.sum() == pytest.approx(4000)
    # 2 N KL is about chi-squared with 31 degrees of freedom; its 1e-6 tail is at 84.
    assert 2 * 4000 * result.kl_divergence < 84
    pixels = switched_calibration.pixel_calibration(
        switched_modes.pixel_counts(samples[:500], FIVE)
    )
    np.testing.assert_allclose(
        pixels.frequencies[:, 1], MODE_BITS[modes[:500]].mean(axis=0)
    )


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match=r"shape \(31,\)"):
        switched_calibration.mode_calibration(np.ones(31))
    with pytest.raises(ValueError, match="not all 0"):
        switched_calibration.mode_calibration(np.zeros(32))
    with pytest.raises(ValueError, match=r"shape \(19, 24\)"):
        switched_calibration.pixel_calibration(np.zeros((19, 24)))
