"""Energy distance and closest modes on the Cityscapes task with its 32 known modes.

The modes move whole classes, so the distances of a sample to all modes follow from its
pixel counts per pair of classes. No mode is drawn. See docs/cityscapes.md.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tf_probunet.dataset.cityscapes_labels import (
    IGNORE_LABEL,
    MODE_BITS,
    MODE_PROBABILITIES,
    NUM_CLASSES,
    NUM_SWITCHES,
    NUM_TRAIN_CLASSES,
    SWITCHES,
)

_OLD = np.array([switch.class_id for switch in SWITCHES])
_NEW = np.array([switch.new_class_id for switch in SWITCHES])
_SWITCHABLE = np.concatenate([_OLD, _NEW])

# Masked pixels get the first number that isn't a class.
_MASKED_SAMPLE = NUM_CLASSES
_MASKED_LABEL = NUM_TRAIN_CLASSES

# Sample-sample distances need the ten switchable classes; the rest are one code.
_OTHER = len(_SWITCHABLE)
_NUM_CODES = _OTHER + 1

# Four maps have six pairs; where each pair agrees in the joint histogram of the four.
_AGREEMENTS = {
    (0, 1): "ccxy->c",
    (0, 2): "cxcy->c",
    (0, 3): "cxyc->c",
    (1, 2): "xccy->c",
    (1, 3): "xcyc->c",
    (2, 3): "xycc->c",
}

# Distances are ratios of pixel counts; a smaller difference is a rounding error.
_TIE = 1e-9

# Trivial models, for comparison.
BASELINES = ("never_flipped", "no_switchable_class")


@dataclass(frozen=True)
class Distances:
    """All distances of one image, each 1 - mean IoU over the ten switchable classes.

    Attributes:
        samples_to_modes: [S, 32] float64.
        between_samples: [S, S] float64.
        between_modes: [32, 32] float64.
    """

    samples_to_modes: np.ndarray
    between_samples: np.ndarray
    between_modes: np.ndarray

    def energy_distance(self, num_samples: int) -> float:
        """The paper's estimator on the first `num_samples` samples."""
        if not 1 <= num_samples <= len(self.samples_to_modes):
            raise ValueError(
                f"num_samples is {num_samples}, expected 1 to "
                f"{len(self.samples_to_modes)}, the number of samples"
            )
        cross = self.samples_to_modes[:num_samples].mean(axis=0) @ MODE_PROBABILITIES
        within = self.between_samples[:num_samples, :num_samples].mean()
        return float(2 * cross - within - self.mode_spread())

    def mode_spread(self) -> float:
        """The expected distance between two independent draws of the ground truth."""
        return float(MODE_PROBABILITIES @ self.between_modes @ MODE_PROBABILITIES)

    def mode_counts(self) -> np.ndarray:
        """Samples per closest mode, [32] float64; see `mode_counts`."""
        shares = MODE_PROBABILITIES * self._closest()
        return (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)

    def switch_ties(self) -> np.ndarray:
        """Samples that decide for neither side of a switch, [5, 2] int64.

        Returns:
            For each switch, how many samples are as close to a mode that flips it as to
            one that does not, and how many samples there are; both 0 where the image
            lacks the class, since no sample could decide there.
        """
        tied = self._tied()
        counts = np.stack([tied.sum(axis=0), np.full(NUM_SWITCHES, len(tied))], axis=1)
        return counts * self._present()[:, None]

    def undecided(self) -> int:
        """The number of samples that decide for neither side of some switch."""
        return int(self._tied().any(axis=1).sum())

    def baselines(self) -> dict[str, float]:
        """Energy distances of trivial models; they do not depend on their number.

        Returns:
            By name of `BASELINES`: that of samples which are all the true labels with
            nothing flipped, and that of samples without any switchable class.
        """
        never_flipped = 2 * self.between_modes[0] @ MODE_PROBABILITIES
        without = 2.0 * self._present().any()
        spread = self.mode_spread()
        found = (never_flipped - spread, without - spread)
        return {name: float(value) for name, value in zip(BASELINES, found)}

    def _closest(self) -> np.ndarray:
        """Whether no mode is closer to a sample, [S, 32] bool."""
        least = self.samples_to_modes.min(axis=1, keepdims=True)
        return self.samples_to_modes <= least + _TIE

    def _tied(self) -> np.ndarray:
        """Whether a sample fits both sides of a switch of the image, [S, 5] bool."""
        closest = self._closest()
        return (closest @ MODE_BITS) & (closest @ ~MODE_BITS) & self._present()

    def _present(self) -> np.ndarray:
        """Whether the image has a class that is switched, [5] bool."""
        return self.between_modes[0, 1 << np.arange(NUM_SWITCHES)] > 0


