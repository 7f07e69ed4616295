"""Pixel-wise agreement of samples and graders: correlations and the Brier score."""

from __future__ import annotations

import numpy as np

from tf_probunet.evaluation.metrics import checks

# PHiSeg's guard against log(0); for hard masks its value cancels out.
_EPSILON = 1e-8

# A map whose values differ by less is constant up to rounding.
_FLAT = 1e-12


def ncc(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    sample_weights: np.ndarray | None = None,
) -> float:
    """S_NCC of PHiSeg (Baumgartner et al. 2019) for one image.

    The mean over graders y of the normalised cross-correlation over pixels between
    E_s[CE(mean sample, s)], the model's uncertainty, and E_s[CE(y, s)], its error.
    For hard masks of mean p these are proportional to p (1 - p) and |y - p|.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.
        sample_weights: [S] probabilities of the samples; None for equal ones.

    Returns:
        The correlation, in [-1, 1]. It is 0 if one of two maps is constant, and 1 if
        both are.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    samples, graders = checks.one_image(samples, graders)

    def mean(maps: np.ndarray) -> np.ndarray:
        return checks.weighted_mean(maps, sample_weights)  # [H, W]

    log_foreground = mean(np.log(samples + _EPSILON))
    log_background = mean(np.log(1.0 - samples + _EPSILON))
    # Cross-entropy is linear in its target, so the mean over samples comes first.
    targets = np.concatenate([mean(samples)[None], graders])
    uncertainty, *errors = -targets * log_foreground - (1 - targets) * log_background
    return float(np.mean([_correlation(uncertainty, error) for error in errors]))


def variance_ncc(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    sample_weights: np.ndarray | None = None,
) -> float:
    """Correlation over pixels of the samples' variance with the graders', one image.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.
        sample_weights: [S] probabilities of the samples; None for equal ones.

    Returns:
        The correlation, in [-1, 1]. It is 0 if one variance is the same for all pixels,
        and 1 if both are.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    samples, graders = checks.one_image(samples, graders)
    mean = checks.weighted_mean(samples, sample_weights)
    variance = checks.weighted_mean(np.square(samples - mean), sample_weights)
    return _correlation(variance, graders.var(axis=0))


def brier_score(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    sample_weights: np.ndarray | None = None,
) -> float:
    """Mean over graders and pixels of (p - y)^2, p the samples' mean; one image.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.
        sample_weights: [S] probabilities of the samples; None for equal ones.

    Returns:
        The score, in [0, 1]; 0 is best.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    samples, graders = checks.one_image(samples, graders)
    mean = checks.weighted_mean(samples, sample_weights)
    return float(np.square(mean - graders).mean())


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson correlation of two maps; 0 if one is constant, 1 if both are."""
    constant = [np.ptp(values) < _FLAT for values in (first, second)]
    if any(constant):
        return float(all(constant))
    return float(np.corrcoef(first.ravel(), second.ravel())[0, 1])
