"""Dice scores between the mean of the samples and the mean of the graders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_probunet.evaluation.metrics import checks

QUBIQ_THRESHOLDS = tuple(tenths / 10 for tenths in range(1, 10))
D_PERSONA_THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)

# Shares that are equal as fractions, such as 3/10 and a threshold of 0.3, differ by
# less than this as binary numbers.
_ROUNDING = 1e-9


def threshold_dice(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    thresholds: Sequence[float] = QUBIQ_THRESHOLDS,
) -> float:
    """Dice of the two mean maps, cut at each threshold and averaged; one image.

    With the thresholds 0.1, 0.2, ..., 0.9 this is the score of the QUBIQ challenges
    (Li et al. 2024); with 0.1, 0.3, ..., 0.9 it is what D-Persona (Wu et al. 2024)
    calls soft Dice. A pixel is marked if its mean is larger than the threshold. Where
    neither map has such a pixel, the Dice score is 1.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.
        thresholds: in [0, 1).

    Returns:
        The mean over the thresholds, in [0, 1]; 1 is best.

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1
        >>> round(pu.threshold_dice(graders[:2], graders), 3)  # Up to 0.4 it is right.
        0.444
    """
    if not thresholds or not all(0 <= threshold < 1 for threshold in thresholds):
        raise ValueError(
            f"thresholds are {list(thresholds)}; expected numbers from 0 to below 1"
        )
    means = np.stack(mean_maps(samples, graders)).reshape(2, -1)
    scores = [dice(*(means > cut + _ROUNDING)) for cut in thresholds]
    return float(np.mean(scores))


def soft_dice(samples: np.ndarray, graders: np.ndarray) -> float:
    """Dice of the two mean maps without thresholds; one image.

    2 sum pq / (sum p^2 + sum q^2) (Milletari et al. 2016), p the mean of the samples
    and q that of the graders. It is 1 only if p = q; two empty maps have 1.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.

    Returns:
        The score, in [0, 1].

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1
        >>> pu.soft_dice(graders[:2], graders)  # p is 1 where q is 1/2.
        0.8
    """
    predicted, observed = mean_maps(samples, graders)
    total = np.square(predicted).sum() + np.square(observed).sum()
    return float(2 * (predicted * observed).sum() / total) if total else 1.0


def mean_maps(
    samples: np.ndarray, graders: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean of the samples and that of the graders of one image, [H, W].

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    samples, graders = checks.one_image(samples, graders)
    return samples.mean(axis=0), graders.mean(axis=0)


def dice(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the Dice score of two binary arrays of one shape; 1 if both are empty."""
    total = first.sum(dtype=np.int64) + second.sum(dtype=np.int64)
    both = np.logical_and(first, second).sum()
    return float(2 * both / total) if total else 1.0