@dataclass(frozen=True)
class ImageScore:
    """What one image contributes to the results.

    Attributes:
        energy_distances: energy distance by number of samples.
        floors: expected energy distance of a perfect model, by number of samples.
        mode_counts: [32] float64, samples per closest mode.
        pixel_counts: [24, 19] int64, pixels per predicted and ground-truth class.
        switch_ties: [5, 2] int64, see `Distances.switch_ties`.
        undecided: samples with a tie at any switch.
        baselines: energy distances of trivial models, see `Distances.baselines`.
    """

    energy_distances: dict[int, float]
    floors: dict[int, float]
    mode_counts: np.ndarray
    pixel_counts: np.ndarray
    switch_ties: np.ndarray
    undecided: int
    baselines: dict[str, float]


def energy_distance(
    samples: np.ndarray, labels: np.ndarray, *, ignore: int = IGNORE_LABEL
) -> float:
    """Squared generalised energy distance of samples to the 32 weighted modes.

    With the weights w of the modes Y and n samples S (appendix "Metrics"):

        2/n sum_ij d(S_i, Y_j) w_j - 1/n^2 sum_ij d(S_i, S_j)
            - sum_ij d(Y_i, Y_j) w_i w_j

    where d is 1 - mean IoU over those of the ten switchable classes that occur in
    either map, and 0 if none does.

    Args:
        samples: [S, H, W] integer, 24 classes.
        labels: [H, W] integer, the 19 training classes before any flip, or `ignore`.
        ignore: label of the pixels that are masked, whatever the samples say there.

    Returns:
        The energy distance over all S samples.

    Raises:
        ValueError: if shapes, dtypes or classes are not as described.
    """
    result = distances(samples, labels, ignore=ignore)
    return result.energy_distance(len(result.samples_to_modes))


def mode_counts(
    samples: np.ndarray, labels: np.ndarray, *, ignore: int = IGNORE_LABEL
) -> np.ndarray:
    """Counts the samples whose closest mode is each of the 32.

    Modes at the same least distance share the sample in proportion to their
    probabilities. They tie when the image lacks a switchable class, and with this
    rule the expected counts of a perfect model are the mode probabilities. They also
    tie when a sample lacks a class that the image has: `Distances.switch_ties` counts
    such samples.

    Args:
        samples: [S, H, W] integer, 24 classes.
        labels: [H, W] integer, the 19 training classes before any flip, or `ignore`.
        ignore: label of the pixels that are masked.

    Returns:
        [32] float64 that sums to S.

    Raises:
        ValueError: if shapes, dtypes or classes are not as described.
    """
    return distances(samples, labels, ignore=ignore).mode_counts()


def pixel_counts(
    samples: np.ndarray, labels: np.ndarray, *, ignore: int = IGNORE_LABEL
) -> np.ndarray:
    """Counts pixels per predicted and ground-truth class over all samples.

    Args:
        samples: [S, H, W] integer, 24 classes.
        labels: [H, W] integer, the 19 training classes before any flip, or `ignore`.
        ignore: label of the pixels that are masked.

    Returns:
        [24, 19] int64.

    Raises:
        ValueError: if shapes, dtypes or classes are not as described.
    """
    return _class_pairs(*_runs(*_masked(samples, labels, ignore))).sum(axis=0)


