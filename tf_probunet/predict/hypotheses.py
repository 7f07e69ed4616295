"""Chooses a few weighted samples, the hypotheses, that represent all. NumPy only."""

from __future__ import annotations

import dataclasses

import numpy as np

from tf_probunet.artifacts.saved_model_dir import Description
from tf_probunet.evaluation.metrics.distances import LabelSet
from tf_probunet.evaluation.metrics.representatives import representatives


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A sample that represents others.

    Attributes:
        sample: its number.
        probability: its weight. Those of all hypotheses sum to 1.
        is_empty: whether it shows nothing but background.
    """

    sample: int
    probability: float
    is_empty: bool


@dataclasses.dataclass(frozen=True)
class Hypotheses:
    """The hypotheses of an image, the most probable first.

    Attributes:
        found: K of them, or fewer if fewer samples differ.
        energy_distance: the squared energy distance between them and all samples.
        explained: the share of the samples' diversity that they keep, 0 to 1.
    """

    found: tuple[Hypothesis, ...]
    energy_distance: float
    explained: float

    @property
    def empty_probability(self) -> float:
        """The probability of the hypothesis that nothing is there."""
        return sum(h.probability for h in self.found if h.is_empty)


def choose(
    labels: np.ndarray, count: int, classes: LabelSet | None = None
) -> Hypotheses:
    """Chooses hypotheses with the least energy distance to all samples.

    Args:
        labels: [S, H, W] integer.
        count: K.
        classes: what tells samples apart; see `label_set`.

    Returns:
        The hypotheses.
    """
    chosen = representatives(labels, count, labels=classes)
    found = tuple(
        Hypothesis(int(i), float(weight), is_empty=not labels[i].any())
        for i, weight in zip(chosen.indices, chosen.weights)
    )
    return Hypotheses(found, chosen.energy_distance, chosen.explained)


def label_set(model: Description) -> LabelSet | None:
    """Returns the classes that tell samples of a model apart; None for binary masks."""
    number = model.network.num_classes
    if number == 2 and model.has_background:
        return None
    first = 1 if model.has_background else 0
    return LabelSet(tuple(range(first, number)), number, None)
