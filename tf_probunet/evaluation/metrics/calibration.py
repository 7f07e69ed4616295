"""Calibration of pixel-wise means and of lesion presence, summed over images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tf_probunet.evaluation.metrics import checks


class Reliability(NamedTuple):
    """Sums per bin of predicted probability; add those of images with `merge`.

    Attributes:
        number: [B] observations, one per grader and pixel (or per grader and image).
        predicted: [B] sum of the predicted probabilities.
        observed: [B] sum of the graders' answers, 0 or 1.
    """

    number: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray

    def merge(self, other: Reliability) -> Reliability:
        """Returns the sums over both.

        Raises:
            ValueError: the numbers of bins differ.
        """
        if len(self.number) != len(other.number):
            raise ValueError(
                f"reliability has {len(self.number)} and {len(other.number)} bins; "
                "expected the same number"
            )
        return Reliability(*(a + b for a, b in zip(self, other)))

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean prediction and observed share per bin, [B] each; NaN in empty bins."""
        filled = np.where(self.number > 0, self.number, np.nan)
        return self.predicted / filled, self.observed / filled

    def expected_calibration_error(self) -> float:
        """Mean over observations of |mean prediction - observed share| of their bin."""
        gaps = np.abs(self.predicted - self.observed)
        total = self.number.sum()
        return float(gaps.sum() / total) if total else float("nan")


def pixel_reliability(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    num_bins: int = 10,
    marked_only: bool = False,
    sample_weights: np.ndarray | None = None,
) -> Reliability:
    """Reliability of the samples' mean as the probability that a grader marks a pixel.

    Args:
        samples: [S, H, W] or [N, S, H, W] foreground probabilities; hard masks are a
            special case.
        graders: [M, H, W] or [N, M, H, W] binary.
        num_bins: B bins of equal width; a bin holds its lower edge, the last one both.
        marked_only: whether to leave out pixels that neither a sample nor a grader
            marks. Otherwise the background, predicted as 0, hides everything else.
        sample_weights: [S] or [N, S] probabilities of the samples; None for equal ones.

    Returns:
        The sums over the images.

    Raises:
        ValueError: on other values, shapes that do not fit or no bin.
    """
    samples = checks.probabilities(samples, "samples")
    graders = checks.binary_masks(graders, "graders")
    checks.same_pixels(samples, graders, ("samples", "graders"))
    predicted = checks.weighted_mean(samples, sample_weights).ravel()  # [N * H * W]
    votes = graders.sum(axis=-3, dtype=np.int64).ravel()  # [N * H * W]
    if marked_only:
        marked = (predicted > 0) | (votes > 0)
        predicted, votes = predicted[marked], votes[marked]
    return binned(predicted, votes, graders.shape[-3], num_bins)


def presence_reliability(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    num_bins: int = 10,
    sample_weights: np.ndarray | None = None,
) -> Reliability:
    """Reliability of the share of non-empty samples as the probability of a lesion.

    Args:
        samples: [S, H, W] or [N, S, H, W] binary.
        graders: [M, H, W] or [N, M, H, W] binary; each is one observation per image.
        num_bins: B bins of equal width.
        sample_weights: [S] or [N, S] probabilities of the samples; None for equal ones.

    Returns:
        The sums over the images.

    Raises:
        ValueError: on other values, shapes that do not fit or no bin.
    """
    samples = checks.binary_masks(samples, "samples")
    graders = checks.binary_masks(graders, "graders")
    checks.same_pixels(samples, graders, ("samples", "graders"))
    predicted = 1.0 - np.atleast_1d(empty_share(samples, sample_weights))
    present = graders.any(axis=(-2, -1)).sum(axis=-1)
    return binned(predicted, np.atleast_1d(present), graders.shape[-3], num_bins)


def empty_share(
    masks: np.ndarray, sample_weights: np.ndarray | None = None
) -> np.ndarray:
    """Share of the masks without foreground.

    Args:
        masks: [S, H, W] or [N, S, H, W] binary.
        sample_weights: [S] or [N, S] probabilities of the masks; None for equal ones.

    Returns:
        A scalar or [N], in [0, 1].

    Raises:
        ValueError: on other values or shapes.
    """
    checked = checks.binary_masks(masks, "masks")
    present = checked.any(axis=(-2, -1), keepdims=True)  # [..., S, 1, 1]
    share = checks.weighted_mean(np.asarray(present), sample_weights)
    return 1.0 - share[..., 0, 0]


def binned(
    predicted: np.ndarray, votes: np.ndarray, num_votes: int, num_bins: int
) -> Reliability:
    """Sorts observations into bins of their predicted probability.

    Args:
        predicted: [P] probabilities.
        votes: [P] how many of the votes came true.
        num_votes: votes for each prediction.
        num_bins: B bins of equal width; a bin holds its lower edge, the last one both.

    Returns:
        The sums of each bin.

    Raises:
        ValueError: there is no bin.
    """
    if num_bins < 1:
        raise ValueError(f"num_bins is {num_bins}; expected at least 1")
    # The margin keeps shares such as 29/100, which as binary numbers are just below
    # the edge 0.29, in the bin above it.
    bins = np.floor(predicted * num_bins + 1e-9).astype(np.int64)
    bins = np.minimum(bins, num_bins - 1)

    def sums(weights: np.ndarray) -> np.ndarray:
        return np.bincount(bins, weights, minlength=num_bins)

    return Reliability(
        number=num_votes * np.bincount(bins, minlength=num_bins),
        predicted=num_votes * sums(predicted),
        observed=sums(votes),
    )
