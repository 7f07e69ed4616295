from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, iou_distance, random_masks, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.evaluation.metrics import distances, matching

A, B, C = draw(0, 1), draw(1, 2, 3), draw(7)


def iou(first, second):
    return 1 - np.nan_to_num(iou_distance(first, second))


def test_hand_worked():
    # IoU(A, B) = 1/4: matching A with A leaves C with B.
    assert matching.hungarian_iou(np.stack([A, C]), np.stack([B, A])) == 1 / 2
    # One sample is repeated for both graders.
    assert matching.hungarian_iou(A[None], np.stack([A, B])) == (1 + 1 / 4) / 2


def test_a_good_total_beats_a_good_pair():
    # IoU: X-A 1/2, X-B 1/4, Y-A 1/2, Y-B 0. Both like A best; only X has use for B.
    a, b = draw(0, 1), draw(1, 2, 3, 4)
    x, y = draw(1), draw(0)
    total = max(iou(x, a) + iou(y, b), iou(x, b) + iou(y, a))
    value = matching.hungarian_iou(np.stack([x, y]), np.stack([a, b]))
    assert value == pytest.approx(total / 2)
    assert value == pytest.approx((1 / 4 + 1 / 2) / 2)


@pytest.mark.parametrize(
    ("num_samples", "num_graders"), [(1, 1), (2, 3), (3, 2), (1, 4), (6, 3), (4, 4)]
)
def test_equals_trying_all_matchings_of_the_repeated_masks(num_samples, num_graders):
    samples = random_masks(num_samples, num_samples, 3, 4)
    graders = random_masks(10 + num_graders, num_graders, 3, 4)
    size = np.lcm(num_samples, num_graders)
    repeated = [samples[i % num_samples] for i in range(size)]
    targets = [graders[j % num_graders] for j in range(size)]
    table = np.array([[iou(a, b) for b in targets] for a in repeated])
    best = max(
        table[range(size), order].mean()
        for order in itertools.permutations(range(size))
    )
    assert matching.hungarian_iou(samples, graders) == pytest.approx(best)


@settings(max_examples=60)
@given(stacks(4), stacks(4), st.randoms(use_true_random=False))
def test_order_and_side_do_not_matter(samples, graders, random):
    value = matching.hungarian_iou(samples, graders)
    assert 0 <= value <= 1
    assert matching.hungarian_iou(graders, samples) == pytest.approx(value)
    order = random.sample(range(len(samples)), len(samples))
    assert matching.hungarian_iou(samples[order], graders) == pytest.approx(value)
    assert matching.hungarian_iou(samples, samples[order]) == pytest.approx(1)


def test_empty_masks_match_each_other():
    empty = np.zeros((3, 2, 4), np.uint8)
    assert matching.hungarian_iou(empty, empty[:2]) == 1
    assert matching.hungarian_iou(empty, np.stack([A, B])) == 0
    assert matching.hungarian_iou(np.stack([A, EMPTY]), np.stack([EMPTY, A])) == 1


def test_from_distances():
    samples, graders = random_masks(1, 16, 6, 6), random_masks(2, 4, 6, 6)
    known = distances.iou_distances(samples, graders)
    assert matching.matched_iou(known) == matching.hungarian_iou(samples, graders)
    with pytest.raises(ValueError, match="distances hold NaN"):
        matching.matched_iou(np.full((2, 2), np.nan))


def test_best_dice_per_grader():
    samples, graders = np.stack([A, EMPTY]), np.stack([A, B, C, EMPTY])
    # Dice(A, B) = 2 * 1 / (2 + 3).
    np.testing.assert_allclose(matching.best_dice(samples, graders), [1, 2 / 5, 0, 1])


@pytest.mark.parametrize("function", [matching.hungarian_iou, matching.best_dice])
def test_batches_are_errors(function):
    with pytest.raises(ValueError, match="expected one image's"):
        function(A[None, None], A[None, None])


def test_collective_insight_hand_worked():
    samples, graders = np.stack([A, C]), np.stack([A, B, EMPTY])
    # Union of graders: cells 0 to 3, of which the samples mark 0 and 1.
    # Best Dice: 1, 2/5, 0. Spread: samples 1 to 1, graders 3/4 to 1.
    value = matching.collective_insight(samples, graders)
    assert value.sensitivity == pytest.approx(1 / 2)
    assert value.max_dice == pytest.approx(7 / 15)
    assert value.diversity_agreement == pytest.approx(1 - 1 / 8)
    parts = value[1:]
    assert value.score == pytest.approx(3 * np.prod(parts) / np.sum(parts))


