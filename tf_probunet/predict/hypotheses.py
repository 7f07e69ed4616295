"""Groups samples that show the same thing into distinct hypotheses. NumPy only."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

# Pixels of all samples that are compared at once, so that memory is bounded.
_PIXELS_AT_ONCE = 2**24


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """Samples that agree with each other.

    Attributes:
        samples: their numbers, in order.
        representative: the one that is closest to the others.
        share: their share of all samples.
        is_empty: whether they show nothing but background.
    """

    samples: tuple[int, ...]
    representative: int
    share: float
    is_empty: bool


def group(
    labels: np.ndarray,
    *,
    num_classes: int,
    least_iou: float,
    has_background: bool = True,
) -> list[Hypothesis]:
    """Groups samples so that any two of a group have at least this IoU.

    Groups are joined by complete linkage: the two most similar ones first, as long as
    all their samples agree. Samples without foreground agree only with each other.
    With more than two classes, intersections and unions are summed over the classes
    before they are divided. Classes then count by their area, and stray pixels of rare
    classes do not separate samples.

    Args:
        labels: [S, H, W] integer.
        num_classes: labels are 0 to num_classes - 1.
        least_iou: 0 to 1.
        has_background: whether label 0 means that nothing is there. Otherwise it
            counts like the other classes.

    Returns:
        The hypotheses, the most frequent first.
    """
    apart = _distances(labels, range(int(has_background), num_classes))
    if len(labels) == 1:
        numbers = np.ones(1, int)
    else:
        tree = hierarchy.linkage(squareform(apart, checks=False), "complete")
        # Rounding must not separate samples whose IoU is exactly the limit.
        numbers = hierarchy.fcluster(tree, 1 - least_iou + 1e-9, "distance")
    groups = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    groups.sort(key=lambda members: (-len(members), members[0]))
    return [_hypothesis(members, labels, apart) for members in groups]


def _distances(labels: np.ndarray, classes: Sequence[int]) -> np.ndarray:
    """Returns 1 - IoU [S, S] of maps [S, H, W]; two without the classes are equal."""
    maps = labels.reshape(len(labels), -1)
    step = max(1, _PIXELS_AT_ONCE // len(maps))
    shared = np.zeros((len(maps), len(maps)))
    for start in range(0, maps.shape[1], step):
        part = maps[:, start : start + step]
        for label in classes:
            mask = (part == label).astype(np.float32)
            shared += mask @ mask.T
    areas = np.diagonal(shared)
    unions = areas[:, None] + areas - shared
    return np.where(unions > 0, 1 - shared / np.maximum(unions, 1), 0.0)


def _hypothesis(
    members: np.ndarray, labels: np.ndarray, apart: np.ndarray
) -> Hypothesis:
    # Rounded, so that ties go to the first sample.
    within = apart[np.ix_(members, members)].sum(axis=0).round(9)
    return Hypothesis(
        samples=tuple(int(i) for i in members),
        representative=int(members[within.argmin()]),
        share=len(members) / len(labels),
        is_empty=not labels[members].any(),
    )