def distances(
    samples: np.ndarray, labels: np.ndarray, *, ignore: int = IGNORE_LABEL
) -> Distances:
    """All distances between samples and modes; arguments as for `energy_distance`."""
    maps, truth, lengths = _runs(*_masked(samples, labels, ignore))
    return _distances(maps, _class_pairs(maps, truth, lengths), lengths)


def score_image(
    samples: np.ndarray,
    labels: np.ndarray,
    *,
    sample_counts: Sequence[int] = (1, 4, 8, 16),
    ignore: int = IGNORE_LABEL,
) -> ImageScore:
    """Computes everything that is reported of an image, counting its pixels once.

    Args:
        samples: [S, H, W] integer, 24 classes.
        labels: [H, W] integer, the 19 training classes before any flip, or `ignore`.
        sample_counts: numbers of samples n; the first n samples are used for each.
        ignore: label of the pixels that are masked.

    Returns:
        The image's score; modes and pixels are counted over all S samples.

    Raises:
        ValueError: if shapes, dtypes or classes are not as described, or if a sample
            count is larger than S.
    """
    maps, truth, lengths = _runs(*_masked(samples, labels, ignore))
    pairs = _class_pairs(maps, truth, lengths)
    result = _distances(maps, pairs, lengths)
    return ImageScore(
        energy_distances={n: result.energy_distance(n) for n in sample_counts},
        floors={n: result.mode_spread() / n for n in sample_counts},
        mode_counts=result.mode_counts(),
        pixel_counts=pairs.sum(axis=0),
        switch_ties=result.switch_ties(),
        undecided=result.undecided(),
        baselines=result.baselines(),
    )


def perfect_model_floor(
    labels: np.ndarray, num_samples: int, *, ignore: int = IGNORE_LABEL
) -> float:
    """Expected energy distance of samples drawn from the ground truth itself.

    The estimator counts the n zero distances of samples to themselves, so its
    expectation is sum_ij w_i w_j d(Y_i, Y_j) / n and not 0.

    Args:
        labels: [H, W] integer, the 19 training classes before any flip, or `ignore`.
        num_samples: the number of samples n.
        ignore: label of the pixels that are masked.

    Returns:
        The floor, 0 where the image has no switchable class.

    Raises:
        ValueError: if the labels are not as described or `num_samples` is below 1.
    """
    if num_samples < 1:
        raise ValueError(f"num_samples is {num_samples}, expected 1 or more")
    truth = _masked_labels(np.asarray(labels), ignore)
    between = _between_modes(tuple(np.isin(_OLD, truth).tolist()))
    return float(MODE_PROBABILITIES @ between @ MODE_PROBABILITIES) / num_samples


def _masked(
    samples: np.ndarray, labels: np.ndarray, ignore: int
) -> tuple[np.ndarray, np.ndarray]:
    """Checks one image; returns flat uint8 maps [S, P] and labels [P]."""
    samples, labels = np.asarray(samples), np.asarray(labels)
    if samples.ndim != 3 or 0 in samples.shape:
        raise ValueError(
            f"samples have shape {samples.shape}, expected [S, H, W], none 0"
        )
    if not np.issubdtype(samples.dtype, np.integer):
        raise ValueError(f"samples have dtype {samples.dtype}, expected integers")
    if labels.shape != samples.shape[1:]:
        raise ValueError(
            f"labels have shape {labels.shape}, expected {samples.shape[1:]} to match "
            "the samples"
        )
    truth = _masked_labels(labels, ignore)
    masked = truth == _MASKED_LABEL
    flat = samples.reshape(len(samples), -1)
    _check_classes(flat, masked)
    maps = flat.astype(np.uint8)
    # Sets the masked pixels as np.where would, in half the time.
    np.maximum(maps, masked * np.uint8(_MASKED_SAMPLE), out=maps)
    np.minimum(maps, np.uint8(_MASKED_SAMPLE), out=maps)
    return maps, truth