def test_collective_insight_of_the_graders_themselves_is_1():
    graders = np.stack([A, B, C, EMPTY])
    assert matching.collective_insight(graders, graders) == (1, 1, 1, 1)


def test_collective_insight_of_single_masks():
    value = matching.collective_insight(A[None], np.stack([A, C]))
    # One mask has no spread; the graders' is 1.
    assert value == pytest.approx((0, 2 / 3, 1 / 2, 0))


@pytest.mark.parametrize(
    ("samples", "graders", "expected"),
    [
        ([EMPTY], [EMPTY], (1, 1, 1, 1)),
        ([EMPTY], [A], (0, 0, 0, 1)),
        ([A], [EMPTY], (0, 1, 0, 1)),
        ([A, EMPTY], [EMPTY, EMPTY], (0, 1, 1, 0)),
        ([EMPTY, EMPTY], [A, C], (0, 0, 0, 0)),
    ],
)
def test_collective_insight_of_empty_masks(samples, graders, expected):
    value = matching.collective_insight(np.stack(samples), np.stack(graders))
    assert value == pytest.approx(expected)


def test_equal_weights_give_the_matching_without_weights():
    rng = np.random.default_rng(0)
    for num_samples, num_graders in ((3, 4), (4, 4), (16, 4), (1, 3)):
        samples = rng.integers(0, 2, (num_samples, 4, 4))
        graders = rng.integers(0, 2, (num_graders, 4, 4))
        weighted = matching.hungarian_iou(
            samples, graders, sample_weights=np.full(num_samples, 1 / num_samples)
        )
        assert weighted == pytest.approx(matching.hungarian_iou(samples, graders))


def test_weights_that_are_multiples_count_like_repeated_masks():
    rng = np.random.default_rng(1)
    samples, graders = rng.integers(0, 2, (3, 4, 4)), rng.integers(0, 2, (2, 4, 4))
    weighted = matching.hungarian_iou(
        samples,
        graders,
        sample_weights=[1 / 6, 2 / 6, 3 / 6],
        grader_weights=[1 / 4, 3 / 4],
    )
    repeated = matching.hungarian_iou(
        np.repeat(samples, [1, 2, 3], axis=0), np.repeat(graders, [1, 3], axis=0)
    )
    assert weighted == pytest.approx(repeated)


def test_weights_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"sample_weights have shape \(2,\)"):
        matching.matched_iou(np.zeros((3, 4)), sample_weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="grader_weights are .*sum to 1"):
        matching.matched_iou(np.zeros((3, 2)), grader_weights=[0.5, 0.6])


def test_dice_max_is_the_best_grader_of_each_sample():
    # Dice(A, B) = 2/5; C shares nothing with either; two empty masks have 1.
    samples, graders = np.stack([A, B, C, EMPTY]), np.stack([A, EMPTY])
    np.testing.assert_allclose(matching.dice_max(samples, graders), [1, 2 / 5, 0, 1])
    np.testing.assert_allclose(matching.best_dice(samples, graders), [1, 1])


def test_dice_match_gives_each_grader_a_sample_of_its_own():
    # Both graders like A best (Dice 1 and 2/5); one of them has to take C.
    assert matching.dice_match(np.stack([A, C]), np.stack([A, B])) == 1 / 2
    assert matching.dice_match(np.stack([A, A, C]), np.stack([A, B])) == 0.7
    assert matching.dice_match(np.stack([A, EMPTY]), np.stack([EMPTY, A])) == 1
    assert np.isnan(matching.dice_match(A[None], np.stack([A, B])))


@given(stacks(4), stacks(3))
def test_dice_match_equals_trying_all_matchings(samples, graders):
    def dice(first, second):
        total = first.sum() + second.sum()
        return 2 * (first & second).sum() / total if total else 1.0

    value = matching.dice_match(samples, graders)
    tried = [
        np.mean([dice(samples[i], y) for i, y in zip(chosen, graders)])
        for chosen in itertools.permutations(range(len(samples)), len(graders))
    ]
    if tried:
        assert value == pytest.approx(max(tried))
    else:
        assert np.isnan(value)
