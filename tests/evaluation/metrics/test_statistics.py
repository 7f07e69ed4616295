from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tf_probunet.evaluation.metrics import statistics


def by_key(values):
    return {f"image-{index}": value for index, value in enumerate(values)}


def test_wilcoxon_equals_scipy_and_the_rank_formula():
    generator = np.random.default_rng(0)
    first, second = generator.random(80), generator.random(80) + 0.1
    result = statistics.wilcoxon(by_key(first), by_key(second))
    assert result.p_value == pytest.approx(stats.wilcoxon(first, second).pvalue)
    ranks = stats.rankdata(np.abs(first - second))
    more, less = ranks[first > second].sum(), ranks[first < second].sum()
    assert result.effect_size == pytest.approx((more - less) / (80 * 81 / 2))
    assert result.mean_difference == pytest.approx((first - second).mean())
    assert result.num_pairs == 80 and result.num_ties == 0


def test_wilcoxon_hand_worked():
    # Differences 1, 2, -3: ranks 1 + 2 against 3; one tie is left out.
    result = statistics.wilcoxon(by_key([1, 2, 0, 5]), by_key([0, 0, 3, 5]))
    assert result.effect_size == 0
    assert result.p_value == 1
    assert result.num_ties == 1
    # Four of one sign: 2 of the 16 patterns of signs are as extreme.
    result = statistics.wilcoxon(by_key([1, 2, 3, 4]), by_key([0, 0, 0, 0]))
    assert result.effect_size == 1
    assert result.p_value == pytest.approx(2 / 16)


def test_pairs_go_by_key_not_by_order():
    first = by_key(np.random.default_rng(1).random(30))
    second = {key: value + 0.5 for key, value in reversed(first.items())}
    result = statistics.wilcoxon(first, second)
    assert result.effect_size == -1
    assert result.mean_difference == pytest.approx(-0.5)
    swapped = statistics.wilcoxon(second, first)
    assert swapped.effect_size == 1
    assert swapped.p_value == pytest.approx(result.p_value)


def test_equal_models_do_not_differ():
    values = by_key([0.1, 0.2, 0.3])
    noisy = {key: value + 1e-15 for key, value in values.items()}
    for other in (values, noisy):
        result = statistics.wilcoxon(values, other)
        assert (result.p_value, result.effect_size, result.num_ties) == (1, 0, 3)


def test_keys_and_values_are_checked():
    values = by_key([1.0, 2.0, 3.0])
    fewer = by_key([1.0, 2.0])
    with pytest.raises(ValueError, match="image-2 is missing from the second results"):
        statistics.wilcoxon(values, fewer)
    with pytest.raises(ValueError, match="image-2 is missing from the first results"):
        statistics.wilcoxon(fewer, values)
    with pytest.raises(ValueError, match="^image-1: value is"):
        statistics.wilcoxon(values, {**values, "image-1": math.nan})
    with pytest.raises(ValueError, match="no image to compare"):
        statistics.wilcoxon({}, {})


def test_bootstrap_equals_the_loop():
    generator = np.random.default_rng(2)
    groups = np.array(list("aaabbcdddd"))
    values = generator.random(10)
    interval = statistics.group_bootstrap(values, groups, seed=3, num_resamples=20_000)
    assert interval.mean == pytest.approx(values.mean())
    means = []
    for _ in range(20_000):
        chosen = generator.choice(list("abcd"), 4)
        means.append(np.concatenate([values[groups == name] for name in chosen]).mean())
    np.testing.assert_allclose(
        [interval.low, interval.high], np.quantile(means, [0.025, 0.975]), atol=0.01
    )


def test_bootstrap_is_set_by_its_seed_and_not_by_the_order():
    generator = np.random.default_rng(4)
    values, groups = generator.random(40), generator.integers(0, 8, 40).astype(str)
    first = statistics.group_bootstrap(values, groups, seed=5)
    assert first == statistics.group_bootstrap(values, groups, seed=5)
    assert first != statistics.group_bootstrap(values, groups, seed=6)
    order = generator.permutation(40)
    again = statistics.group_bootstrap(values[order], groups[order], seed=5)
    np.testing.assert_allclose(again, first)


def test_columns_share_their_resamples():
    generator = np.random.default_rng(7)
    values, groups = generator.random((30, 3)), generator.integers(0, 6, 30).astype(str)
    together = statistics.group_bootstrap(values, groups, seed=8)
    for column in range(3):
        alone = statistics.group_bootstrap(values[:, column], groups, seed=8)
        np.testing.assert_allclose([part[column] for part in together], alone)


def test_groups_widen_the_interval():
    # Slices of a patient are copies: 200 of them hold no more than 10 patients do.
    patients = np.random.default_rng(9).random(10)
    values, groups = np.repeat(patients, 20), np.repeat(np.arange(10), 20).astype(str)
    slices = np.arange(200).astype(str)
    by_patient = statistics.group_bootstrap(values, groups, seed=0)
    by_slice = statistics.group_bootstrap(values, slices, seed=0)
    ratio = (by_patient.high - by_patient.low) / (by_slice.high - by_slice.low)
    assert ratio == pytest.approx(np.sqrt(20), rel=0.1)


def test_bootstrap_covers_the_true_mean():
    generator = np.random.default_rng(10)
    groups = np.repeat(np.arange(40), 3).astype(str)
    hits = 0
    for seed in range(200):
        values = np.repeat(generator.normal(size=40), 3) + generator.normal(size=120)
        low, high = statistics.group_bootstrap(
            values, groups, seed=seed, confidence=0.9, num_resamples=500
        )[1:]
        hits += low <= 0 <= high
    # Binomial(200, 0.9) has a standard deviation of 4.2; the percentile interval of 40
    # groups is a little narrow.
    assert 162 <= hits <= 195


def test_one_group_gives_no_interval():
    interval = statistics.group_bootstrap(np.array([1.0, 2.0]), ["a", "a"], seed=0)
    assert interval.mean == 1.5
    assert np.isnan(interval.low) and np.isnan(interval.high)


def test_bootstrap_errors():
    with pytest.raises(ValueError, match="^b: value is"):
        statistics.group_bootstrap(np.array([1.0, np.nan]), ["a", "b"], seed=0)
    with pytest.raises(ValueError, match="there are 1 groups"):
        statistics.group_bootstrap(np.array([1.0, 2.0]), ["a"], seed=0)
    with pytest.raises(ValueError, match="confidence is 95"):
        statistics.group_bootstrap(np.ones(2), ["a", "b"], seed=0, confidence=95)


def test_by_presence():
    strata = statistics.by_presence(
        np.array([1.0, 2.0, 4.0, 8.0]), np.array([1, 4, 1, 2]), 4
    )
    assert [stratum.number for stratum in strata.values()] == [0, 2, 1, 0, 1]
    np.testing.assert_array_equal(
        [stratum.mean for stratum in strata.values()], [np.nan, 2.5, 8, np.nan, 2]
    )


def test_by_presence_errors():
    with pytest.raises(ValueError, match="present goes from 1 to 5; expected 0 to 4"):
        statistics.by_presence(np.ones(2), np.array([1, 5]), 4)
    with pytest.raises(ValueError, match="value 1 is nan"):
        statistics.by_presence(np.array([1, np.nan]), np.array([1, 2]), 4)
    with pytest.raises(ValueError, match="same length"):
        statistics.by_presence(np.ones(2), np.array([1]), 4)
