"""Groups samples that show the same thing into distinct hypotheses. NumPy only."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from tf_probunet.evaluation.metrics import distances

# Classes that never cover this share of the pixels do not tell hypotheses apart: where
# there are many, some pixels of the rare ones differ in any two samples.
_LEAST_AREA = 0.01


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """Samples that agree with each other.

    Attributes:
        samples: their numbers, in order.
        representative: the one that is closest to the others.
        share: of all samples.
        is_empty: whether they show nothing but background.
    """

    samples: tuple[int, ...]
    representative: int
    share: float
    is_empty: bool


def group(
    labels: np.ndarray, *, num_classes: int, least_iou: float
) -> list[Hypothesis]:
    """Groups samples so that any two of a group have at least that IoU.

    The groups are those of complete linkage: the two that stay most alike are joined
    first, as long as all their samples agree. Samples without foreground agree with
    each other and with no other. With more than two classes it is the mean IoU over
    the classes present in either sample that cover a hundredth of a sample.

    Args:
        labels: [S, H, W] integer.
        num_classes: labels are 0 to num_classes - 1.
        least_iou: 0 to 1.

    Returns:
        The hypotheses, those with the most samples first.
    """
    apart = _distances(labels, num_classes)
    if len(labels) == 1:
        numbers = np.ones(1, int)
    else:
        tree = hierarchy.linkage(squareform(apart, checks=False), "complete")
        # Rounding must not part samples whose IoU is exactly the limit.
        numbers = hierarchy.fcluster(tree, 1 - least_iou + 1e-9, "distance")
    groups = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    groups.sort(key=lambda members: (-len(members), members[0]))
    return [_hypothesis(members, labels, apart) for members in groups]


def _distances(labels: np.ndarray, num_classes: int) -> np.ndarray:
    if num_classes == 2:
        return distances.iou_distances(labels, labels)
    areas = [(labels == k).mean(axis=(1, 2)).max() for k in range(num_classes)]
    large = tuple(k for k, area in enumerate(areas) if area >= _LEAST_AREA)
    known = distances.LabelSet(large, num_classes, ignore=None)
    return distances.mean_iou_distances(labels, labels, labels=known)


def _hypothesis(
    members: np.ndarray, labels: np.ndarray, apart: np.ndarray
) -> Hypothesis:
    # Rounded, so that the first of several that are equally close is taken.
    within = apart[np.ix_(members, members)].sum(axis=0).round(9)
    return Hypothesis(
        samples=tuple(int(i) for i in members),
        representative=int(members[within.argmin()]),
        share=len(members) / len(labels),
        is_empty=not labels[members].any(),
    )
