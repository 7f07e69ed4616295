"""The Cityscapes energy distance and mode counts against their plain definitions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tf_probunet.dataset.cityscapes_labels import (
    CLASS_NAMES,
    MODE_PROBABILITIES,
    SWITCHES,
    switch_table,
)
from tf_probunet.evaluation.metrics import switched_modes

ROAD, SIDEWALK, BUILDING, VEGETATION, PERSON, CAR = 0, 1, 2, 8, 11, 13
SIDEWALK_2, PERSON_2, CAR_2, VEGETATION_2, ROAD_2 = 19, 20, 21, 22, 23
SWITCHABLE = (0, 1, 8, 11, 13, 19, 20, 21, 22, 23)
FIVE = np.array([[SIDEWALK, PERSON, CAR, VEGETATION, ROAD, BUILDING]])


def pixel_sets(label_map, keep):
    """The pixels of each switchable class of a map [H, W], masked ones left out."""
    return [
        {tuple(p) for p in np.argwhere((label_map == c) & keep)} for c in SWITCHABLE
    ]


def brute_distance(first, second):
    """1 - mean IoU of two maps given as `pixel_sets`."""
    ious = [len(a & b) / len(a | b) for a, b in zip(first, second) if a | b]
    return 1 - sum(ious) / len(ious) if ious else 0.0


def brute_modes(labels):
    """All 32 modes [32, H, W], drawn switch by switch."""
    modes = np.stack([labels] * 32)
    for mode, drawn in enumerate(modes):
        for i, switch in enumerate(SWITCHES):
            if mode >> i & 1:
                drawn[labels == switch.class_id] = switch.new_class_id
    return modes


def brute_probabilities():
    result = []
    for mode in range(32):
        p = 1.0
        for i in range(5):
            p *= (8 - i) / 17 if mode >> i & 1 else 1 - (8 - i) / 17
        result.append(p)
    return np.array(result)


def brute_force(samples, labels, ignore=255):
    """Energy distance and mode counts by the definition, mode by mode."""
    keep, weights = labels != ignore, brute_probabilities()
    samples = [pixel_sets(sample, keep) for sample in samples]
    modes = [pixel_sets(mode, keep) for mode in brute_modes(labels)]
    to_modes = np.array([[brute_distance(s, y) for y in modes] for s in samples])
    within = np.mean([[brute_distance(s, t) for t in samples] for s in samples])
    between = np.array([[brute_distance(x, y) for y in modes] for x in modes])
    energy = 2 * (to_modes @ weights).mean() - within - weights @ between @ weights
    counts = np.zeros(32)
    for row in to_modes:
        tied = np.flatnonzero(np.isclose(row, row.min(), rtol=0, atol=1e-9))
        counts[tied] += weights[tied] / weights[tied].sum()
    return energy, counts


def scenes(max_samples=5, height=3, width=4):
    """Labels that favour switchable classes, and samples of any of the 24 classes."""
    labels = hnp.arrays(
        np.uint8,
        (height, width),
        elements=st.sampled_from((0, 1, 8, 11, 13, 2, 10, 18, 255)),
    )
    classes = st.one_of(st.sampled_from(SWITCHABLE), st.integers(0, 23))
    samples = st.integers(1, max_samples).flatmap(
        lambda n: hnp.arrays(np.uint8, (n, height, width), elements=classes)
    )
    return st.tuples(samples, labels)


@settings(max_examples=60)
@given(scenes())
def test_equals_the_definition(scene):
    samples, labels = scene
    energy, counts = brute_force(samples, labels)
    assert switched_modes.energy_distance(samples, labels) == pytest.approx(
        energy, abs=1e-12
    )
    np.testing.assert_allclose(
        switched_modes.mode_counts(samples, labels), counts, atol=1e-12
    )


@pytest.mark.parametrize("num_samples", [1, 2, 3, 16])
def test_equals_the_definition_on_maps_with_long_runs(num_samples):
    # Large regions take the path that merges neighbouring pixels, noise the other.
    rng = np.random.default_rng(num_samples)
    labels = np.kron(
        rng.choice([0, 1, 8, 11, 13, 2, 255], (2, 3)), np.ones((4, 6), int)
    )
    samples = np.stack(
        [switch_table(m)[labels] for m in rng.integers(0, 32, num_samples)]
    )
    samples[:, 1:3, 2:9] = rng.integers(0, 24, (num_samples, 1, 1))
    energy, counts = brute_force(samples, labels)
    assert switched_modes._runs(*switched_modes._masked(samples, labels, 255))[2].any()
    assert switched_modes.energy_distance(samples, labels) == pytest.approx(
        energy, abs=1e-12
    )
    np.testing.assert_allclose(
        switched_modes.mode_counts(samples, labels), counts, atol=1e-12
    )


def test_distances_by_hand():
    labels = np.array([[ROAD, ROAD, CAR, BUILDING]])
    sample = np.array([[[ROAD, CAR, CAR, CAR_2]]])
    result = switched_modes.distances(sample, labels).samples_to_modes[0]
    # Road 1/2, car 1/2, and car 2 is predicted but absent.
    assert result[0b00000] == pytest.approx(1 - (1 / 2 + 1 / 2 + 0) / 3)
    # Car flipped: car is predicted but absent; car 2 overlaps nowhere.
    assert result[0b00100] == pytest.approx(1 - (1 / 2 + 0 + 0) / 3)
    # Road flipped: road is predicted but absent, road 2 is missed.
    assert result[0b10000] == pytest.approx(1 - (0 + 0 + 1 / 2 + 0) / 4)
    assert result[0b10100] == 1.0
    # The sidewalk, person and vegetation switches have nothing to flip.
    assert result[0b00011] == result[0] == result[0b01000]


def test_sample_distances_by_hand():
    labels = np.array([[ROAD, ROAD, CAR, 255]])
    samples = np.array(
        [
            [[ROAD, ROAD, CAR, CAR]],
            [[ROAD, CAR, CAR, PERSON]],
            [[BUILDING, BUILDING, BUILDING, ROAD]],
        ]
    )
    result = switched_modes.distances(samples, labels).between_samples
    expected = [[0, 1 / 2, 1], [1 / 2, 0, 1], [1, 1, 0]]
    np.testing.assert_allclose(result, expected, atol=1e-15)


def test_two_modes_by_hand():
    # Only road: two distinct modes with probabilities 13/17 and 4/17, distance 1.
    labels = np.full((2, 2), ROAD)
    p = 4 / 17
    spread = 2 * p * (1 - p)
    unflipped = np.full((1, 2, 2), ROAD)
    assert switched_modes.energy_distance(unflipped, labels) == pytest.approx(
        2 * p - spread
    )
    both = np.stack([np.full((2, 2), ROAD), np.full((2, 2), ROAD_2)])
    assert switched_modes.energy_distance(both, labels) == pytest.approx(
        1 - 1 / 2 - spread
    )
    assert switched_modes.perfect_model_floor(labels, 4) == pytest.approx(spread / 4)


def test_distance_between_modes_by_hand():
    between = switched_modes.distances(FIVE[None], FIVE).between_modes
    assert between[0, 0] == 0
    assert between[0, 31] == 1
    # One of five classes differs: four IoUs of 1, two of 0.
    assert between[0, 1] == pytest.approx(1 - 4 / 6)
    assert between[0b00101, 0b00110] == pytest.approx(1 - 3 / 7)


def test_no_switchable_class_gives_zero():
    labels = np.full((2, 3), BUILDING)
    assert switched_modes.energy_distance(np.full((4, 2, 3), 10), labels) == 0
    np.testing.assert_allclose(
        switched_modes.mode_counts(np.full((4, 2, 3), 10), labels),
        4 * MODE_PROBABILITIES,
    )
    assert switched_modes.perfect_model_floor(labels, 1) == 0
    # Predicted but absent scores 0, so that the distance to every mode is 1.
    invented = np.full((1, 2, 3), CAR)
    assert switched_modes.energy_distance(invented, labels) == pytest.approx(2)


def test_everything_ignored_gives_zero():
    labels = np.full((2, 3), 255)
    samples = np.random.default_rng(0).integers(0, 24, (3, 2, 3))
    assert switched_modes.energy_distance(samples, labels) == 0
    assert switched_modes.pixel_counts(samples, labels).sum() == 0


@settings(max_examples=25)
@given(scenes(max_samples=4), st.integers(0, 2**32 - 1))
def test_ignored_pixels_count_nowhere(scene, seed):
    samples, labels = scene
    rng = np.random.default_rng(seed)
    changed = np.where(labels == 255, rng.integers(0, 256, samples.shape), samples)
    assert switched_modes.energy_distance(
        changed, labels
    ) == switched_modes.energy_distance(samples, labels)
    np.testing.assert_array_equal(
        switched_modes.mode_counts(changed, labels),
        switched_modes.mode_counts(samples, labels),
    )
    np.testing.assert_array_equal(
        switched_modes.pixel_counts(changed, labels),
        switched_modes.pixel_counts(samples, labels),
    )
    other = np.where(labels == 255, -1, labels.astype(int))
    assert switched_modes.energy_distance(
        samples, other, ignore=-1
    ) == switched_modes.energy_distance(samples, labels)


@settings(max_examples=25)
@given(scenes(), st.randoms(use_true_random=False))
def test_order_of_samples_and_pixels_does_not_matter(scene, random):
    samples, labels = scene
    order = random.sample(range(len(samples)), len(samples))
    expected = switched_modes.energy_distance(samples, labels)
    assert switched_modes.energy_distance(samples[order], labels) == pytest.approx(
        expected, abs=1e-12
    )
    assert switched_modes.energy_distance(
        samples[:, ::-1, ::-1], labels[::-1, ::-1]
    ) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_any_integer_type(dtype):
    rng = np.random.default_rng(3)
    samples, labels = rng.integers(0, 24, (5, 20, 30)), rng.integers(0, 19, (20, 30))
    labels[:3] = 255
    assert switched_modes.energy_distance(
        samples.astype(dtype), labels.astype(np.uint8)
    ) == switched_modes.energy_distance(samples, labels)


def test_each_mode_is_closest_to_itself():
    modes = np.stack([switch_table(mode)[FIVE] for mode in range(32)])
    for mode in range(32):
        counts = switched_modes.mode_counts(modes[mode : mode + 1], FIVE)
        np.testing.assert_array_equal(counts, np.eye(32)[mode])


def test_tied_modes_share_in_proportion():
    labels = np.array([[SIDEWALK, PERSON, VEGETATION, ROAD]])  # no car
    counts = switched_modes.mode_counts(switch_table(0b00001)[labels][None], labels)
    expected = np.zeros(32)
    expected[0b00001], expected[0b00101] = 11 / 17, 6 / 17
    np.testing.assert_allclose(counts, expected, atol=1e-15)


def test_samples_that_decide_for_neither_side_of_a_switch_are_counted():
    labels = np.array([[SIDEWALK, PERSON, VEGETATION, ROAD]])  # no car
    without_person = np.array([[SIDEWALK, BUILDING, VEGETATION, ROAD]])
    samples = np.stack([labels, without_person, without_person])
    score = switched_modes.score_image(samples, labels, sample_counts=(1,))
    # In the order of the switches: sidewalk, person, car, vegetation, road.
    assert score.switch_ties.tolist() == [[0, 3], [2, 3], [0, 0], [0, 3], [0, 3]]
    assert score.undecided == 2


@pytest.mark.parametrize("present", [(0, 1, 8, 11, 13), (0, 11), (8,), ()])
def test_trivial_models_have_the_distances_of_their_samples(present):
    labels = np.array([[*present, BUILDING]])
    found = switched_modes.distances(labels[None], labels).baselines()
    never, without = np.stack([labels] * 2), np.full((2, *labels.shape), BUILDING)
    assert found == {
        "never_flipped": pytest.approx(switched_modes.energy_distance(never, labels)),
        "no_switchable_class": pytest.approx(
            switched_modes.energy_distance(without, labels)
        ),
    }


@pytest.mark.parametrize("present", [(0, 1, 8, 11, 13), (0, 11), (8,), ()])
def test_perfect_samples_are_calibrated_in_expectation(present):
    labels = np.array([[*present, BUILDING]])
    expected = sum(
        MODE_PROBABILITIES[mode]
        * switched_modes.mode_counts(switch_table(mode)[labels][None], labels)
        for mode in range(32)
    )
    np.testing.assert_allclose(expected, MODE_PROBABILITIES, atol=1e-15)


def test_floor_is_the_expectation_for_perfect_samples():
    labels = np.array([[ROAD, ROAD, CAR, 255, BUILDING]])
    modes = [switch_table(mode)[labels] for mode in (0, 0b00100, 0b10000, 0b10100)]
    p = [13 / 17 * 11 / 17, 13 / 17 * 6 / 17, 4 / 17 * 11 / 17, 4 / 17 * 6 / 17]
    expected = sum(
        p[i] * p[j] * switched_modes.energy_distance(np.stack([x, y]), labels)
        for i, x in enumerate(modes)
        for j, y in enumerate(modes)
    )
    assert switched_modes.perfect_model_floor(labels, 2) == pytest.approx(expected)


def test_score_image_agrees_with_the_single_functions():
    rng = np.random.default_rng(5)
    samples, labels = rng.integers(0, 24, (8, 9, 11)), rng.integers(0, 19, (9, 11))
    labels[rng.random(labels.shape) < 0.2] = 255
    score = switched_modes.score_image(samples, labels, sample_counts=(1, 3, 8))
    for n, value in score.energy_distances.items():
        assert value == switched_modes.energy_distance(samples[:n], labels)
        assert score.floors[n] == pytest.approx(
            switched_modes.perfect_model_floor(labels, n)
        )
    np.testing.assert_array_equal(
        score.mode_counts, switched_modes.mode_counts(samples, labels)
    )
    np.testing.assert_array_equal(
        score.pixel_counts, switched_modes.pixel_counts(samples, labels)
    )


def test_pixel_counts_by_hand():
    labels = np.array([[ROAD, ROAD, CAR, 255]])
    samples = np.array([[[ROAD, ROAD_2, CAR, CAR]], [[CAR, ROAD_2, CAR_2, CAR]]])
    expected = np.zeros((24, 19), int)
    expected[ROAD, ROAD], expected[ROAD_2, ROAD], expected[CAR, ROAD] = 1, 2, 1
    expected[CAR, CAR] = expected[CAR_2, CAR] = 1
    counts = switched_modes.pixel_counts(samples, labels)
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(
    "samples, labels, message",
    [
        (np.full((2, 3, 3), 24), np.zeros((3, 3), int), "contain class 24"),
        (np.full((2, 3, 3), -1), np.zeros((3, 3), int), "contain class -1"),
        (np.full((2, 3, 3), 256), np.zeros((3, 3), int), "contain class 256"),
        (np.zeros((2, 3, 3), int), np.full((3, 3), 19), "labels contain 19"),
        (np.zeros((2, 3, 3), int), np.full((3, 3), -1), "labels contain -1"),
        (np.zeros((2, 3, 3), int), np.full((3, 3), 511), "labels contain 511"),
        (np.zeros((3, 3), int), np.zeros((3, 3), int), r"samples have shape \(3, 3\)"),
        (np.zeros((0, 3, 3), int), np.zeros((3, 3), int), "samples have shape"),
        (
            np.zeros((2, 3, 4), int),
            np.zeros((3, 3), int),
            r"labels have shape \(3, 3\)",
        ),
        (np.zeros((2, 3, 3)), np.zeros((3, 3), int), "samples have dtype float64"),
        (np.zeros((2, 3, 3), int), np.zeros((3, 3)), "labels have dtype float64"),
    ],
)
def test_wrong_input_is_refused(samples, labels, message):
    for function in (
        switched_modes.energy_distance,
        switched_modes.mode_counts,
        switched_modes.pixel_counts,
        switched_modes.score_image,
    ):
        with pytest.raises(ValueError, match=message):
            function(samples, labels)


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match="num_samples is 5, expected 1 to 4"):
        switched_modes.score_image(np.repeat(FIVE[None], 4, 0), FIVE, sample_counts=[5])
    with pytest.raises(ValueError, match="num_samples is 0"):
        switched_modes.perfect_model_floor(FIVE, 0)


def test_class_numbers_used_here_are_those_of_the_table():
    names = "road sidewalk building vegetation person car".split()
    numbers = (ROAD, SIDEWALK, BUILDING, VEGETATION, PERSON, CAR)
    assert [CLASS_NAMES[i] for i in numbers] == names
    assert [
        CLASS_NAMES[i] for i in (SIDEWALK_2, PERSON_2, CAR_2, VEGETATION_2, ROAD_2)
    ] == [
        "sidewalk 2",
        "person 2",
        "car 2",
        "vegetation 2",
        "road 2",
    ]


def test_import_does_not_load_tensorflow():
    code = (
        "import sys, tf_probunet.evaluation.metrics.switched_modes; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_numbers_of_the_documents():
    """Of docs/cityscapes.md, for an image that has all five classes."""
    found = switched_modes.distances(FIVE[None], FIVE).baselines()
    assert {name: round(value, 3) for name, value in found.items()} == {
        "never_flipped": 0.391,
        "no_switchable_class": 1.420,
    }
    assert round(switched_modes.perfect_model_floor(FIVE, 16), 3) == 0.036
