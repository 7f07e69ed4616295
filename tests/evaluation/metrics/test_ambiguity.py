from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.masks import EMPTY, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tf_probunet.evaluation.metrics import ambiguity

A = draw(0, 1)


def test_presence_and_ambiguity():
    graders = np.stack([[A, A], [A, EMPTY], [EMPTY, EMPTY]])
    np.testing.assert_array_equal(ambiguity.presence_counts(graders), [2, 1, 0])
    np.testing.assert_array_equal(ambiguity.is_ambiguous(graders), [0, 1, 0])
    assert ambiguity.presence_counts(graders[1]) == 1
    assert ambiguity.is_ambiguous(graders[1])
    assert not ambiguity.is_ambiguous(A[None])
    assert not ambiguity.is_ambiguous(EMPTY[None])


def test_histograms():
    counts, ambiguous = np.array([0, 3, 3, 4, 1]), np.array([1, 1, 0, 0, 1], bool)
    hit, miss = ambiguity.histograms(counts, ambiguous, 4)
    np.testing.assert_array_equal(hit, [1, 1, 0, 1, 0])
    np.testing.assert_array_equal(miss, [0, 0, 0, 1, 1])


def test_best_rule_hand_worked():
    counts = np.array([0, 1, 2, 3, 4, 4])
    ambiguous = np.array([1, 1, 0, 1, 0, 0], bool)
    # Below 2 and below 4 are both wrong once; the lower is taken.
    assert ambiguity.best_rule(counts, ambiguous, 4) == (2, "below")
    assert ambiguity.best_rule(counts, ~ambiguous, 4) == (2, "from")


def test_always_and_never_are_rules():
    counts = np.array([0, 2, 4])
    assert ambiguity.best_rule(counts, np.ones(3, bool), 4) == (5, "below")
    assert ambiguity.best_rule(counts, np.zeros(3, bool), 4) == (0, "below")
    np.testing.assert_array_equal(ambiguity.Rule(5)(counts), [1, 1, 1])
    np.testing.assert_array_equal(ambiguity.Rule(0)(counts), [0, 0, 0])
    np.testing.assert_array_equal(ambiguity.Rule(2, "from")(counts), [0, 1, 1])


CASES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=80)
@given(CASES)
def test_best_rule_equals_trying_all(cases):
    counts, ambiguous = (np.array(part) for part in zip(*cases))
    tried = {
        rule: (rule(counts) == ambiguous).mean()
        for rule in itertools.starmap(
            ambiguity.Rule, itertools.product(range(8), ambiguity.DIRECTIONS)
        )
    }
    best = ambiguity.best_rule(counts, ambiguous, 6)
    assert tried[best] == max(tried.values())
    below = ambiguity.best_rule(counts, ambiguous, 6, directions=("below",))
    assert below.direction == "below"
    assert tried[below] == max(tried[ambiguity.Rule(t)] for t in range(8))


@settings(max_examples=80)
@given(CASES)
def test_auroc_counts_pairs_and_agrees_with_mann_whitney(cases):
    scores, positive = (np.array(part) for part in zip(*cases))
    value = ambiguity.auroc(scores, positive)
    if positive.all() or not positive.any():
        assert np.isnan(value)
        return
    gaps = scores[positive][:, None] - scores[~positive][None, :]
    assert value == pytest.approx(((gaps > 0) + 0.5 * (gaps == 0)).mean())
    statistic = stats.mannwhitneyu(scores[positive], scores[~positive]).statistic
    assert value == pytest.approx(statistic / gaps.size)


def test_detect():
    result = ambiguity.detect(
        validation_counts=np.array([0, 1, 3, 4]),
        validation_ambiguous=np.array([1, 1, 0, 0], bool),
        test_counts=np.array([0, 4, 1, 4, 3]),
        test_ambiguous=np.array([1, 1, 0, 0, 1], bool),
        num_samples=4,
    )
    assert result.rule == (2, "below")
    assert result.validation_accuracy == 1
    # Below 2: yes, no, yes, no, no against yes, yes, no, no, yes.
    assert result.accuracy == pytest.approx(2 / 5)
    assert result.always_ambiguous == pytest.approx(3 / 5)
    # Few presences as the score: 0, 4, 3 against 1, 4: wins 2, 1/2, 1 of 6.
    assert result.auroc == pytest.approx(3.5 / 6)


def test_detect_turns_the_score_with_the_rule():
    counts, ambiguous = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1], bool)
    result = ambiguity.detect(
        validation_counts=counts,
        validation_ambiguous=ambiguous,
        test_counts=counts,
        test_ambiguous=ambiguous,
        num_samples=4,
    )
    assert result.rule == (2, "from")
    assert result.accuracy == result.auroc == 1


def test_cross_fitting_never_scores_a_rule_on_the_patients_it_was_chosen_on():
    # Of each patient alone, a rule is right on both images; that of the other patient
    # is wrong on both. Chosen on all, a rule would be right on half of them.
    counts, groups = np.array([0, 4, 0, 4]), np.array(["a", "a", "b", "b"])
    ambiguous = np.array([1, 0, 0, 1], bool)
    assert ambiguity.cross_fitted_accuracy(counts, ambiguous, groups, 4) == 0
    ambiguous = np.array([1, 0, 1, 0], bool)
    assert ambiguity.cross_fitted_accuracy(counts, ambiguous, groups, 4) == 1
    # "Never", best on b, is wrong on both of a; "always", best on a, on 3 of 4 of b.
    counts, groups = np.zeros(6, int), np.array(["a", "a", "b", "b", "b", "b"])
    ambiguous = np.array([1, 1, 1, 0, 0, 0], bool)
    found = ambiguity.cross_fitted_accuracy(counts, ambiguous, groups, 4)
    assert found == pytest.approx(1 / 6)


def test_cross_fitting_needs_two_groups():
    with pytest.raises(ValueError, match="1 names: expected one for each of 2 images"):
        ambiguity.cross_fitted_accuracy(
            np.array([0, 4]), np.array([True, False]), np.array(["a", "a"]), 4
        )


@pytest.mark.parametrize(
    ("counts", "ambiguous"),
    [([5], [True]), ([-1], [True]), ([0.5], [True]), ([1, 2], [True]), ([], [])],
)
def test_bad_counts_are_errors(counts, ambiguous):
    with pytest.raises(ValueError, match="counts"):
        ambiguity.best_rule(np.array(counts), np.array(ambiguous, bool), 4)


def test_other_errors():
    with pytest.raises(ValueError, match="direction is 'up'"):
        ambiguity.best_rule(np.array([1]), np.array([True]), 4, directions=("up",))
    with pytest.raises(ValueError, match="no NaN"):
        ambiguity.auroc(np.array([np.nan, 1]), np.array([True, False]))
