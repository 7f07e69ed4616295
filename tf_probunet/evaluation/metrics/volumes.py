"""Volumes and diameters as distributions: scores, intervals and measures of masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

# The shares of the samples that intervals hold.
SHARES = (0.5, 0.9)


def crps(samples: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of samples for each observation.

    E|X - y| - E|X - X'| / 2, in the unit of the samples. For a single sample it is the
    absolute error.

    Args:
        samples: [S] numbers, such as volumes.
        observations: [M] numbers, such as the graders' volumes.

    Returns:
        [M] float64; 0 is best.

    Raises:
        ValueError: there are none, or a number is not finite.
    """
    samples, observations = _numbers(samples), _numbers(observations)
    off = np.abs(samples[:, None] - observations).mean(axis=0)  # [M]
    return off - np.abs(samples[:, None] - samples).mean() / 2


def central_interval(samples: np.ndarray, share: float) -> tuple[float, float]:
    """Returns the interval between two quantiles that holds a share of a distribution.

    The quantile p of S samples is the number at place p (S + 1) in ascending order. A
    further draw from the same distribution is then inside with the probability
    `share`, as long as S + 1 is at least 2 / (1 - share); with fewer samples the
    interval is their range, and holds (S - 1) / (S + 1).

    Args:
        samples: [S] numbers.
        share: between 0 and 1.
    """
    samples = _numbers(samples)
    if not 0 < share < 1:
        raise ValueError(f"share is {share}; expected a number between 0 and 1")
    tail = (1 - share) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], method="weibull")
    return float(low), float(high)


def coverage(samples: np.ndarray, observations: np.ndarray, share: float) -> float:
    """Returns the share of the observations inside of the samples' central interval.

    Args:
        samples: [S] numbers.
        observations: [M] numbers.
        share: of the distribution that the interval should hold.
    """
    low, high = central_interval(samples, share)
    observations = _numbers(observations)
    return float(((observations >= low) & (observations <= high)).mean())


def diameter_mm(mask: np.ndarray, spacing_mm: Sequence[float]) -> float:
    """Returns the longest diameter of a mask, from edge to edge.

    It is the largest distance between two points of the outline that runs half a pixel
    outside of the pixels' centres.

    Args:
        mask: [H, W]; or [Z, H, W] for the longest diameter within a slice.
        spacing_mm: height and width of a pixel.

    Returns:
        mm; 0 for an empty mask.
    """
    mask = np.asarray(mask).astype(bool)
    if mask.ndim == 3:
        return max((diameter_mm(one, spacing_mm) for one in mask), default=0.0)
    rows = np.flatnonzero(mask.any(axis=1))
    if not rows.size:
        return 0.0
    # The outermost pixels of each row: no other has a corner of the convex hull.
    ends = np.stack(
        [mask[rows].argmax(axis=1), mask.shape[1] - 1 - mask[rows, ::-1].argmax(axis=1)]
    )  # [2, R]
    centres = np.stack([np.tile(rows, 2), ends.ravel()], axis=1)  # [2R, 2]
    steps = np.array([(0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5)])
    points = (centres[:, None] + steps).reshape(-1, 2) * np.asarray(spacing_mm)
    squares = (points**2).sum(axis=1)
    apart = squares[:, None] + squares - 2 * points @ points.T
    return float(np.sqrt(max(apart.max(), 0.0)))


def smoothing_weights(places: ArrayLike, sigma: float) -> np.ndarray:
    """Returns the weights [Z, Z] of a Gaussian along the slices; rows sum to 1.

    Args:
        places: [Z] of the slices, in units of slices.
        sigma: its standard deviation in slices.
    """
    at = np.asarray(places, float)
    weights = np.exp(-(((at[:, None] - at) / sigma) ** 2) / 2)
    return weights / weights.sum(axis=1, keepdims=True)


def _numbers(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"numbers of shape {values.shape}; expected at least one, all of them "
            "finite"
        )
    return values
