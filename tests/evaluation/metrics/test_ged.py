from __future__ import annotations

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, iou_distance, random_masks, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.evaluation.metrics import checks, ged
from tf_probunet.evaluation.metrics.distances import LabelSet

A, B, C = draw(0, 1), draw(1, 2, 3), draw(7)


def brute_force(samples, graders, statistic, both_empty, weights=None):
    """The energy distance by its definition, with loops."""

    def mean(first, second, first_weights, second_weights, skip):
        total = weight = 0.0
        for i, a in enumerate(first):
            for j, b in enumerate(second):
                d = iou_distance(a, b)
                if np.isnan(d):
                    if both_empty == "drop":
                        continue
                    d = float(both_empty == "one")
                if skip and i == j:
                    continue
                w = first_weights[i] * second_weights[j]
                total, weight = total + w * d, weight + w
        return total / weight if weight else np.nan

    unbiased = statistic == "u"
    equal = [1 / len(samples)] * len(samples)
    of_graders = [1 / len(graders)] * len(graders) if weights is None else weights
    return (
        2 * mean(samples, graders, equal, of_graders, False)
        - mean(samples, samples, equal, equal, unbiased)
        - mean(graders, graders, of_graders, of_graders, unbiased and weights is None)
    )


def test_hand_worked():
    # d(A, B) = 3/4; C is disjoint from both.
    samples, graders = np.stack([A, C]), np.stack([A, B])
    terms = ged.energy_terms(samples, graders)
    assert terms.cross == pytest.approx((0 + 3 / 4 + 1 + 1) / 4)
    assert terms.samples == pytest.approx(1 / 2)
    assert terms.graders == pytest.approx(3 / 8)
    assert ged.energy_distance(samples, graders) == pytest.approx(1 / 2)
    unbiased = ged.energy_distance(samples, graders, statistic="u")
    assert unbiased == pytest.approx(11 / 8 - 1 - 3 / 4)
    weighted = ged.energy_distance(samples, graders, weights=[1 / 4, 3 / 4])
    cross = (0 / 4 + 3 / 4 * 3 / 4 + 1) / 2
    assert weighted == pytest.approx(2 * cross - 1 / 2 - 2 * 3 / 16 * 3 / 4)


def test_returns_a_float():
    assert type(ged.energy_distance(A[None], B[None])) is float


