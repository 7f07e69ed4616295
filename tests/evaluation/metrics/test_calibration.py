from __future__ import annotations

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, random_masks

from tf_probunet.evaluation.metrics import calibration

A, B = draw(0, 1), draw(1, 2, 3)


def test_pixel_reliability_hand_worked():
    # Means: 1/2 at 0, 2, 3; 1 at 1; 0 elsewhere. Votes of 2: 1 at 0, 2 at 1.
    samples, graders = np.stack([A, B]), np.stack([A, draw(1)])
    bins = calibration.pixel_reliability(samples, graders, num_bins=2)
    np.testing.assert_array_equal(bins.number, [8, 8])
    np.testing.assert_array_equal(bins.predicted, [0, 2 * (3 / 2 + 1)])
    np.testing.assert_array_equal(bins.observed, [0, 3])
    predicted, observed = bins.curve()
    np.testing.assert_allclose(predicted, [0, 5 / 8])
    np.testing.assert_allclose(observed, [0, 3 / 8])
    assert bins.expected_calibration_error() == pytest.approx(8 / 16 * 2 / 8)


def test_marked_only_leaves_out_the_undisputed_background():
    samples, graders = np.stack([A, B]), np.stack([A, draw(5)])
    bins = calibration.pixel_reliability(samples, graders, marked_only=True)
    assert bins.number.sum() == 2 * 5
    assert bins.observed.sum() == 3
    nothing = calibration.pixel_reliability(EMPTY[None], EMPTY[None], marked_only=True)
    assert nothing.number.sum() == 0
    assert np.isnan(nothing.expected_calibration_error())


def test_error_equals_the_loop_over_bins():
    samples = np.random.default_rng(0).random((3, 2, 9, 9))
    graders = random_masks(1, 3, 4, 9, 9)
    bins = calibration.pixel_reliability(samples, graders, num_bins=7)
    mean = np.repeat(samples.mean(1, keepdims=True), 4, 1)
    expected = 0.0
    for low in range(7):
        inside = (mean >= low / 7) & (mean < (low + 1) / 7)
        if inside.any():
            gap = abs(mean[inside].mean() - graders[inside].mean())
            expected += gap * inside.mean()
    assert bins.expected_calibration_error() == pytest.approx(expected)


def test_images_add_up():
    samples, graders = random_masks(2, 5, 8, 6, 6), random_masks(3, 5, 4, 6, 6)
    whole = calibration.pixel_reliability(samples, graders)
    parts = [calibration.pixel_reliability(s, g) for s, g in zip(samples, graders)]
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    for actual, expected in zip(total, whole):
        np.testing.assert_allclose(actual, expected)
    with pytest.raises(ValueError, match="10 and 5 bins"):
        whole.merge(calibration.pixel_reliability(samples, graders, num_bins=5))


@pytest.mark.parametrize("number", [10, 16, 100])
def test_shares_on_an_edge_go_up(number):
    # Pixel k is marked by k samples, so that its mean is the edge k / number.
    marks = np.arange(number)[:, None] < np.arange(number + 1)[None, :]
    bins = calibration.pixel_reliability(
        marks[:, None, :], np.zeros((1, 1, number + 1)), num_bins=number
    )
    np.testing.assert_array_equal(bins.number, [1] * (number - 1) + [2])


def test_a_perfect_model_is_calibrated():
    generator = np.random.default_rng(4)
    rates = generator.random((1, 1, 200, 200))
    graders = (generator.random((1, 50, 200, 200)) < rates).astype(np.uint8)
    bins = calibration.pixel_reliability(rates, graders)
    assert bins.expected_calibration_error() < 0.003
    biased = calibration.pixel_reliability(rates**2, graders)
    # The mean of r - r^2 over uniform r is 1/6.
    assert biased.expected_calibration_error() == pytest.approx(1 / 6, abs=0.003)


def test_empty_share():
    assert calibration.empty_share(np.stack([A, EMPTY, B, EMPTY])) == 1 / 2
    batch = np.stack([[A, A], [EMPTY, A], [EMPTY, EMPTY]])
    np.testing.assert_array_equal(calibration.empty_share(batch), [0, 1 / 2, 1])


def test_presence_reliability():
    samples = np.stack([[A, EMPTY], [EMPTY, EMPTY], [A, B]])
    graders = np.stack([[A, A, EMPTY], [EMPTY, EMPTY, A], [B, B, B]])
    bins = calibration.presence_reliability(samples, graders, num_bins=2)
    np.testing.assert_array_equal(bins.number, [3, 6])
    np.testing.assert_array_equal(bins.predicted, [0, 3 * (1 / 2 + 1)])
    np.testing.assert_array_equal(bins.observed, [1, 2 + 3])
    expected = 3 / 9 * 1 / 3 + 6 / 9 * abs(4.5 / 6 - 5 / 6)
    assert bins.expected_calibration_error() == pytest.approx(expected)
    one = calibration.presence_reliability(samples[0], graders[0], num_bins=2)
    np.testing.assert_array_equal(one.observed, [0, 2])


def test_errors():
    with pytest.raises(ValueError, match="num_bins is 0; expected at least 1"):
        calibration.pixel_reliability(A[None], A[None], num_bins=0)
    with pytest.raises(ValueError, match="samples hold 3"):
        calibration.presence_reliability(A[None] * 3, A[None])
    with pytest.raises(ValueError, match="same height and width"):
        calibration.presence_reliability(A[None], np.zeros((1, 3, 4)))