def _check_classes(samples: np.ndarray, masked: np.ndarray) -> None:
    """Raises a ValueError if samples [S, P] have a wrong class where it counts."""
    if samples.min() >= 0 and samples.max() < NUM_CLASSES:
        return
    wrong = ((samples < 0) | (samples >= NUM_CLASSES)) & ~masked
    if wrong.any():
        raise ValueError(
            f"samples contain class {samples[wrong][0]}, expected 0 to "
            f"{NUM_CLASSES - 1}"
        )


def _masked_labels(labels: np.ndarray, ignore: int) -> np.ndarray:
    """Checks labels [H, W]; returns them flat, uint8, with 19 for ignored pixels."""
    if labels.ndim != 2:
        raise ValueError(f"labels have shape {labels.shape}, expected [H, W]")
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels have dtype {labels.dtype}, expected integers")
    flat = labels.reshape(-1)
    masked = flat == ignore
    wrong = ((flat < 0) | (flat >= NUM_TRAIN_CLASSES)) & ~masked
    if wrong.any():
        raise ValueError(
            f"labels contain {flat[wrong][0]}, expected 0 to {NUM_TRAIN_CLASSES - 1} "
            f"(before any flip) or {ignore} to ignore"
        )
    return np.where(masked, np.uint8(_MASKED_LABEL), flat.astype(np.uint8))