@pytest.mark.parametrize("statistic", ged.STATISTICS)
@pytest.mark.parametrize("both_empty", ["zero", "drop", "one"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_definition(statistic, both_empty, weighted):
    for seed in range(40):
        generator = np.random.default_rng(seed)
        num_samples, num_graders = generator.integers(1, 6, 2)
        samples = random_masks(seed, num_samples, 3, 4, empty=0.5)
        graders = random_masks(seed + 1000, num_graders, 3, 4, empty=0.5)
        weights = generator.dirichlet(np.ones(num_graders)) if weighted else None
        options = {"statistic": statistic, "both_empty": both_empty}
        np.testing.assert_allclose(
            ged.energy_distance(samples, graders, weights=weights, **options),
            brute_force(samples, graders, weights=weights, **options),
            atol=1e-12,
        )


@pytest.mark.parametrize("statistic", ged.STATISTICS)
@pytest.mark.parametrize("both_empty", ["zero", "drop", "one"])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_and_prefixes_equal_one_by_one(statistic, both_empty, weighted):
    samples, graders = random_masks(1, 7, 16, 6, 5), random_masks(2, 7, 4, 6, 5)
    weights = np.random.default_rng(0).dirichlet(np.ones(4), 7) if weighted else None
    options = {"statistic": statistic, "both_empty": both_empty}
    counts = (1, 4, 8, 16)
    batch = ged.energy_terms(
        samples, graders, counts=counts, weights=weights, **options
    )
    expected = [
        [
            ged.energy_distance(
                samples[image, :n],
                graders[image],
                weights=None if weights is None else weights[image],
                **options,
            )
            for n in counts
        ]
        for image in range(7)
    ]
    np.testing.assert_allclose(batch.energy_distance, expected, atol=1e-14)
    one = ged.energy_terms(samples[0], graders[0], counts=counts, **options)
    assert one.energy_distance.shape == (4,) and one.graders.shape == (1,)
    whole = ged.energy_terms(samples, graders, weights=weights, **options)
    np.testing.assert_array_equal(whole.energy_distance, batch.energy_distance[:, -1])


@settings(max_examples=60)
@given(stacks(), st.randoms(use_true_random=False), st.integers(1, 3))
def test_zero_for_equal_multisets(graders, random, repeats):
    order = list(range(len(graders))) * repeats
    random.shuffle(order)
    assert ged.energy_distance(graders[order], graders) == pytest.approx(0, abs=1e-12)


@settings(max_examples=60)
@given(stacks(), stacks(), st.randoms(use_true_random=False))
def test_order_and_side_do_not_matter_and_it_is_not_negative(samples, graders, random):
    value = ged.energy_distance(samples, graders)
    assert value >= -1e-12
    assert ged.energy_distance(graders, samples) == pytest.approx(value, abs=1e-12)
    shuffled = (
        stack[random.sample(range(len(stack)), len(stack))]
        for stack in (samples, graders)
    )
    assert ged.energy_distance(*shuffled) == pytest.approx(value, abs=1e-12)


@settings(max_examples=60)
@given(stacks(4), stacks(4), stacks(4))
def test_its_root_obeys_the_triangle_inequality(first, second, third):
    def root(a, b):
        return np.sqrt(max(ged.energy_distance(a, b), 0))

    assert root(first, third) <= root(first, second) + root(second, third) + 1e-6


def test_weights_are_repetitions():
    samples = random_masks(3, 5, 4, 4)
    graders = random_masks(4, 3, 4, 4)
    repeated = graders[[0, 0, 0, 1, 2, 2]]
    assert ged.energy_distance(
        samples, graders, weights=[1 / 2, 1 / 6, 1 / 3]
    ) == pytest.approx(ged.energy_distance(samples, repeated))


@pytest.mark.parametrize("both_empty", ["zero", "drop", "one"])
def test_all_empty(both_empty):
    empty = np.zeros((3, 2, 4), np.uint8)
    value = ged.energy_distance(empty, empty[:2], both_empty=both_empty)
    np.testing.assert_array_equal(value, np.nan if both_empty == "drop" else 0.0)


def test_all_graders_empty():
    empty, samples = np.zeros((4, 2, 4), np.uint8), np.stack([A, A, EMPTY, EMPTY])
    # Half of the samples are at distance 1 from each grader and from each other half.
    assert ged.energy_distance(samples, empty) == pytest.approx(2 / 2 - 1 / 2)
    assert np.isnan(ged.energy_distance(samples, empty, both_empty="drop"))


def test_all_samples_empty():
    graders = np.stack([A, A, EMPTY, EMPTY])
    empty = EMPTY[None]
    assert ged.energy_distance(empty, graders) == pytest.approx(2 / 2 - 1 / 2)
    assert np.isnan(ged.energy_distance(empty, graders, both_empty="drop"))


def test_one_makes_an_empty_mask_far_from_itself():
    # As in the code of D-Persona. Cross 1/2; of the graders' 16 pairs only the four of
    # A with A have distance 0.
    graders = np.stack([A, A, EMPTY, EMPTY])
    value = ged.energy_distance(A[None], graders, both_empty="one")
    assert value == pytest.approx(2 / 2 - 0 - 12 / 16)
    # Equal distributions still have none.
    assert ged.energy_distance(graders, graders, both_empty="one") == pytest.approx(0)


def test_drop_leaves_the_same_pairs_out_of_all_terms():
    samples, graders = np.stack([A, EMPTY]), np.stack([B, EMPTY])
    terms = ged.energy_terms(samples, graders, both_empty="drop")
    # One of four pairs is dropped from each term.
    assert terms.cross == pytest.approx((3 / 4 + 1 + 1) / 3)
    assert terms.samples == pytest.approx(2 / 3)
    assert terms.graders == pytest.approx(2 / 3)


def test_single_sample_and_single_grader():
    one = ged.energy_terms(A[None], B[None])
    assert one == (pytest.approx(3 / 4), 0.0, 0.0)
    assert ged.energy_distance(A[None], B[None]) == pytest.approx(3 / 2)
    both = np.stack([A, B])
    for samples, graders in ((A[None], both), (both, A[None])):
        assert np.isnan(ged.energy_distance(samples, graders, statistic="u"))
    # The weighted modes are the whole distribution, however few.
    value = ged.energy_distance(both, A[None], statistic="u", weights=[1.0])
    assert value == pytest.approx(2 * 3 / 8 - 3 / 4)


def test_many_classes():
    labels = LabelSet(scored=(1, 2), num_classes=3)
    samples = np.array([[[1, 2, 0, 1]], [[1, 2, 2, 2]]])
    graders = np.array([[[1, 2, 0, 255]]])
    # Second sample: IoU 1 for class 1 and 1/2 for class 2, from grader and sample.
    value = ged.energy_distance(samples, graders, labels=labels)
    assert value == pytest.approx(2 * (0 + 1 / 4) / 2 - 2 * (1 / 4) / 4)


def test_bad_requests_are_errors():
    masks = np.stack([A, B])
    with pytest.raises(ValueError, match="statistic is 'w'; expected one of v, u"):
        ged.energy_distance(masks, masks, statistic="w")
    with pytest.raises(ValueError, match=r"expected one image's \[S, H, W\]"):
        ged.energy_distance(masks[None], masks[None])
    for counts in ((), (0,), (3,)):
        with pytest.raises(ValueError, match="at most the 2 samples given"):
            ged.energy_terms(masks, masks, counts=counts)
    with pytest.raises(ValueError, match=r"weights have shape \(3,\); expected \(2,\)"):
        ged.energy_distance(masks, masks, weights=[0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match="^slice-3: graders have shape"):
        with checks.naming("slice-3"):
            ged.energy_distance(masks, masks[:0])


def test_sample_diversity_is_the_samples_term():
    samples, graders = random_masks(8, 3, 6, 5, 5), random_masks(9, 3, 2, 5, 5)
    for statistic in ged.STATISTICS:
        terms = ged.energy_terms(samples, graders, statistic=statistic)
        np.testing.assert_allclose(
            ged.sample_diversity(samples, statistic=statistic), terms.samples
        )
    assert ged.sample_diversity(A[None]) == 0
    assert np.isnan(ged.sample_diversity(A[None], statistic="u"))


MODES = np.stack([A, B, C, EMPTY])
PROBABILITIES = np.array([0.4, 0.3, 0.2, 0.1])
# Distances between distinct modes are 1 except d(A, B) = 3/4.
DIVERSITY = 1 - np.square(PROBABILITIES).sum() - 2 * 0.4 * 0.3 * (1 / 4)


def test_mode_floor_is_the_diversity_over_n():
    np.testing.assert_allclose(
        ged.mode_floor(MODES, PROBABILITIES, (1, 4, 16)),
        DIVERSITY / np.array([1, 4, 16]),
    )


def test_grader_floor_hand_worked():
    # Pairs of distinct graders: 3/4, 1, 1.
    floor = ged.grader_floor(np.stack([A, B, C]), (1, 4))
    np.testing.assert_allclose(floor, (2.75 / 3) * np.array([1 + 1 / 3, 1 / 4 + 1 / 3]))
    batch = ged.grader_floor(np.stack([[A, B, C], [A, A, A]]), (1, 4))
    np.testing.assert_allclose(batch, [floor, [0, 0]])


def test_grader_floor_of_one_grader_is_not_known():
    np.testing.assert_array_equal(ged.grader_floor(A[None], (1, 4)), [np.nan] * 2)


def test_floors_hold_for_a_perfect_model():
    generator = np.random.default_rng(0)
    images, counts, num_graders = 4000, (1, 4, 8), 4

    def draws(number):
        return MODES[generator.choice(4, (images, number), p=PROBABILITIES)]

    samples, graders = draws(max(counts)), draws(num_graders)
    values = ged.energy_terms(samples, graders, counts=counts).energy_distance
    error = values.std(0) / np.sqrt(images)
    inverse = 1 / np.array(counts)
    exact = DIVERSITY * (inverse + 1 / num_graders)
    assert (np.abs(values.mean(0) - exact) < 4 * error).all()

    estimated = ged.grader_floor(graders, counts)
    spread = estimated.std(0) / np.sqrt(images)
    assert (np.abs(estimated.mean(0) - exact) < 4 * spread).all()

    known = ged.known_floor(
        graders,
        counts,
        modes=MODES[None].repeat(images, 0),
        probabilities=PROBABILITIES,
    )
    excess = values - known
    assert (np.abs(excess.mean(0)) < 4 * excess.std(0) / np.sqrt(images)).all()
    # Knowing the graders explains part of the spread, so that the excess is tighter.
    assert (excess.std(0) < values.std(0)).all()

    against_modes = ged.energy_terms(
        samples,
        MODES[None].repeat(images, 0),
        counts=counts,
        weights=PROBABILITIES,
    ).energy_distance
    floor = ged.mode_floor(MODES, PROBABILITIES, counts)
    error = against_modes.std(0) / np.sqrt(images)
    assert (np.abs(against_modes.mean(0) - floor) < 4 * error).all()


def test_known_floor_is_the_mean_over_all_possible_samples():
    graders = np.stack([A, B, B, EMPTY])
    expected = 0.0
    for i in range(4):
        for j in range(4):
            pair = ged.energy_distance(MODES[[i, j]], graders)
            expected += PROBABILITIES[i] * PROBABILITIES[j] * pair
    floor = ged.known_floor(graders, (2,), modes=MODES, probabilities=PROBABILITIES)
    np.testing.assert_allclose(floor, [expected])


def test_u_statistic_has_floor_zero():
    generator = np.random.default_rng(1)
    draws = MODES[generator.choice(4, (4000, 8), p=PROBABILITIES)]
    terms = ged.energy_terms(draws[:, :4], draws[:, 4:], statistic="u")
    values = terms.energy_distance
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_floors_of_label_maps_leave_ignored_pixels_out():
    labels = LabelSet(scored=(1,), num_classes=2)
    modes = np.array([[[1, 0, 255]], [[0, 1, 255]]])
    floor = ged.mode_floor(modes, [0.5, 0.5], (2,), labels=labels)
    np.testing.assert_allclose(floor, [0.25])
    np.testing.assert_allclose(ged.grader_floor(modes, (2,), labels=labels), [1.0])
    known = ged.known_floor(
        modes, (2,), modes=modes, probabilities=[0.5, 0.5], labels=labels
    )
    np.testing.assert_allclose(known, [2 * 0.5 - 0.5 * 0.5 - 0.5])


@pytest.mark.parametrize("both_empty", ["zero", "drop", "one"])
def test_weights_that_are_multiples_count_like_repeated_masks(both_empty):
    rng = np.random.default_rng(2)
    samples = (rng.random((3, 5, 5)) < 0.4).astype(np.uint8)
    graders = (rng.random((2, 5, 5)) < 0.4).astype(np.uint8)
    samples[0] = graders[1] = 0
    weighted = ged.energy_distance(
        samples,
        graders,
        both_empty=both_empty,
        sample_weights=[1 / 6, 2 / 6, 3 / 6],
        grader_weights=[1 / 4, 3 / 4],
    )
    repeated = ged.energy_distance(
        np.repeat(samples, [1, 2, 3], axis=0),
        np.repeat(graders, [1, 3], axis=0),
        both_empty=both_empty,
    )
    assert weighted == pytest.approx(repeated)


def test_weights_of_a_batch():
    rng = np.random.default_rng(3)
    samples, graders = (
        rng.integers(0, 2, (2, 3, 4, 4)),
        rng.integers(0, 2, (2, 2, 4, 4)),
    )
    weights = rng.dirichlet(np.ones(3), 2)
    together = ged.energy_terms(samples, graders, sample_weights=weights)
    alone = [
        ged.energy_distance(s, g, sample_weights=w)
        for s, g, w in zip(samples, graders, weights)
    ]
    np.testing.assert_allclose(together.energy_distance, alone)


def test_weighted_samples_have_no_counts_and_graders_one_kind_of_weights():
    samples, graders = np.zeros((3, 4, 4), int), np.zeros((2, 4, 4), int)
    thirds = np.full(3, 1 / 3)
    with pytest.raises(ValueError, match=r"counts are \[1, 3\]; expected 3 alone"):
        ged.energy_terms(samples, graders, counts=[1, 3], sample_weights=thirds)
    with pytest.raises(ValueError, match="weights and grader_weights are the same"):
        ged.energy_distance(
            samples, graders, weights=[0.5, 0.5], grader_weights=[0.5, 0.5]
        )
