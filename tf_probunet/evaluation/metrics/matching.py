"""Matches samples with graders: Hungarian IoU, best Dice, collective insight."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import optimize

from tf_probunet.evaluation.metrics import checks
from tf_probunet.evaluation.metrics.distances import Blocks, distance_blocks

# The largest number of repeated samples and graders that are matched one to one.
_MAX_REPEATED = 512


class CollectiveInsight(NamedTuple):
    """The score of Rahman et al. (2023) and its three parts, each in [0, 1].

    Attributes:
        score: 3 S_c D_max D_a / (S_c + D_max + D_a); 0 if all three are 0.
        sensitivity: S_c, the share of the graders' union that the samples' covers.
        max_dice: D_max, the mean over graders of the best sample's Dice.
        diversity_agreement: D_a, how alike the extremes of the spread are.
    """

    score: float
    sensitivity: float
    max_dice: float
    diversity_agreement: float


def hungarian_iou(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    sample_weights: np.ndarray | None = None,
    grader_weights: np.ndarray | None = None,
) -> float:
    """Mean IoU of the best matching of samples and graders of one image.

    Without weights, samples and graders are repeated up to the least common multiple of
    their numbers and matched one to one. With weights, or if that multiple is large,
    the matching is the optimal transport between the two, which for equal weights is
    the same. Two empty masks have IoU 1.

    Args:
        samples: [S, H, W] binary.
        graders: [M, H, W] binary.
        sample_weights: [S] probabilities; None for equal ones.
        grader_weights: [M] probabilities; None for equal ones.

    Returns:
        The mean IoU, in [0, 1].

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1
        >>> pu.hungarian_iou(graders[:1], graders)  # It matches two of the four.
        0.5
    """
    return matched_iou(
        _one_image(samples, graders).cross,
        sample_weights=sample_weights,
        grader_weights=grader_weights,
    )


def matched_iou(
    distances: np.ndarray,
    *,
    sample_weights: np.ndarray | None = None,
    grader_weights: np.ndarray | None = None,
) -> float:
    """`hungarian_iou` from distances that are already known.

    Args:
        distances: [S, M], 1 - IoU with 0 for two empty masks.
        sample_weights: [S] probabilities; None for equal ones.
        grader_weights: [M] probabilities; None for equal ones.

    Returns:
        The mean IoU of the matched pairs.

    Raises:
        ValueError: if a distance is NaN, or on weights that do not fit.
    """
    distances = np.asarray(distances)
    if np.isnan(distances).any():
        raise ValueError('distances hold NaN; expected the both-empty rule "zero"')
    num_samples, num_graders = distances.shape
    if sample_weights is not None or grader_weights is not None:
        rows = _weights(sample_weights, num_samples, "sample_weights")
        columns = _weights(grader_weights, num_graders, "grader_weights")
        return 1.0 - _transport_cost(distances, rows, columns)
    size = math.lcm(num_samples, num_graders)
    if size > _MAX_REPEATED:  # The same optimum, without the large square.
        rows, columns = (np.full(n, 1 / n) for n in distances.shape)
        return 1.0 - _transport_cost(distances, rows, columns)
    repeats = (size // num_samples, size // num_graders)
    repeated = np.tile(distances, repeats)
    rows, columns = optimize.linear_sum_assignment(repeated)
    return float(1.0 - repeated[rows, columns].mean())


def _weights(weights: np.ndarray | None, number: int, name: str) -> np.ndarray:
    if weights is None:
        return np.full(number, 1 / number)
    return checks.mode_weights(weights, (number,), name)


def _transport_cost(costs: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    """Returns the least mean cost of moving the row weights to the column weights.

    Args:
        costs: [A, B].
        rows: [A], which sum to 1.
        columns: [B], which sum to 1.
    """
    # The flow [A, B] is not negative; its sums along each axis are the weights.
    along_rows = np.kron(np.eye(len(rows)), np.ones(len(columns)))
    along_columns = np.kron(np.ones(len(rows)), np.eye(len(columns)))
    solved = optimize.linprog(
        costs.ravel(),
        A_eq=np.concatenate(
            [along_rows, along_columns[:-1]]
        ),  # The last row is implied by the others.
        b_eq=np.concatenate([rows, columns[:-1] / columns.sum() * rows.sum()]),
        method="highs",
    )
    if solved.status != 0:
        raise ValueError(f"optimal transport failed: {solved.message}")
    return float(solved.fun)


def best_dice(samples: np.ndarray, graders: np.ndarray) -> np.ndarray:
    """Dice of the best sample for each grader of one image; 1 for two empty masks.

    Args:
        samples: [S, H, W] binary.
        graders: [M, H, W] binary.

    Returns:
        [M] float64.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    return _best_dice(_one_image(samples, graders).cross)


