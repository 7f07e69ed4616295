from __future__ import annotations

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, random_masks

from tf_probunet.evaluation.metrics import baselines, ged

A, B = draw(0, 1), draw(1, 2, 3)


def test_always_empty():
    samples = baselines.always_empty(np.stack([A, B]), 3)
    np.testing.assert_array_equal(samples, np.zeros((3, 2, 4)))


def test_majority_is_strict():
    # Cell 1 is marked by all, 0 and 2 by two of four, 5 by three.
    graders = np.stack([draw(0, 1, 5), draw(0, 1, 5), draw(1, 2, 5), draw(1, 2)])
    samples = baselines.majority(graders, 2)
    np.testing.assert_array_equal(samples, np.stack([draw(1, 5)] * 2))
    np.testing.assert_array_equal(baselines.majority(A[None], 1), A[None])
    tie = np.stack([A, EMPTY])
    np.testing.assert_array_equal(baselines.majority(tie, 1), EMPTY[None])


def test_graders_in_turn():
    samples = baselines.graders_themselves(np.stack([A, B]), 5)
    np.testing.assert_array_equal(samples, np.stack([A, B, A, B, A]))
    np.testing.assert_array_equal(
        baselines.graders_themselves(np.stack([A, B]), 1), A[None]
    )


def test_graders_reach_energy_distance_zero():
    graders = random_masks(0, 5, 4, 6, 6)
    samples = baselines.graders_themselves(graders, 16)
    terms = ged.energy_terms(samples, graders)
    np.testing.assert_allclose(terms.energy_distance, 0, atol=1e-12)


FUNCTIONS = [baselines.always_empty, baselines.majority, baselines.graders_themselves]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_batches_equal_one_by_one(function):
    graders = random_masks(1, 3, 4, 5, 6)
    batch = function(graders, 7)
    assert batch.dtype == np.uint8
    np.testing.assert_array_equal(batch, [function(image, 7) for image in graders])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors(function):
    with pytest.raises(ValueError, match="num_samples is 0; expected at least 1"):
        function(A[None], 0)
    with pytest.raises(ValueError, match="graders hold 9"):
        function(9 * A[None], 1)
