"""STAPLE (Warfield et al. 2004): one mask estimated from those of several graders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from tf_probunet.evaluation.metrics import checks

_FIRST_GUESS = 0.99999  # Of all sensitivities and specificities, as in ITK.
_UNCERTAIN = 1e-12  # Nobody is always right: two such graders may disagree.


class Staple(NamedTuple):
    """The estimate of STAPLE.

    Attributes:
        probability: [H, W], that a pixel is marked in the unknown true mask.
        sensitivity: [M], of each grader; NaN if nothing is estimated to be foreground.
        specificity: [M], of each grader; NaN if nothing is estimated to be background.
    """

    probability: np.ndarray
    sensitivity: np.ndarray
    specificity: np.ndarray


def staple(
    graders: np.ndarray,
    *,
    prior: float | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 1000,
) -> Staple:
    """Estimates the true mask and how good each grader is, by expectation maximisation.

    Pixels are independent. A grader marks a pixel of the true mask with their
    sensitivity, and leaves out another with their specificity.

    Args:
        graders: [M, H, W] binary.
        prior: probability that a pixel is foreground, in (0, 1); by default the share
            of the graders' pixels that are marked.
        tolerance: stop when no sensitivity or specificity changes by more.
        max_steps: stop after so many steps.

    Returns:
        The estimate. If all masks are empty, or all are full, it is that mask.

    Raises:
        ValueError: on other values or shapes, or a prior out of range.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:3, 8:20, 8:20] = 1  # The fourth grader has missed the lesion.
        >>> found = pu.staple(graders)
        >>> found.sensitivity.round(3)
        array([1., 1., 1., 0.])
        >>> int((found.probability > 0.5).sum())
        144
    """
    graders = checks.binary_masks(graders, "graders")
    checks.three_axes(graders, "graders")
    shape = graders.shape[1:]
    # Pixels with the same votes have the same probability.
    votes, place, pixels = np.unique(
        graders.reshape(len(graders), -1),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    prior = float(graders.mean()) if prior is None else prior
    if not 0 <= prior <= 1 or (prior in (0, 1) and votes.shape[1] > 1):
        raise ValueError(f"prior is {prior}; expected a probability between 0 and 1")
    sensitivity = specificity = np.full(len(graders), _FIRST_GUESS)
    for _ in range(max_steps):
        before = sensitivity, specificity
        foreground = _foreground(votes, *before, prior)
        weights = np.stack([foreground, 1 - foreground]) * pixels  # [2, patterns]
        total = weights.sum(axis=1)
        shares = votes @ weights.T / np.where(total > 0, total, np.nan)  # [M, 2]
        sensitivity, specificity = shares[:, 0], 1 - shares[:, 1]
        change = np.abs(np.subtract((sensitivity, specificity), before)).max()
        if not change > tolerance:  # NaN ends it too: there is nothing to estimate.
            break
    probability = foreground[place.reshape(-1)].reshape(shape)
    return Staple(probability, sensitivity, specificity)


def _foreground(
    votes: np.ndarray, sensitivity: np.ndarray, specificity: np.ndarray, prior: float
) -> np.ndarray:
    """Returns the probability of foreground for each pattern of votes, [patterns]."""
    if prior in (0, 1):
        return np.full(votes.shape[1], prior)
    # In logarithms, because a product over 32 graders may underflow.
    logs = []
    for marks in (sensitivity, 1 - specificity):
        marks = np.clip(marks, _UNCERTAIN, 1 - _UNCERTAIN)[:, None]  # [M, 1]
        logs.append(np.where(votes, np.log(marks), np.log(1 - marks)).sum(axis=0))
    return special.expit(logs[0] - logs[1] + special.logit(prior))