def dice_max(samples: np.ndarray, graders: np.ndarray) -> np.ndarray:
    """Dice of the best grader for each sample of one image; 1 for two empty masks.

    The mean is what the code of D-Persona (Wu et al. 2024) calls Dice_max, and that of
    `best_dice` is its Dice_max_reverse.

    Args:
        samples: [S, H, W] binary.
        graders: [M, H, W] binary.

    Returns:
        [S] float64.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    return _best_dice(_one_image(samples, graders).cross.T)


def dice_match(samples: np.ndarray, graders: np.ndarray) -> float:
    """Mean Dice of the graders, each matched with a sample of its own; one image.

    This is Dice_match of D-Persona (Wu et al. 2024). Samples without a grader do not
    count, so it grows with their number. Two empty masks have Dice 1.

    Args:
        samples: [S, H, W] binary.
        graders: [M, H, W] binary.

    Returns:
        The mean Dice, in [0, 1]; NaN if there are fewer samples than graders.

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1
        >>> pu.dice_match(graders[[0, 2, 2, 2]], graders)  # One grader is left over.
        0.75
    """
    scores = _dice(_one_image(samples, graders).cross)  # [S, M]
    if scores.shape[0] < scores.shape[1]:
        return float("nan")
    pairs = optimize.linear_sum_assignment(scores, maximize=True)
    return float(scores[pairs].mean())


def collective_insight(samples: np.ndarray, graders: np.ndarray) -> CollectiveInsight:
    """Sensitivity, best match and agreement on diversity, in one score.

    After Rahman et al., "Ambiguous medical image segmentation using diffusion models"
    (CVPR 2023). With V the distances 1 - IoU between distinct masks of one side,

      D_a = 1 - (|max V_S - max V_Y| + |min V_S - min V_Y|) / 2

    where a side of one mask has max V = min V = 0. If no grader marks a pixel there is
    nothing to miss and S_c is 1.

    Args:
        samples: [S, H, W] binary.
        graders: [M, H, W] binary.

    Returns:
        The score and its parts.

    Raises:
        ValueError: on other values or on shapes that do not fit.
    """
    blocks = _one_image(samples, graders)
    marked = np.asarray(graders).astype(bool).any(axis=0)  # [H, W]
    found = marked & np.asarray(samples).astype(bool).any(axis=0)  # [H, W]
    sensitivity = float(found.sum() / marked.sum()) if marked.any() else 1.0
    max_dice = float(_best_dice(blocks.cross).mean())
    ranges = np.subtract(_spread(blocks.samples), _spread(blocks.graders))
    agreement = float(1.0 - np.abs(ranges).mean())
    parts = (sensitivity, max_dice, agreement)
    total = sum(parts)
    score = 3 * math.prod(parts) / total if total > 0 else 0.0
    return CollectiveInsight(score, *parts)


def _one_image(samples: np.ndarray, graders: np.ndarray) -> Blocks:
    blocks = distance_blocks(samples, graders)
    checks.three_axes(samples)
    return blocks


def _best_dice(distances: np.ndarray) -> np.ndarray:
    return _dice(distances.min(axis=0))


def _dice(distances: np.ndarray) -> np.ndarray:
    """The Dice scores that belong to distances of 1 - IoU."""
    return 2 * (1 - distances) / (2 - distances)


def _spread(distances: np.ndarray) -> tuple[float, float]:
    """The smallest and largest distance between two masks of one side."""
    pairs = distances[np.triu_indices(len(distances), k=1)]
    return (pairs.min(), pairs.max()) if pairs.size else (0.0, 0.0)