def _runs(
    maps: np.ndarray, truth: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Merges neighbouring pixels that are alike in all maps [S, P] and labels [P].

    Returns:
        Maps [S, R] and labels [R], one column per run of pixels, and the lengths [R] of
        the runs; or the arguments and None where that would save little.
    """
    change = truth[1:] != truth[:-1]
    for one in maps:
        change |= one[1:] != one[:-1]
    starts = np.concatenate([[0], np.flatnonzero(change) + 1])
    if 2 * len(starts) > len(truth):
        return maps, truth, None
    lengths = np.diff(starts, append=len(truth)).astype(np.float64)
    return np.take(maps, starts, axis=1), truth[starts], lengths


def _class_pairs(
    maps: np.ndarray, truth: np.ndarray, lengths: np.ndarray | None
) -> np.ndarray:
    """Pixels per sample, predicted class and label, [S, 24, 19], masked ones left out.

    Two samples are counted together to save passes over the pixels.
    """
    shape = (NUM_CLASSES + 1, NUM_CLASSES + 1, NUM_TRAIN_CLASSES + 1)
    counts = np.zeros((len(maps), shape[0], shape[2]), np.int64)
    for i in range(0, len(maps), 2):
        j = min(i + 1, len(maps) - 1)  # the last of an odd number goes with itself
        table = _joint_histogram((maps[i], maps[j], truth), shape, lengths)
        counts[i], counts[j] = table.sum(axis=1), table.sum(axis=0)
    return counts[:, :NUM_CLASSES, :NUM_TRAIN_CLASSES]


def _joint_histogram(
    codes: Sequence[np.ndarray], shape: tuple[int, ...], lengths: np.ndarray | None
) -> np.ndarray:
    """Pixels per combination of codes: uint8 maps [P], at most 2^16 combinations."""
    joint = codes[0].astype(np.uint16)
    for size, code in zip(shape[1:], codes[1:]):
        joint *= np.uint16(size)
        joint += code
    counts = np.bincount(joint, weights=lengths, minlength=int(np.prod(shape)))
    return counts.reshape(shape)


def _distances(
    maps: np.ndarray, pairs: np.ndarray, lengths: np.ndarray | None
) -> Distances:
    """Distances from flat maps [S, P] and their counts against the labels."""
    present = pairs[0].sum(axis=0)[_OLD] > 0
    areas = pairs.sum(axis=2)[:, _SWITCHABLE]
    return Distances(
        samples_to_modes=_samples_to_modes(pairs),
        between_samples=_between_samples(_overlaps(maps, lengths), areas),
        between_modes=_between_modes(tuple(present.tolist())),
    )


def _samples_to_modes(pairs: np.ndarray) -> np.ndarray:
    """Distances [S, 32] from counts [S, 24, 19].

    A mode either leaves a class or moves all its pixels to the new class. Each switch
    therefore adds one of two numbers to the sum of IoUs and to the count of classes.
    """
    truth = pairs[0].sum(axis=0)[_OLD]  # [5]
    areas = pairs.sum(axis=2)
    areas_old, areas_new = areas[:, _OLD], areas[:, _NEW]  # [S, 5]
    stay = _iou(pairs[:, _OLD, _OLD], areas_old, truth)
    flip = _iou(pairs[:, _NEW, _OLD], areas_new, truth)
    stay_classes = (areas_old + truth > 0) + (areas_new > 0).astype(int)
    flip_classes = (areas_old > 0) + (areas_new + truth > 0).astype(int)
    ious = np.where(MODE_BITS, flip[:, None], stay[:, None])  # [S, 32, 5]
    classes = np.where(MODE_BITS, flip_classes[:, None], stay_classes[:, None])
    return _one_minus_mean(ious.sum(axis=2), classes.sum(axis=2))


def _between_samples(overlaps: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """Distances [S, S] from overlaps [S, S, 10] and areas [S, 10] of the classes."""
    unions = areas[:, None] + areas[None] - overlaps
    ious = _iou(overlaps, areas[:, None], areas[None])
    result = _one_minus_mean(ious.sum(axis=2), (unions > 0).sum(axis=2))
    np.fill_diagonal(result, 0.0)
    return result


def _overlaps(maps: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
    """Pixels where two samples agree on a switchable class, [S, S, 10], 0 for i = j.

    One joint histogram of four maps (11^4 bins) contains all six of their pairs, so
    16 samples take 28 passes over the pixels instead of 120.
    """
    padding = max(4, len(maps) + len(maps) % 2) - len(maps)
    codes = np.pad(
        _switchable_codes(maps), ((0, padding), (0, 0)), constant_values=_OTHER
    )
    twos = codes[0::2] * np.uint8(_NUM_CODES) + codes[1::2]
    overlaps = np.zeros((len(codes), len(codes), _OTHER), np.int64)
    for a, b in itertools.combinations(range(len(twos)), 2):
        fours = _joint_histogram((twos[a], twos[b]), (_NUM_CODES**2,) * 2, lengths)
        fours = fours.reshape((_NUM_CODES,) * 4)
        where = (2 * a, 2 * a + 1, 2 * b, 2 * b + 1)
        for (i, j), agreement in _AGREEMENTS.items():
            overlaps[where[i], where[j]] = np.einsum(agreement, fours)[:_OTHER]
    overlaps += overlaps.transpose(1, 0, 2)
    return overlaps[: len(maps), : len(maps)]


def _switchable_codes(maps: np.ndarray) -> np.ndarray:
    """Maps [S, P] with the ten switchable classes as 0-9 and all else as 10."""
    table = np.full(256, _OTHER, np.uint8)
    table[_SWITCHABLE] = np.arange(_OTHER)
    # bytes.translate is two to three times faster than indexing the table.
    codes = np.frombuffer(maps.tobytes().translate(table.tobytes()), np.uint8)
    return codes.reshape(maps.shape)


@functools.lru_cache(maxsize=2**NUM_SWITCHES)
def _between_modes(present: tuple[bool, ...]) -> np.ndarray:
    """Distances [32, 32] given which of the five classes the image has.

    Where two modes agree on a class its IoU is 1; where they don't, both the class and
    its new class score 0.
    """
    agree = MODE_BITS[:, None] == MODE_BITS[None]  # [32, 32, 5]
    same = (agree & present).sum(axis=2)
    different = (~agree & present).sum(axis=2)
    result = _one_minus_mean(same, same + 2 * different)
    result.setflags(write=False)
    return result


def _iou(overlap: np.ndarray, area: np.ndarray, other_area: np.ndarray) -> np.ndarray:
    """Intersection over union from pixel counts, 0 where the union is empty."""
    return overlap / np.maximum(area + other_area - overlap, 1)


def _one_minus_mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """1 - total / count, 0 where nothing is counted."""
    return np.where(count > 0, 1 - total / np.maximum(count, 1), 0.0)
