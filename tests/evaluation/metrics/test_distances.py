from __future__ import annotations

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, iou_distance, random_masks, stacks
from hypothesis import given, settings

from tf_probunet.evaluation.metrics import distances


def test_hand_worked_masks():
    first = np.stack([draw(0, 1), EMPTY])
    second = np.stack([draw(0, 1), draw(1, 2, 3), draw(7), EMPTY])
    np.testing.assert_allclose(
        distances.iou_distances(first, second),
        [[0, 3 / 4, 1, 1], [1, 1, 1, 0]],
    )


def test_drop_marks_pairs_of_empty_masks():
    first = np.stack([draw(0, 1), EMPTY])
    np.testing.assert_array_equal(
        distances.iou_distances(first, first, both_empty="drop"),
        [[0, 1], [1, np.nan]],
    )


@pytest.mark.parametrize("empty", [0.0, 0.5, 1.0])
def test_batches_equal_the_double_loop(empty):
    first = random_masks(1, 6, 5, 7, 9, empty=empty)
    second = random_masks(2, 6, 3, 7, 9, empty=empty)
    expected = [
        [[iou_distance(a, b) for b in bs] for a in as_]
        for as_, bs in zip(first, second)
    ]
    dropped = distances.iou_distances(first, second, both_empty="drop")
    np.testing.assert_allclose(dropped, expected, atol=1e-15)
    zero = distances.iou_distances(first, second)
    np.testing.assert_allclose(zero, np.nan_to_num(expected), atol=1e-15)
    for image in range(6):
        np.testing.assert_array_equal(
            distances.iou_distances(first[image], second[image]), zero[image]
        )


def test_blocks_are_the_three_parts():
    samples, graders = random_masks(3, 5, 8, 8), random_masks(4, 4, 8, 8)
    blocks = distances.distance_blocks(samples, graders)
    for block, pair in (
        (blocks.cross, (samples, graders)),
        (blocks.samples, (samples, samples)),
        (blocks.graders, (graders, graders)),
    ):
        np.testing.assert_array_equal(block, distances.iou_distances(*pair))
    np.testing.assert_array_equal(
        distances.self_distances(graders, name="graders"), blocks.graders
    )


def test_counts_stay_exact_beyond_float32():
    # 2^24 + 1 is the first integer that float32 cannot hold.
    mask = np.ones((1, 2**24 + 1), np.uint8)
    assert distances._intersections(mask, mask[:0])[0, 0] == 2**24 + 1


@settings(max_examples=100)
@given(stacks())
def test_is_a_metric(masks):
    d = distances.iou_distances(masks, masks)
    np.testing.assert_array_equal(d, d.T)
    np.testing.assert_array_equal(np.diag(d), 0)
    assert (d >= 0).all() and (d <= 1).all()
    triangle = d[:, None, :] + d.T[None, :, :] - d[:, :, None]
    assert (triangle >= -1e-12).all()


def test_unknown_rule_is_an_error():
    with pytest.raises(ValueError, match="both_empty is 'nan'; expected one of zero"):
        distances.iou_distances(EMPTY[None], EMPTY[None], both_empty="nan")


def test_errors_name_the_stack():
    with pytest.raises(ValueError, match="graders hold 3"):
        distances.distance_blocks(EMPTY[None], EMPTY[None] + 3)
    with pytest.raises(ValueError, match="samples hold 3"):
        distances.distance_blocks(EMPTY[None] + 3, EMPTY[None])


LABELS = distances.LabelSet(scored=(1, 2), num_classes=4)


def maps(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int32)[:, None, :]  # [S, 1, W]


def test_mean_iou_hand_worked():
    first = maps([1, 1, 2, 2, 0, 0])
    second = maps(
        [1, 1, 2, 2, 3, 3],  # both classes alike; other classes do not count
        [1, 1, 1, 2, 0, 0],  # IoU 2/3 and 1/2
        [1, 1, 0, 0, 0, 0],  # IoU 1 and 0
        [0, 0, 0, 0, 0, 0],  # IoU 0 and 0
    )
    np.testing.assert_allclose(
        distances.mean_iou_distances(first, second, labels=LABELS),
        [[0, 1 - 7 / 12, 1 / 2, 1]],
    )


