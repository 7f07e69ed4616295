"""The terms of the objectives against closed forms and hand-worked numbers."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import special, stats

from tf_probunet.dataset import cityscapes_labels
from tf_probunet.evaluation.metrics import ged, switched_modes
from tf_probunet.models import losses

tfd = tfp.distributions


def _gaussian(mean, stddev):
    return tfd.MultivariateNormalDiag(
        tf.constant(mean, tf.float32), tf.constant(stddev, tf.float32)
    )


def _closed_form_kl(m0, s0, m1, s1):
    """KL(N(m0, s0^2) || N(m1, s1^2)) of each dimension."""
    m0, s0, m1, s1 = map(np.asarray, (m0, s0, m1, s1))
    return np.log(s1 / s0) + (s0**2 + (m0 - m1) ** 2) / (2 * s1**2) - 0.5


Q = ([[0.3, -1.0]], [[0.5, 2.0]])
P = ([[-0.2, 0.4]], [[1.5, 0.7]])


def test_cross_entropy_is_minus_log_softmax_summed_over_pixels():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    labels = rng.integers(0, 5, size=(2, 3, 4))
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]
    result = losses.cross_entropy(logits=logits, labels=tf.constant(labels, tf.int32))
    np.testing.assert_allclose(result, -picked.sum((1, 2)), rtol=1e-5)


def test_ignored_pixels_do_not_count_whatever_is_predicted_there():
    logits = np.zeros((1, 2, 2, 2), np.float32)
    labels = tf.constant([[[0, 255], [1, 255]]])
    result = losses.cross_entropy(logits=logits, labels=labels, ignore_label=255)
    np.testing.assert_allclose(result, [2 * np.log(2)], rtol=1e-6)
    logits[0, :, 1] = [100.0, -100.0]
    changed = losses.cross_entropy(logits=logits, labels=labels, ignore_label=255)
    np.testing.assert_allclose(changed, result)


def test_cross_entropy_has_no_gradient_at_ignored_pixels():
    logits = tf.zeros([1, 1, 2, 2])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.cross_entropy(
            logits=logits, labels=tf.constant([[[1, 255]]]), ignore_label=255
        )
    gradient = tape.gradient(loss, logits).numpy()
    np.testing.assert_allclose(gradient[0, 0], [[0.5, -0.5], [0.0, 0.0]])


def test_kl_is_the_closed_form_of_posterior_against_prior():
    posterior, prior = _gaussian(*Q), _gaussian(*P)
    expected = _closed_form_kl(*Q, *P)
    np.testing.assert_allclose(
        losses.kl_per_dimension(posterior, prior), expected, rtol=1e-5
    )
    swapped = losses.kl_per_dimension(prior, posterior)
    assert np.abs(np.asarray(swapped) - expected).min() > 0.1


def test_kl_is_what_monte_carlo_gives():
    rng = np.random.default_rng(1)
    z = rng.normal(Q[0], Q[1], size=(200_000, 2))
    draws = stats.norm.logpdf(z, *Q) - stats.norm.logpdf(z, *P)
    total = draws.sum(-1)
    error = total.std() / np.sqrt(len(total))
    kl = tfd.kl_divergence(_gaussian(*Q), _gaussian(*P)).numpy()[0]
    assert abs(kl - total.mean()) < 5 * error


def test_negative_elbo_on_hand_made_distributions():
    terms = losses.negative_elbo(
        nats=tf.constant([10.0, 30.0]),
        posterior=_gaussian([[1.0], [0.0]], [[1.0], [2.0]]),
        prior=_gaussian([[0.0], [0.0]], [[1.0], [1.0]]),
        beta=3.0,
    )
    # KL of N(1, 1) is 1/2, of N(0, 4) is 2 - 1/2 - log 2.
    kl = (0.5 + 1.5 - np.log(2)) / 2
    np.testing.assert_allclose(terms["kl"], kl, rtol=1e-6)
    np.testing.assert_allclose(terms["cross_entropy"], 20.0)
    np.testing.assert_allclose(terms["loss"], 20.0 + 3.0 * kl, rtol=1e-6)


def test_best_head_weighs_the_best_by_one_minus_epsilon():
    nats = tf.constant([[4.0, 1.0, 7.0], [2.0, 8.0, 5.0]])
    # Weights .9 for the best, .05 for each of the two others.
    expected = [0.9 * 1 + 0.05 * (4 + 7), 0.9 * 2 + 0.05 * (8 + 5)]
    np.testing.assert_allclose(losses.best_head(nats, 0.1), expected, rtol=1e-6)


def test_one_head_has_all_the_weight():
    np.testing.assert_allclose(losses.best_head(tf.constant([[3.0]]), 0.05), [3.0])


def test_a_tie_has_one_best_head():
    result = losses.best_head(tf.constant([[2.0, 2.0]]), 0.1)
    np.testing.assert_allclose(result, [2.0], rtol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 1.6])
def test_importance_sampling_finds_the_evidence_of_a_conjugate_model(spread):
    # z ~ N(0, 1), y | z ~ N(z, 0.5^2): y ~ N(0, 1.25), z | y is Gaussian.
    y, noise = 0.8, 0.5
    variance = 1 / (1 + 1 / noise**2)
    mean, stddev = variance * y / noise**2, spread * np.sqrt(variance)
    z = np.random.default_rng(2).normal(mean, stddev, size=(1, 50_000))
    estimate = losses.importance_log_likelihood(
        log_p_y=tf.constant(stats.norm.logpdf(y, z, noise)),
        log_p_z=tf.constant(stats.norm.logpdf(z)),
        log_q_z=tf.constant(stats.norm.logpdf(z, mean, stddev)),
    )
    expected = stats.norm.logpdf(y, 0, np.sqrt(1.25))
    # With the exact posterior every weight is the evidence.
    tolerance = 1e-9 if spread == 1.0 else 0.02
    np.testing.assert_allclose(estimate, [expected], atol=tolerance)


def _maps(rng, shape, num_classes=2):
    """Label maps of squares, some of them empty."""
    labels = rng.integers(0, num_classes, shape)
    return labels * (rng.random(shape[:2]) < 0.7)[..., None, None]


def _hard(maps, labels, num_classes=2, **settings):
    return losses.energy_distance(
        probabilities=tf.one_hot(maps, num_classes),
        labels=tf.constant(labels, tf.int32),
        epsilon=1e-6,
        **settings,
    ).numpy()


@pytest.mark.parametrize("overlap", ["product", "min"])
@pytest.mark.parametrize("num_samples", [1, 2, 5, 8])
def test_energy_distance_of_hard_masks_is_the_exact_one(num_samples, overlap):
    rng = np.random.default_rng(3)
    samples = _maps(rng, (6, num_samples, 5, 4))
    graders = _maps(rng, (6, 4, 5, 4))
    samples[0] = graders[1] = 0
    samples[2] = graders[2] = 0
    exact = [ged.energy_distance(s, y) for s, y in zip(samples, graders)]
    assert exact[2] == 0.0
    result = _hard(samples, graders, overlap=overlap)
    np.testing.assert_allclose(result, exact, atol=1e-5)


def test_energy_distance_of_several_classes_is_the_exact_one():
    rng = np.random.default_rng(4)
    samples = _maps(rng, (6, 5, 4, 4), 4)
    graders = _maps(rng, (6, 3, 4, 4), 4)
    samples[0] = graders[0] = np.where(samples[0, :1] == 3, 0, samples[0, :1])
    graders[1, 0, :2] = 255
    labels = ged.LabelSet((1, 2, 3), 4, 255)
    exact = [ged.energy_distance(s, y, labels=labels) for s, y in zip(samples, graders)]
    result = _hard(samples, graders, 4, ignore_label=255)
    np.testing.assert_allclose(result, exact, atol=1e-5)


def test_maps_that_do_not_count_have_no_part_in_the_balance_of_classes():
    rng = np.random.default_rng(6)
    logits = tf.constant(rng.normal(size=(3, 4, 4, 3)), tf.float32)
    labels = tf.constant(rng.integers(0, 3, (3, 4, 4)), tf.int32)
    nats = losses.cross_entropy(
        logits=logits,
        labels=labels,
        class_balance=0.5,
        counted=tf.constant([True, False, True]),
    )
    expected = losses.cross_entropy(
        logits=logits[::2], labels=labels[::2], class_balance=0.5
    )
    np.testing.assert_allclose(nats[::2], expected, rtol=1e-5)
    assert float(nats[1]) == 0.0


def test_energy_distance_takes_the_graders_that_an_image_has():
    rng = np.random.default_rng(5)
    samples, graders = _maps(rng, (5, 3, 4, 4), 3), _maps(rng, (5, 4, 4, 4), 3)
    graders[1, 0, :2] = 255  # Of a grader, and below of what only pads.
    counts = [1, 2, 3, 4, 1]
    mask = np.arange(4) < np.array(counts)[:, None]
    padded = np.where(mask[..., None, None], graders, 255)
    labels = ged.LabelSet((1, 2), 3, 255)
    exact = [
        ged.energy_distance(s, y[:count], labels=labels)
        for s, y, count in zip(samples, graders, counts)
    ]
    result = _hard(samples, padded, 3, ignore_label=255, grader_mask=tf.constant(mask))
    np.testing.assert_allclose(result, exact, atol=1e-5)


@pytest.mark.parametrize("overlap", ["product", "min"])
def test_energy_distance_of_soft_samples_by_hand(overlap):
    # Two samples of two pixels, .5 and .25 or 1 and 0; one grader marks the first.
    foreground = tf.constant([[[[0.5, 0.25]], [[1.0, 0.0]]]])
    result = losses.energy_distance(
        probabilities=tf.stack([1.0 - foreground, foreground], axis=-1),
        labels=tf.constant([[[[1, 0]]]]),
        epsilon=1e-7,
        overlap=overlap,
    )
    # To the grader: 1 - .5 / (.75 + 1 - .5), and 0. Between the samples the same.
    distance = 1 - 0.5 / 1.25
    # The first to itself: the products of .5 and .25 with themselves, or themselves.
    shared = 0.25 + 0.0625
    itself = {"product": 1 - shared / (1.5 - shared), "min": 0.0}[overlap]
    expected = 2 * (distance + 0) / 2 - (2 * distance + itself) / 4
    np.testing.assert_allclose(result, [expected], rtol=1e-5)


def test_epsilon_decides_from_how_many_pixels_on_a_map_is_not_empty():
    foreground = tf.constant([[[[0.01, 0.03]]]])
    probabilities = tf.stack([1.0 - foreground, foreground], axis=-1)
    for epsilon in (0.04, 1.0):
        result = losses.energy_distance(
            probabilities=probabilities,
            labels=tf.zeros([1, 2, 1, 2], tf.int32),
            epsilon=epsilon,
            overlap="min",
        )
        np.testing.assert_allclose(result, [2 * 0.04 / (0.04 + epsilon)], rtol=1e-5)


@pytest.mark.parametrize("overlap", ["product", "min"])
@pytest.mark.parametrize("num_classes", [2, 4])
def test_gradient_of_the_energy_distance_is_the_finite_difference(num_classes, overlap):
    rng = np.random.default_rng(5)
    logits = tf.constant(rng.normal(size=(2, 3, 2, 3, num_classes)))
    labels = _maps(rng, (2, 2, 2, 3), num_classes)
    labels[0] = 0

    def distance(logits):
        return tf.reduce_sum(
            losses.energy_distance(
                probabilities=tf.nn.softmax(logits),
                labels=tf.constant(labels, tf.int32),
                overlap=overlap,
            )
        )

    theoretical, numerical = tf.test.compute_gradient(distance, [logits], delta=1e-5)
    assert np.abs(theoretical[0]).max() > 0.01
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-6)


def test_gradient_of_the_energy_distance_is_finite_where_all_is_empty():
    logits = tf.constant([[[[[200.0, -200.0]]], [[[0.0, 0.0]]]]])  # [1, 2, 1, 1, 2]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.energy_distance(
            probabilities=tf.nn.softmax(logits), labels=tf.zeros([1, 2, 1, 1], tf.int32)
        )
    gradient = tape.gradient(loss, logits).numpy()
    assert np.isfinite(gradient).all()
    # The sample that marks a pixel is drawn to the graders.
    assert gradient[0, 1, 0, 0, 1] > 0 > gradient[0, 1, 0, 0, 0]


_OLD, _NEW = [1, 11, 13, 8, 0], [19, 20, 21, 22, 23]


def _streets(rng, images, num_samples, side=6):
    """Labels [B, H, W], and samples [B, S, H, W] that flip them and make mistakes."""
    few = rng.choice([0, 1, 2, 8, 11, 13, 255], (images, side, side))
    samples = np.repeat(np.where(few == 255, 5, few)[:, None], num_samples, axis=1)
    for old, new in zip(_OLD, _NEW):
        flips = rng.random((images, num_samples)) < 0.5
        samples = np.where((samples == old) & flips[..., None, None], new, samples)
    wrong = rng.random(samples.shape) < 0.2
    return few, np.where(wrong, rng.integers(0, 24, samples.shape), samples)


def _switched(samples, labels, **settings):
    return losses.switched_energy_distance(
        probabilities=tf.one_hot(samples, 24, dtype=tf.float64),
        labels=tf.constant(labels, tf.int32),
        ignore_label=255,
        **{"epsilon": 1e-9, **settings},
    ).numpy()


@pytest.mark.parametrize("overlap", ["product", "min"])
@pytest.mark.parametrize("num_samples", [1, 4, 5])
def test_switched_energy_distance_of_hard_maps_is_the_exact_one(num_samples, overlap):
    rng = np.random.default_rng(6)
    labels, samples = _streets(rng, 6, num_samples)
    labels[0][labels[0] == 13] = 2  # No car, but samples may show one.
    labels[1][np.isin(labels[1], _OLD)] = 2  # Nothing to switch ...
    samples[1] = 3  # ... in either map.
    labels[2] = 255
    samples[3] = 2  # No sample shows a switchable class.
    exact = [switched_modes.energy_distance(*pair) for pair in zip(samples, labels)]
    assert exact[1] == exact[2] == 0.0
    result = _switched(samples, labels, overlap=overlap)
    np.testing.assert_allclose(result, exact, atol=1e-7)


def test_switched_energy_distance_does_not_depend_on_the_flips_of_the_labels():
    labels, samples = _streets(np.random.default_rng(7), 1, 3)
    expected = _switched(samples, labels)
    for mode in (1, 12, 31):
        flipped = cityscapes_labels.switch_table(mode)[labels]
        np.testing.assert_array_equal(_switched(samples, flipped), expected)


def test_switched_energy_distance_of_a_soft_road_by_hand():
    # One pixel of road. Road 2 has a probability of 4/17, and the sample gives it .3.
    probabilities = np.zeros([1, 1, 1, 1, 24])
    probabilities[..., [0, 23]] = 0.7, 0.3
    result = losses.switched_energy_distance(
        probabilities=tf.constant(probabilities),
        labels=tf.zeros([1, 1, 1], tf.int32),
        epsilon=1e-9,
    )
    # Two classes always count. IoU .7 with the road as it is, .3 with the flipped one.
    p, itself = 4 / 17, (0.49 / (1.4 - 0.49) + 0.09 / (0.6 - 0.09)) / 2
    cross = (1 - p) * (1 - 0.7 / 2) + p * (1 - 0.3 / 2)
    expected = 2 * cross - (1 - itself) - 2 * p * (1 - p)
    np.testing.assert_allclose(result, [expected], rtol=1e-6)


@pytest.mark.parametrize("overlap", ["product", "min"])
def test_gradient_of_the_switched_distance_is_the_finite_difference(overlap):
    rng = np.random.default_rng(8)
    labels = tf.constant([[[0, 1, 255]], [[13, 13, 23]]])
    logits = tf.constant(2.0 * rng.normal(size=(2, 3, 1, 3, 24)))

    def distance(logits):
        return tf.reduce_sum(
            losses.switched_energy_distance(
                probabilities=tf.nn.softmax(logits),
                labels=labels,
                ignore_label=255,
                epsilon=0.1,
                overlap=overlap,
            )
        )

    theoretical, numerical = tf.test.compute_gradient(distance, [logits], delta=1e-5)
    assert np.abs(theoretical[0]).max() > 0.01
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-6)
    ignored = np.reshape(theoretical[0], logits.shape)[0, :, :, 2]
    np.testing.assert_array_equal(ignored, 0.0)


def test_logits_before_the_flips_have_the_probabilities_of_both_classes():
    logits = np.random.default_rng(9).normal(size=(2, 3, 24))
    probabilities = special.softmax(logits, axis=-1)
    expected = probabilities[..., :19].copy()
    expected[..., _OLD] += probabilities[..., _NEW]
    found = special.softmax(losses.unswitched_logits(tf.constant(logits)), axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    labels = tf.constant([[0, 23, 19, 5], [11, 20, 255, 1]])
    found = losses.unswitched(labels)
    np.testing.assert_array_equal(found, [[0, 0, 1, 5], [11, 11, 255, 1]])


@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_rare_classes_weigh_more_with_class_balance(balance):
    logits = np.random.default_rng(10).normal(size=(2, 1, 5, 3))
    labels = np.array([[[0, 0, 0, 1, 255]], [[0, 0, 0, 0, 2]]])  # 7, 1 and 1 pixels.
    found = losses.cross_entropy(
        logits=tf.constant(logits),
        labels=tf.constant(labels, tf.int32),
        ignore_label=255,
        class_balance=balance,
    )
    rare = 9 / (2 + 7 ** (1 - balance))
    weights = np.array([rare * 7**-balance, rare, rare])
    nats = -special.log_softmax(logits, axis=-1)
    expected = [
        sum(weights[y] * nats[i, 0, j, y] for j, y in enumerate(row) if y < 255)
        for i, row in enumerate(labels[:, 0])
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def _divergence(samples, labels):
    return float(
        losses.mode_divergence(
            probabilities=tf.one_hot(samples, 24, dtype=tf.float64),
            labels=tf.constant(labels, tf.int32),
            ignore_label=255,
            epsilon=1e-12,
        )
    )


def test_mode_divergence_of_whole_flips_is_that_of_the_mode_counts():
    rng = np.random.default_rng(11)
    labels = np.tile([*_OLD, 2, 255], (3, 1, 1))
    modes = rng.choice(32, (3, 5), p=cityscapes_labels.MODE_PROBABILITIES)
    samples = np.array(
        [
            [cityscapes_labels.switch_table(mode)[street] for mode in row]
            for row, street in zip(modes, labels)
        ]
    )
    samples[..., -1] = rng.choice(_NEW, (3, 5, 1))  # On ignored pixels: anything.
    counts = np.bincount(modes.ravel(), minlength=32)
    pairs = (counts * (counts - 1) / cityscapes_labels.MODE_PROBABILITIES).sum()
    expected = pairs / (15 * 14) - 1
    assert _divergence(samples, labels) == pytest.approx(expected, rel=1e-6)
    # It is the same if nobody has a switch that does not matter, cars and car 2.
    without = labels.copy()
    without[without == 13] = 2
    bits = (modes.ravel()[:, None] >> np.arange(5)) % 2
    p = np.array([8, 7, 6, 5, 4]) / 17
    u = np.delete((bits - p) / np.sqrt(p * (1 - p)), 2, axis=1)
    pairs = np.prod(1 + u[:, None] * u, axis=-1)
    expected = pairs[~np.eye(15, dtype=bool)].mean() - 1
    assert _divergence(samples, without) == pytest.approx(expected, rel=1e-6)


def test_mode_divergence_counts_samples_by_their_weights():
    # A sample of weight 2/3 and one of 1/3 are three samples, two of them the same, but
    # for the pair of these two.
    labels = np.tile(_OLD, (2, 1, 1))
    samples = np.array([[_OLD, _NEW], [_NEW, _OLD]])[:, :, None]
    weights = np.array([[2 / 3, 1 / 3], [0.5, 0.5]])
    found = losses.mode_divergence(
        probabilities=tf.one_hot(samples, 24, dtype=tf.float64),
        labels=tf.constant(labels, tf.int32),
        epsilon=1e-12,
        sample_weights=tf.constant(weights),
    )
    bits, w = np.array([0, 31, 31, 0]), weights.ravel()
    modes = cityscapes_labels.MODE_PROBABILITIES
    pairs = np.where(bits[:, None] == bits, 1 / modes[bits], 0.0)
    shares = w[:, None] * w * ~np.eye(4, dtype=bool)
    expected = (shares * pairs).sum() / shares.sum() - 1
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_mode_divergence_is_zero_on_average_for_samples_of_the_truth():
    rng = np.random.default_rng(12)
    labels = np.tile(_OLD, (8, 1, 1))
    found = []
    for _ in range(200):
        flips = rng.random((8, 4, 1, 5)) < np.array([8, 7, 6, 5, 4]) / 17
        found.append(_divergence(np.where(flips, _NEW, labels[:, None]), labels))
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(len(found))
    assert _divergence(np.repeat(labels[:, None], 4, axis=1), labels) > 5


def test_mode_divergence_of_soft_roads_by_hand():
    probabilities = np.zeros([1, 2, 1, 1, 24])
    probabilities[0, 0, 0, 0, [0, 23]] = 0.7, 0.3
    probabilities[0, 1, 0, 0, [0, 23, 5]] = 0.2, 0.3, 0.5
    settings = {"labels": tf.zeros([1, 1, 1], tf.int32), "epsilon": 1e-12}
    p = 4 / 17
    for sharpness, shares in ((1, (0.3, 0.6)), (2, (9 / 58, 9 / 13))):
        found = losses.mode_divergence(
            probabilities=tf.constant(probabilities), sharpness=sharpness, **settings
        )
        expected = (shares[0] - p) * (shares[1] - p) / (p * (1 - p))
        assert float(found) == pytest.approx(expected, rel=1e-6)
    for loss in (losses.mode_divergence, losses.undecided_switches):
        alone = loss(probabilities=tf.constant(probabilities[:, :1]), **settings)
        assert float(alone) == 0.0  # A single sample has no pair.


@pytest.mark.parametrize("weights", [None, [[0.25, 0.75], [0.5, 0.5]]])
def test_undecided_switches_lack_the_variance_of_whole_flips(weights):
    # Roads are in both images, sidewalks in one, the others in none.
    labels = np.array([[[0, 1]], [[0, 2]]])
    roads = np.array([[0.0, 0.3], [0.6, 1.0]])  # The part that each sample flips.
    sidewalks = np.array([0.2, 0.9])
    probabilities = np.zeros([2, 2, 1, 2, 24])
    probabilities[:, :, 0, 0, 0], probabilities[:, :, 0, 0, 23] = 1 - roads, roads
    probabilities[0, :, 0, 1, 1], probabilities[0, :, 0, 1, 19] = (
        1 - sidewalks,
        sidewalks,
    )
    probabilities[1, :, 0, 1, 2] = 1.0
    found = losses.undecided_switches(
        probabilities=tf.constant(probabilities),
        labels=tf.constant(labels, tf.int32),
        epsilon=1e-12,
        sharpness=1.0,
        sample_weights=None if weights is None else tf.constant(weights, tf.float64),
    )
    w = np.full([2, 2], 0.5) if weights is None else np.array(weights)
    expected = 0.0
    for p, flips, own in ((4 / 17, roads, w), (8 / 17, sidewalks, w[0])):
        f, own = flips.ravel(), own.ravel()
        shares = own[:, None] * own * ~np.eye(len(f), dtype=bool)
        variance = (shares * (f[:, None] - f) ** 2 / 2).sum() / shares.sum()
        expected += (1 - variance / (p * (1 - p))) ** 2
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_whole_flips_are_decided_and_equal_parts_are_not():
    rng = np.random.default_rng(14)
    p = np.array([8, 7, 6, 5, 4]) / 17
    labels = tf.constant(np.tile(_OLD, (500, 1, 1)), tf.int32)
    flips = rng.random((500, 1, 1, 5)) < p
    whole = tf.one_hot(np.where(flips, _NEW, _OLD), 24, dtype=tf.float64)
    settings = {"labels": labels, "epsilon": 1e-12, "sharpness": 1.0}
    found = losses.undecided_switches(probabilities=whole, **settings)
    assert float(found) < 0.1
    parts = (1 - p)[:, None] * tf.one_hot(_OLD, 24, dtype=tf.float64)
    parts += p[:, None] * tf.one_hot(_NEW, 24, dtype=tf.float64)
    equal = {"probabilities": tf.tile(parts[None, None, None], [500, 1, 1, 1, 1])}
    found = losses.undecided_switches(**equal, **settings)
    assert float(found) == pytest.approx(5.0)
    assert float(losses.mode_divergence(**equal, **settings)) == pytest.approx(0.0)


@pytest.mark.parametrize("loss", [losses.mode_divergence, losses.undecided_switches])
def test_gradients_of_losses_on_flips_are_the_finite_differences(loss):
    rng = np.random.default_rng(13)
    labels = tf.constant([[[0, 1, 255]], [[13, 1, 23]]])
    logits = tf.constant(rng.normal(size=(2, 2, 1, 3, 24)))

    def divergence(logits):
        return loss(
            probabilities=tf.nn.softmax(logits), labels=labels, ignore_label=255
        )

    theoretical, numerical = tf.test.compute_gradient(divergence, [logits], delta=1e-5)
    assert np.abs(theoretical[0]).max() > 0.01
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-6)


def _drawn(mean, stddev, number):
    noise = np.random.default_rng(5).normal(size=(number, *np.shape(mean)))
    return tf.constant(np.array(mean) + np.array(stddev) * noise, tf.float32)


def test_monte_carlo_kl_of_one_component_is_the_analytic_one():
    one = tfd.MixtureSameFamily(
        tfd.Categorical(logits=tf.zeros([1, 1])),
        _gaussian([P[0]], [P[1]]),  # batch [1, 1]
    )
    z = _drawn(*Q, 50_000)
    found = losses.monte_carlo_kl(posterior=_gaussian(*Q), prior=one, z=z)
    np.testing.assert_allclose(found, _closed_form_kl(*Q, *P).sum(-1), rtol=0.02)


def test_monte_carlo_kl_against_a_mixture_is_the_integral():
    weights, means, stddevs = [0.3, 0.7], [[-1.0], [2.0]], [[0.5], [1.5]]
    prior = tfd.MixtureSameFamily(
        tfd.Categorical(probs=[weights]), _gaussian([means], [stddevs])
    )
    z = _drawn([[0.5]], [[0.8]], 50_000)
    found = losses.monte_carlo_kl(
        posterior=_gaussian([[0.5]], [[0.8]]), prior=prior, z=z
    )
    grid = np.linspace(-6, 8, 20_001)
    q = stats.norm.pdf(grid, 0.5, 0.8)
    p = sum(
        w * stats.norm.pdf(grid, m[0], s[0]) for w, m, s in zip(weights, means, stddevs)
    )
    expected = np.sum(q * np.log(q / p)) * (grid[1] - grid[0])
    np.testing.assert_allclose(found, [expected], rtol=0.02)


@pytest.mark.parametrize("overlap", ["product", "min"])
@pytest.mark.parametrize("num_samples", [1, 4, 5])
def test_energy_distance_with_weights_is_the_exact_one(num_samples, overlap):
    rng = np.random.default_rng(6)
    samples = _maps(rng, (6, num_samples, 5, 4))
    graders = _maps(rng, (6, 4, 5, 4))
    weights = rng.dirichlet(np.ones(num_samples), 6)
    exact = [
        ged.energy_distance(s, y, sample_weights=w)
        for s, y, w in zip(samples, graders, weights)
    ]
    given = tf.constant(weights, tf.float32)
    result = _hard(samples, graders, overlap=overlap, sample_weights=given)
    np.testing.assert_allclose(result, exact, atol=1e-5)


def test_mixture_nats_is_minus_log_of_the_mean_likelihood():
    likelihoods = np.array([[0.5, 0.1, 0.3], [1e-300, 2e-300, 3e-300]])
    found = losses.mixture_nats(tf.constant(-np.log(likelihoods)))
    np.testing.assert_allclose(found, -np.log(likelihoods.mean(1)), rtol=1e-9)


def test_greedy_coupling_takes_the_cheapest_pairs_first():
    costs = tf.constant([[[0.1, 0.2, 0.3], [0.5, 0.6, 0.25], [0.9, 0.8, 0.7]]])
    weights = tf.constant([[0.4, 0.4, 0.2]])
    found = losses.greedy_coupling(costs, weights, tf.constant(0.5)).numpy()
    # Sample 0 takes all of grader 0 and has room for .1 of grader 1. Sample 1 takes
    # grader 2 first, then .3 of grader 1.
    expected = [[0.4, 0.1, 0.0], [0.0, 0.3, 0.2], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    nearest = losses.greedy_coupling(costs, weights, tf.constant(1.0)).numpy()
    expected = [[0.4, 0.4, 0.0], [0.0, 0.0, 0.2], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(nearest[0], expected, atol=1e-6)


@pytest.mark.parametrize("capacity", [0.5, 0.7, 1.0])
def test_greedy_coupling_gives_away_what_the_graders_have(capacity):
    rng = np.random.default_rng(8)
    costs = rng.random((50, 5, 4)).astype(np.float32)
    weights = rng.dirichlet(np.ones(4), 50).astype(np.float32)
    found = losses.greedy_coupling(tf.constant(costs), tf.constant(weights), capacity)
    np.testing.assert_allclose(np.sum(found, axis=1), weights, atol=1e-5)
    assert np.sum(found, axis=2).max() <= capacity + 1e-5
    assert np.min(found) >= 0


def test_nats_of_samples_and_graders_are_means_over_the_pixels_that_count():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(2, 3, 4, 4, 3)).astype(np.float32)
    labels = rng.integers(0, 3, (2, 2, 4, 4)).astype(np.int32)
    labels[0, 1, :2] = 255
    labels[1, 0] = 255  # Nothing counts.
    found = losses.grader_nats(
        logits=tf.constant(logits), labels=tf.constant(labels), ignore_label=255
    )
    log_p = special.log_softmax(logits, axis=-1)
    for b, s, g in np.ndindex(2, 3, 2):
        kept = labels[b, g] != 255
        chosen = [-log_p[b, s, i, j, labels[b, g, i, j]] for i, j in np.argwhere(kept)]
        expected = np.mean(chosen) if chosen else 0.0
        assert float(found[b, s, g]) == pytest.approx(expected, rel=1e-5)


def test_presence_error_by_hand():
    # Sample 1 marks a pixel with probability .8 or .3, sample 2 at most with .1.
    foreground = np.array([[[[0.8, 0.3]], [[0.1, 0.05]]]], np.float32)
    probabilities = np.stack([1 - foreground, foreground], axis=-1)
    labels = np.array([[[[0, 1]], [[0, 0]], [[1, 1]], [[0, 0]]]], np.int32)
    settings = {"probabilities": probabilities, "labels": labels}
    found = losses.presence_error(**settings)
    np.testing.assert_allclose(found, [(0.45 - 0.5) ** 2], rtol=1e-5)
    weighted = losses.presence_error(
        **settings, sample_weights=np.array([[0.25, 0.75]])
    )
    np.testing.assert_allclose(weighted, [(0.275 - 0.5) ** 2], rtol=1e-5)
    mask = np.array([[True, False, True, True]])
    masked = losses.presence_error(**settings, grader_mask=mask)
    np.testing.assert_allclose(masked, [(0.45 - 2 / 3) ** 2], rtol=1e-5)
    labels[0, 1, 0, 0] = 255  # Only the second pixel counts.
    ignored = losses.presence_error(**settings, ignore_label=255)
    np.testing.assert_allclose(ignored, [(0.175 - 0.5) ** 2], rtol=1e-5)
