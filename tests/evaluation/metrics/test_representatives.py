"""Weighted representatives: hand-worked cases, exhaustive search, SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from tf_probunet.evaluation.metrics import ged
from tf_probunet.evaluation.metrics.distances import LabelSet, self_distances
from tf_probunet.evaluation.metrics.representatives import (
    choose,
    representatives,
    simplex_weights,
)


def _discs(rng, number, size=16):
    """Discs around the middle, some of them empty."""
    rows, columns = np.mgrid[:size, :size]
    center = size / 2 + rng.normal(size=(number, 2, 1, 1))
    radius = rng.uniform(-1, size / 2.5, (number, 1, 1))
    squared = (rows - center[:, 0]) ** 2 + (columns - center[:, 1]) ** 2
    return ((squared < radius**2) & (radius > 0)).astype(np.uint8)


def _stripes(*widths):
    """Masks [S, 1, 8] in which the first pixels are marked."""
    return np.array([[[1] * w + [0] * (8 - w)] for w in widths], np.uint8)


def test_two_groups_by_hand():
    # Three samples of 4 pixels and one without any: with both kinds chosen, the weights
    # are the frequencies and nothing is lost.
    found = representatives(_stripes(4, 0, 4, 4), 2)
    np.testing.assert_array_equal(found.indices, [0, 1])
    np.testing.assert_allclose(found.weights, [0.75, 0.25])
    assert found.energy_distance == 0.0
    # d = 1 between the two kinds: E[d(S, S')] = 2 * 3/4 * 1/4.
    assert found.diversity == pytest.approx(0.375)
    assert found.explained == 1.0


def test_one_representative_is_the_medoid():
    # Stripes of 2, 4, 8: d(2,4) = 1/2, d(4,8) = 1/2, d(2,8) = 3/4.
    found = representatives(_stripes(2, 4, 8), 1)
    np.testing.assert_array_equal(found.indices, [1])
    np.testing.assert_array_equal(found.weights, [1.0])
    diversity = 2 * (0.5 + 0.5 + 0.75) / 9
    assert found.diversity == pytest.approx(diversity)
    assert found.energy_distance == pytest.approx(2 * (0.5 + 0.5) / 3 - diversity)
    assert found.explained == pytest.approx(1 - found.energy_distance / diversity)


def test_weights_of_samples_count():
    masks = _stripes(2, 4, 8)
    once = representatives(masks, 1, sample_weights=[0.1, 0.1, 0.8])
    np.testing.assert_array_equal(once.indices, [2])
    repeated = representatives(np.repeat(masks, [1, 1, 8], axis=0), 2)
    weighted = representatives(masks, 2, sample_weights=[0.1, 0.1, 0.8])
    np.testing.assert_allclose(weighted.weights, repeated.weights)
    assert weighted.energy_distance == pytest.approx(repeated.energy_distance)


def test_value_is_the_weighted_energy_distance():
    masks = _discs(np.random.default_rng(0), 40)
    found = representatives(masks, 4)
    assert len(found.indices) == 4
    assert (np.diff(found.weights) <= 0).all()
    assert found.weights.sum() == pytest.approx(1)
    expected = ged.energy_distance(
        masks[found.indices], masks, sample_weights=found.weights
    )
    assert found.energy_distance == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_simplex_weights_are_those_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    distances = self_distances(_discs(rng, 30), name="masks")
    towards = (distances @ rng.dirichlet(np.ones(30)))[:6]
    within = distances[:6, :6]
    weights = simplex_weights(within, towards)
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1)

    def objective(w):
        return 2 * w @ towards - w @ within @ w

    solved = optimize.minimize(
        objective,
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert objective(weights) <= solved.fun + 1e-9


def _exhaustive(distances, probabilities, count):
    towards = distances @ probabilities
    best = np.inf
    for chosen in map(list, itertools.combinations(range(len(distances)), count)):
        within = distances[np.ix_(chosen, chosen)]
        weights = simplex_weights(within, towards[chosen])
        best = min(best, 2 * weights @ towards[chosen] - weights @ within @ weights)
    return best


@pytest.mark.parametrize("count", [1, 2, 3])
def test_search_finds_what_exhaustive_search_finds(count):
    rng, exact = np.random.default_rng(count), 0
    for _ in range(20):
        masks = np.unique(_discs(rng, 14), axis=0)
        distances = self_distances(masks, name="masks")
        probabilities = rng.dirichlet(np.ones(len(masks)))
        chosen, weights = choose(distances, probabilities, count)
        within = distances[np.ix_(chosen, chosen)]
        towards = (distances @ probabilities)[chosen]
        value = 2 * weights @ towards - weights @ within @ weights
        best = _exhaustive(distances, probabilities, count)
        constant = probabilities @ distances @ probabilities
        assert value - constant <= 1.05 * (best - constant) + 1e-9
        exact += value <= best + 1e-9
    assert exact >= 18  # It may end in a local optimum, but rarely does.


def test_more_representatives_are_never_worse():
    masks = _discs(np.random.default_rng(5), 60)
    values = [representatives(masks, k).energy_distance for k in (1, 2, 4, 8, 16)]
    assert (np.diff(values) <= 1e-12).all()


def test_no_more_than_there_are_different_samples():
    found = representatives(_stripes(0, 0, 0), 4)
    np.testing.assert_array_equal(found.indices, [0])
    assert (found.energy_distance, found.diversity, found.explained) == (0, 0, 1)


def test_label_maps_with_several_classes():
    maps = np.zeros((4, 2, 4), np.uint8)
    maps[0, 0], maps[1, 0], maps[2, 1], maps[3, 1] = 1, 1, 2, 2
    labels = LabelSet((1, 2), 3, ignore=None)
    found = representatives(maps, 2, labels=labels)
    np.testing.assert_array_equal(found.indices, [0, 2])
    np.testing.assert_allclose(found.weights, [0.5, 0.5])


@pytest.mark.parametrize(
    "shape, count, weights, message",
    [
        ((3, 4, 4), 0, None, "count is 0; expected at least 1"),
        ((2, 3, 4, 4), 1, None, r"shape \(2, 3, 4, 4\); expected one image's"),
        ((3, 4, 4), 1, [0.5, 0.1, 0.1], "sum"),
    ],
)
def test_bad_input_is_named(shape, count, weights, message):
    with pytest.raises(ValueError, match=message):
        representatives(np.zeros(shape, np.uint8), count, sample_weights=weights)
