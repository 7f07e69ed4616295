from __future__ import annotations

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, random_masks
from scipy import stats

from tf_probunet.evaluation.metrics import agreement

A, B = draw(0, 1), draw(1, 2, 3)


def cross_entropy(target, prediction):
    return -target * np.log(prediction + 1e-8) - (1 - target) * np.log(
        1 - prediction + 1e-8
    )


def test_ncc_equals_its_definition():
    generator = np.random.default_rng(0)
    samples = generator.random((5, 6, 7))
    graders = random_masks(1, 3, 6, 7, empty=0).astype(float)
    mean = samples.mean(0)
    uncertainty = np.mean([cross_entropy(mean, s) for s in samples], 0)
    expected = []
    for grader in graders:
        error = np.mean([cross_entropy(grader, s) for s in samples], 0)
        expected.append(stats.pearsonr(uncertainty.ravel(), error.ravel())[0])
    assert agreement.ncc(samples, graders) == pytest.approx(np.mean(expected))


def test_ncc_of_hard_masks_correlates_variance_with_error():
    samples = random_masks(2, 7, 6, 7, empty=0)
    graders = random_masks(3, 3, 6, 7, empty=0)
    mean = samples.mean(0)
    expected = [
        np.corrcoef((mean * (1 - mean)).ravel(), np.abs(grader - mean).ravel())[0, 1]
        for grader in graders
    ]
    assert agreement.ncc(samples, graders) == pytest.approx(np.mean(expected))


def test_ncc_of_constant_maps():
    # Equal samples are certain; right, wrong somewhere, and wrong everywhere.
    samples = np.stack([A, A])
    assert agreement.ncc(samples, A[None]) == 1
    assert agreement.ncc(samples, B[None]) == 0
    assert agreement.ncc(samples, 1 - A[None]) == 1
    assert agreement.ncc(samples, np.stack([A, B])) == 1 / 2
    assert agreement.ncc(EMPTY[None], EMPTY[None]) == 1


def test_variance_ncc():
    samples, graders = random_masks(4, 8, 6, 7, empty=0), random_masks(5, 4, 6, 7)
    expected = np.corrcoef(samples.var(0).ravel(), graders.var(0).ravel())[0, 1]
    assert agreement.variance_ncc(samples, graders) == pytest.approx(expected)
    assert agreement.variance_ncc(graders[[0, 1, 2, 3] * 2], graders) == pytest.approx(
        1
    )
    assert agreement.variance_ncc(np.stack([A, A]), np.stack([A, B])) == 0
    assert agreement.variance_ncc(np.stack([A, A]), np.stack([B, B])) == 1
    assert agreement.variance_ncc(A[None], B[None]) == 1


def test_brier_score_hand_worked():
    # The mean is 1/2 at 0, 2 and 3, and 1 at 1; one grader marks 0 and 1, one nothing.
    samples, graders = np.stack([A, B]), np.stack([A, EMPTY])
    squared = (1 / 4 + 0 + 2 / 4) + (1 / 4 + 1 + 2 / 4)
    assert agreement.brier_score(samples, graders) == pytest.approx(squared / 16)
    assert agreement.brier_score(A[None], A[None]) == 0
    assert agreement.brier_score(A[None], 1 - A[None]) == 1


def test_brier_score_splits_into_bias_and_the_graders_variance():
    samples = np.random.default_rng(6).random((5, 4, 4))
    graders = random_masks(7, 4, 4, 4)
    bias = np.square(samples.mean(0) - graders.mean(0)).mean()
    expected = bias + graders.var(0).mean()
    assert agreement.brier_score(samples, graders) == pytest.approx(expected)


FUNCTIONS = [agreement.ncc, agreement.variance_ncc, agreement.brier_score]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors(function):
    with pytest.raises(ValueError, match="samples hold 1.5; expected values in"):
        function(np.full((1, 2, 4), 1.5), A[None])
    with pytest.raises(ValueError, match="graders hold 2"):
        function(A[None], 2 * A[None])
    with pytest.raises(ValueError, match="same height and width"):
        function(A[None], np.zeros((1, 2, 5)))
    with pytest.raises(ValueError, match="expected one image's"):
        function(A[None, None], A[None, None])
