"""Compares models over images: paired tests, bootstrap over patients, strata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

# Resamples drawn at once: bounds the memory with many groups.
_CHUNK = 500

# The p-value is exact for at most this many untied differences.
_EXACT_PAIRS = 50


class PairedTest(NamedTuple):
    """A Wilcoxon signed-rank test of first - second.

    Attributes:
        p_value: two-sided; 1 if all differences are 0.
        effect_size: matched-pairs rank-biserial correlation in [-1, 1]: the share of
            the rank sum where the first is larger minus that where the second is.
        mean_difference: mean of first - second, over all pairs.
        num_pairs: pairs compared.
        num_ties: pairs without difference; the test leaves them out.
    """

    p_value: float
    effect_size: float
    mean_difference: float
    num_pairs: int
    num_ties: int


class Interval(NamedTuple):
    """A mean with its confidence interval; arrays [C] for several columns."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Stratum(NamedTuple):
    """Images of one kind, and the mean of their values (NaN without any)."""

    number: int
    mean: float


def wilcoxon(
    first: Mapping[str, float], second: Mapping[str, float], *, tolerance: float = 1e-9
) -> PairedTest:
    """Tests whether two models differ, on per-image values paired by key.

    Args:
        first: value of each image, by key.
        second: the other model's, with the same keys.
        tolerance: differences not larger than this are rounding, and count as 0.

    Returns:
        The test.

    Raises:
        ValueError: if there is no key, a key is missing on one side or a value is not
            finite; the message names the key.
    """
    _check_keys(first, second)
    keys = sorted(first)
    pairs = np.array([(first[key], second[key]) for key in keys], np.float64)
    _check_finite(pairs, keys)
    differences = pairs[:, 0] - pairs[:, 1]
    moved = differences[np.abs(differences) > tolerance]
    if moved.size:
        ties = np.unique(np.abs(moved)).size < moved.size
        # Chosen here because SciPy's own choice for few tied values takes a minute.
        method = "exact" if moved.size <= _EXACT_PAIRS and not ties else "approx"
        p_value = float(stats.wilcoxon(moved, method=method).pvalue)
        ranks = stats.rankdata(np.abs(moved))
        effect = float((np.sign(moved) * ranks).sum() / ranks.sum())
    else:
        p_value, effect = 1.0, 0.0
    return PairedTest(
        p_value=p_value,
        effect_size=effect,
        mean_difference=float(differences.mean()),
        num_pairs=len(keys),
        num_ties=len(keys) - moved.size,
    )


def group_bootstrap(
    values: np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    seed: int,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> Interval:
    """Percentile bootstrap interval of the mean over images, resampling whole groups.

    Slices of one patient resemble each other, so resampling slices would make the
    interval too narrow.

    Args:
        values: [N] or [N, C] per-image values; the columns share their resamples.
        groups: [N] names of the groups, such as patients.
        seed: the same seed gives the same interval, whatever the order of the images.
        confidence: share of resampled means inside.
        num_resamples: R.

    Returns:
        The mean over images and its bounds; the bounds are NaN if there is one group.

    Raises:
        ValueError: if a value is not finite (the message names its group), the lengths
            differ, or an option is out of range.
    """
    values = np.asarray(values, np.float64)
    if values.ndim not in (1, 2) or len(values) != len(groups) or not len(values):
        raise ValueError(
            f"values have shape {values.shape} and there are {len(groups)} groups; "
            "expected one group per image, and at least one image"
        )
    if not 0 < confidence < 1 or num_resamples < 1:
        raise ValueError(
            f"confidence is {confidence} and num_resamples {num_resamples}; expected a "
            "share between 0 and 1, and at least 1"
        )
    columns = values.reshape(len(values), -1)  # [N, C]
    _check_finite(columns, groups)
    names, index = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(index)  # [G]
    sums = np.stack([np.bincount(index, column) for column in columns.T], -1)  # [G, C]
    if len(names) > 1:
        means = _resampled_means(sums, sizes, num_resamples, seed)
        tail = (1 - confidence) / 2
        low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    else:
        low = high = np.full(columns.shape[1], np.nan)
    shape = values.shape[1:]
    parts = (sums.sum(0) / sizes.sum(), low, high)
    return Interval(*(part.reshape(shape) for part in parts))


def by_presence(
    values: np.ndarray, present: np.ndarray, num_graders: int
) -> dict[int, Stratum]:
    """Splits per-image values by the number of graders who marked something.

    Args:
        values: [N], all finite.
        present: [N] non-empty graders, 0 to M.
        num_graders: M.

    Returns:
        Count and mean for each number from 0 to M.

    Raises:
        ValueError: if the lengths differ, a value is not finite or a number is not in 0
            to M.
    """
    values, present = np.asarray(values, np.float64), np.asarray(present)
    if values.ndim != 1 or values.shape != present.shape:
        raise ValueError(
            f"values {values.shape} and present {present.shape}: expected two lists of "
            "the same length"
        )
    if not np.isfinite(values).all():
        where = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"value {where} is {values[where]}; expected a finite number")
    if present.size and not (0 <= present.min() and present.max() <= num_graders):
        raise ValueError(
            f"present goes from {present.min()} to {present.max()}; expected 0 to "
            f"{num_graders}"
        )
    strata = {}
    for number in range(num_graders + 1):
        chosen = values[present == number]
        mean = float(chosen.mean()) if chosen.size else float("nan")
        strata[number] = Stratum(chosen.size, mean)
    return strata


def _resampled_means(
    sums: np.ndarray, sizes: np.ndarray, num_resamples: int, seed: int
) -> np.ndarray:
    """Means over images of resampled groups, [R, C]."""
    generator = np.random.default_rng(seed)
    shares = np.full(len(sizes), 1.0 / len(sizes))
    means = []
    for start in range(0, num_resamples, _CHUNK):
        number = min(_CHUNK, num_resamples - start)
        drawn = generator.multinomial(len(sizes), shares, size=number)  # [r, G]
        means.append((drawn @ sums) / (drawn @ sizes)[:, None])
    return np.concatenate(means)


def _check_keys(first: Mapping[str, float], second: Mapping[str, float]) -> None:
    if not first and not second:
        raise ValueError("there is no image to compare; expected at least one key")
    for present, absent, place in (
        (first, second, "second"),
        (second, first, "first"),
    ):
        missing = sorted(set(present) - set(absent))
        if missing:
            raise ValueError(
                f"{missing[0]} is missing from the {place} results "
                f"({len(missing)} such keys); expected the same keys in both"
            )


def _check_finite(values: np.ndarray, names: Sequence[str] | np.ndarray) -> None:
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        where = int(np.argmin(finite))
        raise ValueError(
            f"{names[where]}: value is {values[where]}; expected finite numbers"
        )
