"""Calibration on the Cityscapes task: sampled against true frequencies, in numbers."""

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
    """How often each mode was sampled, against how often it should be.

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
    """

    probabilities: np.ndarray
    frequencies: np.ndarray


def pixel_calibration(counts: np.ndarray) -> PixelCalibration:
    """Pixel-wise marginal frequencies at the five switches.

    Args:
        counts: [24, 19], the sum of `switched_modes.pixel_counts` over images.

    Returns:
        True and sampled frequencies, in the order of `SWITCHES`.

    Raises:
        ValueError: if the counts are not [24, 19] or negative.
    """
    counts = np.asarray(counts, np.float64)
    if counts.shape != (NUM_CLASSES, NUM_TRAIN_CLASSES):
        raise ValueError(f"pixel counts have shape {counts.shape}, expected (24, 19)")
    if not (np.isfinite(counts).all() and counts.min() >= 0):
        raise ValueError("pixel counts are negative or not finite, expected 0 or more")
    truth = counts.sum(axis=0)[_OLD]
    hits = np.stack([counts[_OLD, _OLD], counts[_NEW, _OLD]], axis=1)
    flip = np.array([float(switch.probability) for switch in SWITCHES])
    return PixelCalibration(
        probabilities=np.stack([1 - flip, flip], axis=1),
        frequencies=np.divide(
            hits,
            truth[:, None],
            out=np.full_like(hits, np.nan),
            where=truth[:, None] > 0,
        ),
    )
