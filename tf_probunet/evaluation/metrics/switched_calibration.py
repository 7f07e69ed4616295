"""Calibration in the switched task: compares sampled with true frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tf_probunet.dataset.cityscapes_labels import (
    MODE_PROBABILITIES,
    NUM_CLASSES,
    NUM_MODES,
    NUM_TRAIN_CLASSES,
    SWITCHES,
)

_OLD = np.array([switch.class_id for switch in SWITCHES])
_NEW = np.array([switch.new_class_id for switch in SWITCHES])


@dataclass(frozen=True)
class ModeCalibration:
    """How often each mode was sampled, compared with its probability.

    Attributes:
        probabilities: [32] float64, the true probabilities of the modes.
        frequencies: [32] float64, the fractions of samples closest to the modes.
        kl_divergence: sum f ln(f / p) in nats; about 31 / (2 N) for N samples of a
            perfect model.
        largest_ratio: the largest of f / p and p / f over the modes; infinite if a
            mode is never sampled.
        modes_missed: the number of modes that are never sampled.
    """

    probabilities: np.ndarray
    frequencies: np.ndarray
    kl_divergence: float
    largest_ratio: float
    modes_missed: int


def mode_calibration(counts: np.ndarray) -> ModeCalibration:
    """Compares the sampled frequencies of the modes with their probabilities.

    Args:
        counts: [32], the sum of `switched_modes.mode_counts` over images.

    Returns:
        The data of the paper's log-log figure and its summary in numbers.

    Raises:
        ValueError: if the counts are not [32], negative or all zero.
    """
    counts = np.asarray(counts, np.float64)
    if counts.shape != (NUM_MODES,):
        raise ValueError(f"mode counts have shape {counts.shape}, expected (32,)")
    if not (np.isfinite(counts).all() and counts.min() >= 0 and counts.sum() > 0):
        raise ValueError(f"mode counts are {counts}, expected 0 or more and not all 0")
    frequencies = counts / counts.sum()
    sampled = frequencies > 0
    log_ratios = np.log(frequencies[sampled] / MODE_PROBABILITIES[sampled])
    return ModeCalibration(
        probabilities=MODE_PROBABILITIES,
        frequencies=frequencies,
        kl_divergence=float(frequencies[sampled] @ log_ratios),
        largest_ratio=float(np.exp(np.abs(log_ratios).max()))
        if sampled.all()
        else float("inf"),
        modes_missed=int((~sampled).sum()),
    )


@dataclass(frozen=True)
class PixelCalibration:
    """p(predicted class | ground-truth class) at the five switches.

    Attributes:
        probabilities: [5, 2] float64, the true probabilities of staying and flipping.
        frequencies: [5, 2] float64, the fractions of a class's pixels predicted as the
            class and as its new class (the rest are errors); nan if it never occurs.
        largest_gap: the largest |frequency - probability|; nan if no class occurs.
    """

    probabilities: np.ndarray
    frequencies: np.ndarray
    largest_gap: float


@dataclass(frozen=True)
class FoldedIou:
    """IoU of the 19 classes when every new class counts as its old one.

    Attributes:
        mean: over the classes that occur in labels or samples; nan if none does.
        by_class: [19] float64, nan for a class that occurs in neither.
    """

    mean: float
    by_class: np.ndarray


def pixel_calibration(counts: np.ndarray) -> PixelCalibration:
    """Pixel-wise marginal frequencies at the five switches.

    Args:
        counts: [24, 19], the sum of `switched_modes.pixel_counts` over images.

    Returns:
        True and sampled frequencies, in the order of `SWITCHES`.

    Raises:
        ValueError: if the counts are not [24, 19] or negative.
    """
    counts = _checked_pixels(counts)
    truth = counts.sum(axis=0)[_OLD]
    hits = np.stack([counts[_OLD, _OLD], counts[_NEW, _OLD]], axis=1)
    flip = np.array([float(switch.probability) for switch in SWITCHES])
    probabilities = np.stack([1 - flip, flip], axis=1)
    frequencies = _shares(hits, truth[:, None])
    gaps = np.abs(frequencies - probabilities)
    known = gaps[np.isfinite(gaps)]
    return PixelCalibration(
        probabilities=probabilities,
        frequencies=frequencies,
        largest_gap=float(known.max()) if known.size else float("nan"),
    )


def folded_iou(counts: np.ndarray) -> FoldedIou:
    """How good the segmentation is, whichever classes the samples flip.

    Args:
        counts: [24, 19], the sum of `switched_modes.pixel_counts` over images.

    Returns:
        The IoU of each class over all pixels of all samples, as Cityscapes scores a
        segmentation, and its mean.

    Raises:
        ValueError: if the counts are not [24, 19] or negative.
    """
    counts = _checked_pixels(counts)
    folded = counts[:NUM_TRAIN_CLASSES].copy()
    folded[_OLD] += counts[_NEW]
    hits = np.diagonal(folded)
    by_class = _shares(hits, folded.sum(axis=0) + folded.sum(axis=1) - hits)
    known = by_class[np.isfinite(by_class)]
    mean = float(known.mean()) if known.size else float("nan")
    return FoldedIou(mean=mean, by_class=by_class)


def undecided_shares(ties: np.ndarray) -> np.ndarray:
    """The share of samples that decide for neither side of a switch.

    Args:
        ties: [5, 2], the sum of `Distances.switch_ties` over images.

    Returns:
        [5] float64, of the images that have the class; nan if none has it.
    """
    ties = np.asarray(ties, np.float64)
    return _shares(ties[:, 0], ties[:, 1])


def _checked_pixels(counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(counts, np.float64)
    if counts.shape != (NUM_CLASSES, NUM_TRAIN_CLASSES):
        raise ValueError(f"pixel counts have shape {counts.shape}, expected (24, 19)")
    if not (np.isfinite(counts).all() and counts.min() >= 0):
        raise ValueError("pixel counts are negative or not finite, expected 0 or more")
    return counts


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """parts / wholes, nan where the whole is 0."""
    nothing = np.full(parts.shape, np.nan)
    return np.divide(parts, wholes, out=nothing, where=np.asarray(wholes) > 0)
