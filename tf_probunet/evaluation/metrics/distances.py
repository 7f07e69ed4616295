"""IoU distances between all pairs of segmentations, by matrix products."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from tf_probunet.evaluation.metrics import checks

# Rules for the distance of two empty masks; NaN leaves the pair out.
_EMPTY_DISTANCES = {"zero": 0.0, "drop": np.nan, "one": 1.0}
BOTH_EMPTY = tuple(_EMPTY_DISTANCES)

# float32 holds every integer up to here: counts below it are exact.
_FLOAT32_EXACT = 2**24


@dataclasses.dataclass(frozen=True)
class LabelSet:
    """Which labels exist, which are scored and which one is ignored.

    Attributes:
        scored: classes over which the IoU is averaged.
        num_classes: labels are 0 to num_classes - 1.
        ignore: label of pixels that do not count; None if there is none.
    """

    scored: tuple[int, ...]
    num_classes: int
    ignore: int | None = 255

    @classmethod
    def of_foreground(cls, num_classes: int, ignore: int | None) -> LabelSet:
        """Returns the set in which all classes but the first are scored."""
        return cls(tuple(range(1, num_classes)), num_classes, ignore)

    def __post_init__(self):
        """Checks that the scored classes are distinct and known."""
        known = all(0 <= c < self.num_classes for c in self.scored)
        if not self.scored or len(set(self.scored)) < len(self.scored) or not known:
            raise ValueError(
                f"scored classes are {self.scored}; expected distinct labels from 0 to "
                f"{self.num_classes - 1}"
            )
        if self.ignore is not None and 0 <= self.ignore < self.num_classes:
            raise ValueError(
                f"ignore is {self.ignore}; expected a label that is not one of the "
                f"{self.num_classes} classes"
            )


class Blocks(NamedTuple):
    """Distances of one image, or of a batch with a leading [N].

    Attributes:
        cross: [S, M] between samples and graders.
        samples: [S, S] among samples.
        graders: [M, M] among graders.
    """

    cross: np.ndarray
    samples: np.ndarray
    graders: np.ndarray


def iou_distances(
    first: np.ndarray, second: np.ndarray, *, both_empty: str = "zero"
) -> np.ndarray:
    """1 - IoU between all pairs of two stacks of binary masks.

    Args:
        first: [A, H, W] or [N, A, H, W], only 0 and 1.
        second: [B, H, W] or [N, B, H, W], only 0 and 1.
        both_empty: distance of two empty masks: "zero", "one", or "drop" for NaN.

    Returns:
        [A, B] or [N, A, B] float64, in [0, 1].

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    first = checks.binary_masks(first, "first masks")
    second = checks.binary_masks(second, "second masks")
    return _blocks(first, second, None, both_empty).cross


def mean_iou_distances(
    first: np.ndarray,
    second: np.ndarray,
    *,
    labels: LabelSet,
    both_empty: str = "zero",
) -> np.ndarray:
    """1 - mean IoU between all pairs of two stacks of label maps.

    The mean is over the scored classes present in at least one map of the pair. A pixel
    that any map of the image ignores counts for no pair of that image.

    Args:
        first: [A, H, W] or [N, A, H, W] integer.
        second: [B, H, W] or [N, B, H, W] integer.
        labels: which labels are known, scored and ignored.
        both_empty: distance where no scored class is present in either map: "zero",
            "one", or "drop" for NaN.

    Returns:
        [A, B] or [N, A, B] float64, in [0, 1].

    Raises:
        ValueError: on unknown labels or on shapes that do not fit.
    """
    first = _validated(first, "first maps", labels, ignorable=True)
    second = _validated(second, "second maps", labels, ignorable=True)
    return _blocks(first, second, labels, both_empty).cross


def self_distances(
    masks: np.ndarray,
    *,
    name: str,
    both_empty: str = "zero",
    labels: LabelSet | None = None,
) -> np.ndarray:
    """Distances between all pairs of one stack, each mask with itself included.

    Args:
        masks: [S, H, W] or [N, S, H, W]: binary masks, or label maps with `labels`.
        name: what they are, for error messages.
        both_empty: as in `iou_distances`.
        labels: None for binary masks; else as in `mean_iou_distances`.

    Returns:
        [S, S] or [N, S, S] float64.

    Raises:
        ValueError: on unknown values.
    """
    masks = _validated(masks, name, labels, ignorable=True)
    return _blocks(masks, masks[..., :0, :, :], labels, both_empty).samples


def distance_blocks(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    both_empty: str = "zero",
    labels: LabelSet | None = None,
    modes: bool = False,
) -> Blocks:
    """Distances between samples and graders and within each.

    Args:
        samples: [S, H, W] or [N, S, H, W]: binary masks, or label maps with `labels`.
        graders: [M, H, W] or [N, M, H, W]: likewise.
        both_empty: distance of two masks without foreground: "zero", "one" or "drop".
        labels: None for binary masks; else the distance is 1 - mean IoU as in
            `mean_iou_distances`. Only ground truth may hold the ignored label.
        modes: whether `samples` are ground truth too: the modes graders draw from.

    Returns:
        The three matrices, with a leading [N] for a batch.

    Raises:
        ValueError: on unknown values or on shapes that do not fit.
    """
    name = "modes" if modes else "samples"
    samples = _validated(samples, name, labels, ignorable=modes)
    graders = _validated(graders, "graders", labels, ignorable=True)
    return _blocks(samples, graders, labels, both_empty)


