"""The generalised energy distance between samples and graders, and its floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_probunet.evaluation.metrics import checks
from tf_probunet.evaluation.metrics.distances import (
    Blocks,
    LabelSet,
    distance_blocks,
    self_distances,
)

STATISTICS = ("v", "u")


class EnergyTerms(NamedTuple):
    """The three expectations of the squared energy distance.

    Attributes:
        cross: E[d(S, Y)].
        samples: E[d(S, S')], the samples' diversity.
        graders: E[d(Y, Y')], the graders' diversity.
    """

    cross: np.ndarray
    samples: np.ndarray
    graders: np.ndarray

    @property
    def energy_distance(self) -> np.ndarray:
        """2 E[d(S, Y)] - E[d(S, S')] - E[d(Y, Y')]."""
        return 2 * self.cross - self.samples - self.graders


def energy_distance(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    statistic: str = "v",
    both_empty: str = "zero",
    weights: np.ndarray | None = None,
    sample_weights: np.ndarray | None = None,
    grader_weights: np.ndarray | None = None,
    labels: LabelSet | None = None,
) -> float:
    """Squared generalised energy distance of one image.

    Args:
        samples: [S, H, W] binary masks, or label maps with `labels`.
        graders: [M, H, W] likewise.
        statistic: "v" counts pairs i = j (the paper), "u" does not.
        both_empty: distance of two empty masks, also of one with itself: "zero" (the
            paper), "one" (the code of D-Persona), or "drop" to leave such pairs out of
            all three means.
        weights: an older name of `grader_weights`.
        sample_weights: [S] probabilities of the samples, which sum to 1. Their term is
            then the exact expectation, pairs i = j included, for either statistic.
        grader_weights: [M] probabilities of the graders, or of ground-truth modes given
            as graders; likewise.
        labels: the classes of label maps; None for binary masks.

    Returns:
        The distance; NaN if one of its means has no pair: a single sample or grader
        with "u", or none but empty masks with "drop".

    Raises:
        ValueError: on unknown values, options or weights, or shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1
        >>> pu.energy_distance(graders[1:3], graders)  # One of each kind.
        0.0
        >>> pu.energy_distance(graders[:1], graders)
        0.5
    """
    terms = energy_terms(
        samples,
        graders,
        statistic=statistic,
        both_empty=both_empty,
        weights=weights,
        sample_weights=sample_weights,
        grader_weights=grader_weights,
        labels=labels,
    )
    if np.ndim(terms.graders):
        raise ValueError(
            f"samples have shape {np.shape(samples)}; expected one image's [S, H, W]"
        )
    return float(terms.energy_distance)


def energy_terms(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    counts: Sequence[int] | None = None,
    statistic: str = "v",
    both_empty: str = "zero",
    weights: np.ndarray | None = None,
    sample_weights: np.ndarray | None = None,
    grader_weights: np.ndarray | None = None,
    labels: LabelSet | None = None,
) -> EnergyTerms:
    """The terms of the energy distance, for one image or many.

    Args:
        samples: [S, H, W] or [N, S, H, W]; see `energy_distance`.
        graders: [M, H, W] or [N, M, H, W].
        counts: C numbers of samples; a count n uses the first n samples. None for all
            S, without an axis for the counts.
        statistic: "v" or "u".
        both_empty: "zero", "one" or "drop".
        weights: an older name of `grader_weights`.
        sample_weights: [S] or [N, S], for all samples together: `counts` must be None
            or S alone.
        grader_weights: [M] or [N, M].
        labels: the classes of label maps; None for binary masks.

    Returns:
        The terms, where C is absent if `counts` is None and N for one image: `cross`
        and `samples` [N, C], `graders` [N, 1] to broadcast with them ([N] without C).

    Raises:
        ValueError: see `energy_distance`; also if a count is not in 1 to S.
    """
    checks.option(statistic, "statistic", STATISTICS)
    blocks = distance_blocks(samples, graders, both_empty=both_empty, labels=labels)
    return block_terms(
        blocks,
        counts=counts,
        statistic=statistic,
        weights=weights,
        sample_weights=sample_weights,
        grader_weights=grader_weights,
    )


def block_terms(
    blocks: Blocks,
    *,
    counts: Sequence[int] | None = None,
    statistic: str = "v",
    weights: np.ndarray | None = None,
    sample_weights: np.ndarray | None = None,
    grader_weights: np.ndarray | None = None,
) -> EnergyTerms:
    """`energy_terms` from distances that are already known."""
    checks.option(statistic, "statistic", STATISTICS)
    num_samples = blocks.samples.shape[-1]
    sizes = [num_samples] if counts is None else _valid_counts(counts, num_samples)
    if weights is not None and grader_weights is not None:
        raise ValueError(
            "weights and grader_weights are the same; expected one of them"
        )
    rows = _weights(sample_weights, "sample_weights", blocks.samples)
    columns = _weights(
        weights if grader_weights is None else grader_weights,
        "grader_weights",
        blocks.graders,
    )
    if rows is not None and sizes != [num_samples]:
        raise ValueError(
            f"counts are {sizes}; expected {num_samples} alone, the number of samples "
            "that have weights"
        )
    distinct = statistic == "u"
    cross = [
        _pair_mean(blocks.cross[..., :n, :], rows=rows, columns=columns) for n in sizes
    ]
    within = [
        _pair_mean(
            blocks.samples[..., :n, :n],
            rows=rows,
            columns=rows,
            distinct=distinct and rows is None,
        )
        for n in sizes
    ]
    among_graders = _pair_mean(
        blocks.graders,
        rows=columns,
        columns=columns,
        distinct=distinct and columns is None,
    )
    if counts is None:
        return EnergyTerms(cross[0], within[0], among_graders)
    return EnergyTerms(
        np.stack(cross, -1), np.stack(within, -1), among_graders[..., None]
    )


def sample_diversity(
    samples: np.ndarray,
    *,
    statistic: str = "v",
    both_empty: str = "zero",
    sample_weights: np.ndarray | None = None,
    labels: LabelSet | None = None,
) -> np.ndarray:
    """E[d(S, S')], the samples' term of the energy distance.

    Args:
        samples: [S, H, W] or [N, S, H, W].
        statistic: "v" or "u"; see `energy_distance`.
        both_empty: "zero", "one" or "drop".
        sample_weights: [S] or [N, S] probabilities; see `energy_distance`.
        labels: the classes of label maps; None for binary masks.

    Returns:
        A scalar or [N]. A single sample has diversity 0 with "v" and NaN with "u".

    Raises:
        ValueError: on unknown values, options or shapes.
    """
    checks.option(statistic, "statistic", STATISTICS)
    distances = self_distances(
        samples, name="samples", both_empty=both_empty, labels=labels
    )
    weights = _weights(sample_weights, "sample_weights", distances)
    distinct = statistic == "u" and weights is None
    return _pair_mean(distances, rows=weights, columns=weights, distinct=distinct)


def grader_floor(
    graders: np.ndarray, counts: Sequence[float], *, labels: LabelSet | None = None
) -> np.ndarray:
    """Expected V-statistic of a perfect model, estimated from the graders alone.

    E[d(Y, Y')] (1/n + 1/m), the expectation taken over pairs of distinct graders; holds
    for n independent samples and the both-empty rule "zero". The U-statistic's floor is
    0. Well chosen or weighted samples can come close to E[d(Y, Y')] / m, the floor of
    infinitely many.

    Args:
        graders: [M, H, W] or [N, M, H, W].
        counts: C numbers of samples; `math.inf` for the floor of chosen sets.
        labels: the classes of label maps; None for binary masks.

    Returns:
        [C] or [N, C]; NaN for a single grader, who has no distinct pair.

    Raises:
        ValueError: on unknown values or shapes, or counts below 1.
    """
    distances = self_distances(graders, name="graders", labels=labels)
    diversity = _pair_mean(distances, distinct=True)
    inverse = 1.0 / np.asarray(_valid_counts(counts))
    return diversity[..., None] * (inverse + 1.0 / distances.shape[-1])


def known_floor(
    graders: np.ndarray,
    counts: Sequence[float],
    *,
    modes: np.ndarray,
    probabilities: np.ndarray,
    labels: LabelSet | None = None,
) -> np.ndarray:
    """Expected V-statistic of a perfect model against these very graders.

    The model draws n independent samples from the known modes; the expectation over
    them is exact: 2/m sum_j E[d(S, Y_j)] - (1 - 1/n) E[d(S, S')] - 1/m^2 sum_ij
    d(Y_i, Y_j). It is below 0 where the graders happen to look more diverse than they
    are; its mean over graders drawn from the modes is E[d(Y, Y')] (1/n + 1/m).

    Args:
        graders: [M, H, W] or [N, M, H, W].
        counts: C numbers of samples; `math.inf` for the floor of chosen sets.
        modes: [K, H, W] or [N, K, H, W], everything that a grader may draw.
        probabilities: [K] or [N, K], of the modes.
        labels: the classes of label maps; None for binary masks.

    Returns:
        [C] or [N, C].

    Raises:
        ValueError: on unknown values, shapes or probabilities, or counts below 1.
    """
    blocks = distance_blocks(modes, graders, labels=labels, modes=True)
    probabilities = checks.mode_weights(probabilities, blocks.samples.shape[:-1])
    cross = _pair_mean(blocks.cross, rows=probabilities)
    within = _pair_mean(blocks.samples, rows=probabilities, columns=probabilities)
    inverse = 1.0 / np.asarray(_valid_counts(counts))
    constant = 2 * cross - _pair_mean(blocks.graders)
    return constant[..., None] - (1.0 - inverse) * within[..., None]


def mode_floor(
    modes: np.ndarray,
    probabilities: np.ndarray,
    counts: Sequence[float],
    *,
    labels: LabelSet | None = None,
) -> np.ndarray:
    """Expected V-statistic of a perfect model against the weighted modes themselves.

    E[d(Y, Y')] / n, with E over two independent draws from the modes.

    Args:
        modes: [K, H, W] or [N, K, H, W].
        probabilities: [K] or [N, K].
        counts: C numbers of samples; `math.inf` for the floor of chosen sets, 0.
        labels: the classes of label maps; None for binary masks.

    Returns:
        [C] or [N, C].

    Raises:
        ValueError: on unknown values, shapes or probabilities, or counts below 1.
    """
    distances = self_distances(modes, name="modes", labels=labels)
    probabilities = checks.mode_weights(probabilities, distances.shape[:-1])
    diversity = _pair_mean(distances, rows=probabilities, columns=probabilities)
    return diversity[..., None] / np.asarray(_valid_counts(counts))


def _weights(
    weights: np.ndarray | None, name: str, distances: np.ndarray
) -> np.ndarray | None:
    if weights is None:
        return None
    return checks.mode_weights(weights, distances.shape[:-1], name)


def _valid_counts(counts: Sequence[Any], limit: int | None = None) -> list[Any]:
    counts = list(counts)
    if not counts or min(counts) < 1 or (limit is not None and max(counts) > limit):
        upper = "" if limit is None else f" and at most the {limit} samples given"
        raise ValueError(f"counts are {counts}; expected numbers from 1{upper}")
    return counts


def _pair_mean(
    distances: np.ndarray,
    *,
    rows: np.ndarray | None = None,
    columns: np.ndarray | None = None,
    distinct: bool = False,
) -> np.ndarray:
    """Weighted mean over pairs, without those that are NaN.

    Args:
        distances: [..., A, B].
        rows: [..., A] weights; None for equal ones.
        columns: [..., B] weights; None for equal ones.
        distinct: whether to leave out the diagonal.

    Returns:
        [...]; NaN where no pair is left.
    """
    weights = (~np.isnan(distances)).astype(np.float64)
    if rows is not None:
        weights *= rows[..., :, None]
    if columns is not None:
        weights *= columns[..., None, :]
    if distinct:
        diagonal = np.arange(distances.shape[-1])
        weights[..., diagonal, diagonal] = 0.0
    total = weights.sum((-2, -1))
    weighted = (weights * np.nan_to_num(distances)).sum((-2, -1))
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), np.nan)
