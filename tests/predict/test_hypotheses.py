"""Tests of the hypotheses: which samples they are, and their probabilities."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.predictions import with_classes

from tf_probunet.evaluation.metrics.distances import LabelSet
from tf_probunet.predict.hypotheses import choose, label_set


def _squares(*sides):
    maps = np.zeros((len(sides), 8, 8), np.uint8)
    for one, side in zip(maps, sides):
        one[:side, :side] = 1
    return maps


def test_equal_samples_are_one_hypothesis_with_their_share():
    found = choose(_squares(3, 0, 3, 0, 3, 6, 3, 3), 4)
    samples = [(h.sample, h.is_empty) for h in found.found]
    assert samples == [(0, False), (1, True), (5, False)]
    weights = [h.probability for h in found.found]
    assert weights == pytest.approx([5 / 8, 2 / 8, 1 / 8])
    assert found.empty_probability == pytest.approx(2 / 8)
    assert (found.energy_distance, found.explained) == (0, 1)


def test_one_hypothesis_is_the_one_nearest_to_all():
    found = choose(_squares(0, 4, 4, 5), 1)
    assert [(h.sample, h.probability) for h in found.found] == [(1, 1)]
    # Distances from 4: to nothing 1, to 5 9/25. Within: see the energy distance.
    mean = (1 + 9 / 25) / 4
    within = 2 * (1 + 1 + 1 + 2 * 9 / 25) / 16
    assert found.energy_distance == pytest.approx(2 * mean - within)
    assert found.explained == pytest.approx(1 - found.energy_distance / within)


@pytest.mark.parametrize(
    ("names", "scored"),
    [
        (["background", "lesion"], None),
        (["background", "a", "b"], (1, 2)),
        (["road", "car", "tree"], (0, 1, 2)),
    ],
)
def test_the_classes_that_are_not_background_tell_samples_apart(
    hu_model, names, scored
):
    network = dataclasses.replace(hu_model.network, num_classes=len(names))
    model = dataclasses.replace(with_classes(hu_model, names), network=network)
    expected = None if scored is None else LabelSet(scored, len(names), None)
    assert label_set(model) == expected