def test_class_absent_from_both_does_not_count():
    first, second = maps([1, 1, 0, 0]), maps([1, 0, 0, 0])
    value = distances.mean_iou_distances(first, second, labels=LABELS)
    np.testing.assert_allclose(value, [[1 / 2]])


@pytest.mark.parametrize(
    ("rule", "expected"), [("zero", 0.0), ("drop", np.nan), ("one", 1.0)]
)
def test_no_scored_class_in_either(rule, expected):
    value = distances.mean_iou_distances(
        maps([0, 3]), maps([3, 0]), labels=LABELS, both_empty=rule
    )
    np.testing.assert_array_equal(value, [[expected]])


def test_ignored_pixels_count_for_no_pair():
    graders = maps([1, 1, 255, 255], [1, 2, 2, 2])
    samples = maps([1, 2, 1, 1], [1, 2, 2, 0])
    blocks = distances.distance_blocks(samples, graders, labels=LABELS)
    kept = distances.distance_blocks(samples[..., :2], graders[..., :2], labels=LABELS)
    for block, expected in zip(blocks, kept):
        np.testing.assert_array_equal(block, expected)
    # Without the ignored half the two samples are the same.
    np.testing.assert_array_equal(blocks.samples, np.zeros((2, 2)))


def test_all_pixels_ignored_is_no_class_in_either():
    everything = maps([255, 255])
    value = distances.mean_iou_distances(everything, maps([1, 2]), labels=LABELS)
    np.testing.assert_array_equal(value, [[0.0]])


def test_samples_can_not_hide_behind_the_ignored_label():
    with pytest.raises(ValueError, match="samples hold 255"):
        distances.distance_blocks(maps([255, 1]), maps([1, 1]), labels=LABELS)


def test_mean_iou_equals_the_double_loop():
    generator = np.random.default_rng(5)
    first = generator.integers(0, 4, (2, 4, 5, 6))
    second = generator.choice([0, 1, 2, 3, 255], (2, 3, 5, 6))
    actual = distances.mean_iou_distances(first, second, labels=LABELS)
    for image in range(2):
        valid = (second[image] != 255).all(0)
        for i, a in enumerate(first[image]):
            for j, b in enumerate(second[image]):
                each = [
                    iou_distance((a == c) & valid, (b == c) & valid) for c in (1, 2)
                ]
                np.testing.assert_allclose(actual[image, i, j], np.nanmean(each))


def test_two_classes_of_which_one_is_scored_are_binary():
    first, second = random_masks(6, 2, 3, 4, 5), random_masks(7, 2, 2, 4, 5)
    labels = distances.LabelSet(scored=(1,), num_classes=2)
    np.testing.assert_array_equal(
        distances.mean_iou_distances(first, second, labels=labels),
        distances.iou_distances(first, second),
    )


@pytest.mark.parametrize(
    ("scored", "ignore"), [((), 255), ((1, 1), 255), ((4,), 255), ((1,), 3)]
)
def test_label_sets_are_checked(scored, ignore):
    with pytest.raises(ValueError, match="expected"):
        distances.LabelSet(scored=scored, num_classes=4, ignore=ignore)


def test_distances_of_volumes_follow_from_the_sums_over_slices():
    rng = np.random.default_rng(0)
    samples = rng.integers(0, 2, (3, 4, 5, 6))  # [slices, S, H, W]
    graders = rng.integers(0, 2, (3, 2, 5, 6))
    samples[:, 0] = graders[:, 1] = 0
    counts = sum(distances.intersections(*pair) for pair in zip(samples, graders))
    for rule in distances.BOTH_EMPTY:
        found = distances.volume_blocks(counts, 4, both_empty=rule)
        expected = distances.distance_blocks(
            np.concatenate(samples, axis=1),
            np.concatenate(graders, axis=1),
            both_empty=rule,
        )
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other)