def _validated(
    masks: np.ndarray, name: str, labels: LabelSet | None, *, ignorable: bool
) -> np.ndarray:
    if labels is None:
        return checks.binary_masks(masks, name)
    ignore = labels.ignore if ignorable else None
    return checks.label_maps(masks, name, num_classes=labels.num_classes, ignore=ignore)


def _blocks(
    first: np.ndarray, second: np.ndarray, labels: LabelSet | None, both_empty: str
) -> Blocks:
    checks.option(both_empty, "both_empty", BOTH_EMPTY)
    checks.same_pixels(first, second, ("samples", "graders"))
    split, batch = first.shape[-3], first.shape[:-3]
    images, pixels = int(np.prod(batch)), first.shape[-2] * first.shape[-1]
    first = first.reshape(images, split, pixels)
    second = second.reshape(images, second.shape[-3], pixels)
    if labels is None:
        counts = (_intersections(a, b) for a, b in zip(first, second))
        ious, present = _ious(np.stack(list(counts)))
    else:
        pairs = [_mean_ious(a, b, labels) for a, b in zip(first, second)]
        ious, present = (np.stack(parts) for parts in zip(*pairs))
    shape = batch + ious.shape[-2:]
    return _as_blocks(ious.reshape(shape), present.reshape(shape), split, both_empty)


def intersections(samples: np.ndarray, graders: np.ndarray) -> np.ndarray:
    """Counts the pixels that each pair of masks of one slice shares.

    The counts of a volume are the sums of those of its slices: `volume_blocks` turns
    them into distances.

    Args:
        samples: [S, H, W] binary masks.
        graders: [M, H, W] binary masks.

    Returns:
        [S + M, S + M] float64; the diagonal holds the areas.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    samples = checks.binary_masks(samples, "samples")
    graders = checks.binary_masks(graders, "graders")
    checks.same_pixels(samples, graders, ("samples", "graders"))
    return _intersections(
        *(masks.reshape(len(masks), -1) for masks in (samples, graders))
    )


def volume_blocks(
    counts: np.ndarray, num_samples: int, *, both_empty: str = "zero"
) -> Blocks:
    """Distances between volumes of which the shared voxels are known.

    Args:
        counts: [S + M, S + M] or [N, S + M, S + M], sums of `intersections`.
        num_samples: S.
        both_empty: as in `iou_distances`.

    Returns:
        The three matrices, with a leading [N] for a batch.
    """
    checks.option(both_empty, "both_empty", BOTH_EMPTY)
    return _as_blocks(*_ious(counts), num_samples, both_empty)


def _as_blocks(
    ious: np.ndarray, present: np.ndarray, split: int, both_empty: str
) -> Blocks:
    distances = np.where(present, 1.0 - ious, _EMPTY_DISTANCES[both_empty])
    return Blocks(
        cross=distances[..., :split, split:],
        samples=distances[..., :split, :split],
        graders=distances[..., split:, split:],
    )


def _intersections(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pixels shared by each pair of masks.

    Args:
        first: [A, P] uint8 masks.
        second: [B, P] uint8 masks.

    Returns:
        [A + B, A + B] float64; the diagonal holds the areas.
    """
    # Pixels that no mask marks add nothing, and lesions are small: leave them out,
    # unless picking the others would cost more than multiplying all.
    marked = np.bitwise_or.reduce(first, axis=0) | np.bitwise_or.reduce(second, axis=0)
    columns = np.flatnonzero(marked)
    if 4 * columns.size < marked.size:
        first, second = first.take(columns, axis=1), second.take(columns, axis=1)
    dtype = np.float32 if columns.size <= _FLOAT32_EXACT else np.float64
    masks = np.empty((len(first) + len(second), first.shape[1]), dtype)
    masks[: len(first)] = first
    masks[len(first) :] = second
    return (masks @ masks.T).astype(np.float64)


def _ious(intersections: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """IoU of each pair (0 where both are empty), and where either is not empty.

    Args:
        intersections: [..., K, K] with the areas on the diagonal.
    """
    areas = np.diagonal(intersections, axis1=-2, axis2=-1)
    unions = areas[..., :, None] + areas[..., None, :] - intersections
    return intersections / np.maximum(unions, 1.0), unions > 0


def _mean_ious(
    first: np.ndarray, second: np.ndarray, labels: LabelSet
) -> tuple[np.ndarray, np.ndarray]:
    """Mean IoU of each pair of one image's label maps, and where a class is present."""
    if labels.ignore is not None:
        ignored = (first == labels.ignore).any(0) | (second == labels.ignore).any(0)
        first, second = first[:, ~ignored], second[:, ~ignored]
    total, count = np.zeros(1), np.zeros(1, int)
    for label in labels.scored:
        masks = ((maps == label).view(np.uint8) for maps in (first, second))
        ious, present = _ious(_intersections(*masks))
        total = total + ious
        count = count + present
    return total / np.maximum(count, 1), count > 0
