"""Chooses a few weighted samples that represent many. NumPy only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tf_probunet.evaluation.metrics import checks
from tf_probunet.evaluation.metrics.distances import LabelSet, self_distances

# Keeps the systems below solvable where two samples are almost the same.
_RIDGE = 1e-10
_TOLERANCE = 1e-12
_MAX_SWEEPS = 20
# A single start sometimes ends in a local optimum; six starts hardly ever do. Larger
# sets take longer and have more good optima: they get fewer starts.
_MAX_STARTS = 6
_MIN_STARTS = 2
_STARTED_SAMPLES = 24


class Representatives(NamedTuple):
    """Some of the samples of an image, with probabilities.

    Attributes:
        indices: [K] which samples they are, the most probable first.
        weights: [K] their probabilities, which sum to 1.
        energy_distance: the squared energy distance between them and all samples; 0 if
            nothing is lost.
        diversity: E[d(S, S')] of all samples: the expected energy distance between all
            samples and a single one that was drawn at random.
    """

    indices: np.ndarray
    weights: np.ndarray
    energy_distance: float
    diversity: float

    @property
    def explained(self) -> float:
        """The share of the diversity that they represent, from 0 to 1."""
        if self.diversity <= 0:
            return 1.0
        return 1.0 - self.energy_distance / self.diversity


def representatives(
    samples: np.ndarray,
    count: int,
    *,
    sample_weights: np.ndarray | None = None,
    labels: LabelSet | None = None,
) -> Representatives:
    """Chooses the weighted samples with the least energy distance to all of them.

    With p the weights of all samples, D their distances and w weights that are 0
    except for `count` samples, this minimises

      2 w'Dp - w'Dw - p'Dp   with w >= 0 and sum(w) = 1.

    From several starts, samples are added one by one and then exchanged as long as that
    helps. The weights of each set are exact. Equal samples are treated as one sample
    with the sum of their weights.

    Args:
        samples: [S, H, W] binary masks, or label maps with `labels`.
        count: K, how many to choose; fewer are returned if fewer samples differ.
        sample_weights: [S] probabilities; None for equal ones.
        labels: the classes of label maps; None for binary masks.

    Returns:
        The representatives. None of them has weight 0.

    Raises:
        ValueError: on unknown values, shapes or weights, or a count below 1.

    Example:
        >>> samples = np.zeros([8, 32, 32], int)
        >>> samples[:6, 8:20, 8:20] = 1
        >>> chosen = pu.representatives(samples, 2)
        >>> chosen.indices.tolist(), chosen.weights.round(6).tolist()
        ([0, 6], [0.75, 0.25])
    """
    distances = self_distances(samples, name="samples", labels=labels)
    if distances.ndim != 2:
        raise checks.MaskError(
            f"samples have shape {np.shape(samples)}; expected one image's [S, H, W]"
        )
    return from_distances(distances, count, sample_weights)


def from_distances(
    distances: np.ndarray, count: int, sample_weights: np.ndarray | None = None
) -> Representatives:
    """`representatives` from the distances [S, S] of all samples."""
    if count < 1:
        raise ValueError(f"count is {count}; expected at least 1")
    total = len(distances)
    if sample_weights is None:
        sample_weights = np.full(total, 1 / total)
    sample_weights = checks.mode_weights(sample_weights, (total,))
    first, probabilities = _distinct(distances, sample_weights)
    chosen, weights = choose(distances[np.ix_(first, first)], probabilities, count)
    order = np.argsort(-weights, kind="stable")
    indices, weights = first[chosen[order]], weights[order]
    towards = distances @ sample_weights
    diversity = float(sample_weights @ towards)
    value = _value(distances[np.ix_(indices, indices)], towards[indices], weights)
    return Representatives(
        indices, weights, max(0.0, float(value - diversity)), diversity
    )


def choose(
    distances: np.ndarray, probabilities: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """`representatives` from distances between samples that all differ.

    Args:
        distances: [S, S], 0 on the diagonal only.
        probabilities: [S], which sum to 1.
        count: how many to choose, at least 1.

    Returns:
        The indices [K] in ascending order, and their weights [K].
    """
    if count >= len(distances):
        present = np.flatnonzero(probabilities)
        return present, probabilities[present]
    towards = distances @ probabilities
    found = [
        _search(distances, towards, start, count)
        for start in _starts(distances, towards, count)
    ]
    indices = np.sort(min(found, key=lambda item: item[0])[1])
    weights = simplex_weights(distances[np.ix_(indices, indices)], towards[indices])
    return indices[weights > 0], weights[weights > 0]


def _starts(distances: np.ndarray, towards: np.ndarray, count: int) -> list[int]:
    """Returns samples that are far from each other, the most central one first."""
    starts = [int(towards.argmin())]
    nearest = distances[starts[0]]
    number = max(_MIN_STARTS, min(_MAX_STARTS, _STARTED_SAMPLES // count))
    for _ in range(min(number, len(towards)) - 1):
        starts.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances[starts[-1]])
    return starts


def _search(
    distances: np.ndarray, towards: np.ndarray, start: int, count: int
) -> tuple[float, list[int]]:
    """Adds to a first sample, then exchanges one sample at a time.

    Returns:
        The objective, and the samples.
    """
    chosen = [start]
    while len(chosen) < count:
        chosen.append(_best_addition(distances, towards, chosen))
    best = _optimum(distances, towards, chosen)
    for _ in range(_MAX_SWEEPS):
        before = best
        for place in range(count):
            rest = chosen[:place] + chosen[place + 1 :]
            swapped = [*rest, _best_addition(distances, towards, rest)]
            value = _optimum(distances, towards, swapped)
            if value < best - _TOLERANCE:
                chosen, best = swapped, value
        if best >= before - _TOLERANCE:
            break
    return best, chosen


def simplex_weights(distances: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Returns the probabilities w [K] that minimise 2 w't - w'Dw.

    The distances are of negative type, so the problem is convex; an active-set method
    solves it exactly. A weight may be 0.

    Args:
        distances: D [K, K] within the set.
        towards: t [K], the mean distance of each to all samples.
    """
    weights = np.zeros(len(towards))
    start = int(np.argmin(towards))
    weights[start] = 1.0
    support = [start]
    for _ in range(10 * len(towards) + 10):
        # The multipliers of w >= 0, up to a factor: none may be negative.
        slack = towards - distances @ weights
        slack -= slack[support].mean()
        slack[support] = 0.0
        entering = int(np.argmin(slack))
        if slack[entering] >= -_TOLERANCE:
            break
        support.append(entering)
        while True:
            target = np.zeros(len(towards))
            target[support] = _equality_weights(
                distances[np.ix_(support, support)], towards[support]
            )
            leaving = [i for i in support if target[i] <= 0]
            if not leaving:
                weights = target
                break
            # Move towards the target until a weight is 0, and leave that one out.
            step = min(weights[i] / (weights[i] - target[i]) for i in leaving)
            weights = weights + step * (target - weights)
            gone = min(leaving, key=lambda i: weights[i])
            weights[gone] = 0.0
            support.remove(gone)
    return weights


def _distinct(
    distances: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first of each set of equal samples, and the sums of their weights."""
    first_equal = (distances == 0).argmax(axis=1)
    first, inverse = np.unique(first_equal, return_inverse=True)
    return first, np.bincount(inverse, weights)


def _best_addition(
    distances: np.ndarray, towards: np.ndarray, chosen: list[int]
) -> int:
    """Returns the sample whose addition makes the objective least.

    Weights that would be negative are set to 0 and the others are scaled. That is not
    exact, but the rule is the same for all candidates.
    """
    if not chosen:
        return int(towards.argmin())
    others = np.setdiff1d(np.arange(len(towards)), chosen)  # [N]
    rows = np.array(chosen)
    within = distances[np.ix_(rows, rows)]  # [K, K]
    cross = distances[np.ix_(rows, others)]  # [K, N]
    # The system of the chosen ones is bordered by one row and column per candidate, and
    # solved for all of them at once.
    columns = np.concatenate([cross, np.ones((1, len(others)))])
    right = np.append(towards[chosen], 1.0)
    solved = np.linalg.solve(
        _bordered(within), np.concatenate([columns, right[:, None]], axis=1)
    )
    solved, base = solved[:, :-1], solved[:, -1]
    pivots = -_RIDGE - (columns * solved).sum(axis=0)
    added = (towards[others] - base @ columns) / pivots  # [N]
    kept = (base[:, None] - solved * added)[:-1]  # [K, N]
    added, kept = added.clip(0), kept.clip(0)
    total = added + kept.sum(axis=0)
    added, kept = added / total, kept / total
    linear = towards[chosen] @ kept + towards[others] * added
    square = (kept * (within @ kept)).sum(axis=0) + 2 * added * (cross * kept).sum(
        axis=0
    )
    return int(others[(2 * linear - square).argmin()])


def _optimum(distances: np.ndarray, towards: np.ndarray, chosen: list[int]) -> float:
    within = distances[np.ix_(chosen, chosen)]
    weights = simplex_weights(within, towards[chosen])
    return float(_value(within, towards[chosen], weights))


def _equality_weights(distances: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Minimises 2 w't - w'Dw with sum(w) = 1 only.

    Args:
        distances: D [K, K].
        towards: t [K].

    Returns:
        [K]; weights may be negative.
    """
    return np.linalg.solve(_bordered(distances), np.append(towards, 1.0))[:-1]


def _bordered(distances: np.ndarray) -> np.ndarray:
    """The matrix of the conditions for a minimum with sum(w) = 1, [K + 1, K + 1]."""
    size = len(distances)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = distances - _RIDGE * np.eye(size)
    system[size, size] = 0.0
    return system


def _value(
    distances: np.ndarray, towards: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """2 w't - w'Dw."""
    return 2 * weights @ towards - weights @ distances @ weights
