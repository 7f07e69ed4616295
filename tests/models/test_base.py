"""What all models share: the objective with the energy distance, and the step."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny
from helpers.goldens import GOLDENS

from tf_probunet import models, seeds
from tf_probunet.models import losses
from tf_probunet.models.base import SegmentationModel, grader_maps

SIZE, BATCH, GRADERS = 8, 2, 3
NAMED = {golden.name: golden for golden in GOLDENS}


def _batch():
    """The graders mark a part of the bright half each; one of them marks nothing."""
    columns = tf.range(SIZE)[None, None, None] < tf.constant([0, 2, 4])[:, None, None]
    labels = tf.broadcast_to(tf.cast(columns, tf.int32), [BATCH, GRADERS, SIZE, SIZE])
    noise = tf.random.stateless_uniform([BATCH, SIZE, SIZE, 1], [1, 1])
    bright = tf.cast(labels[:, -1, ..., None], tf.float32)
    return {"image": 0.5 * noise + bright, "labels": labels}


def _distance(logits, batch, weights=None):
    return losses.energy_distance(
        probabilities=tf.nn.softmax(logits),
        labels=grader_maps(batch),
        sample_weights=weights,
    )


def _samples(model, image, count, seed):
    """Returns the samples that a user gets, or weighted ones, and their weights."""
    shared = model.shared(image)
    weights = model.energy_weights(shared)
    if weights is None:
        return model.sample(image, count, seed), None
    return model.energy_samples(shared, seed), weights


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_loss_has_the_energy_distance_of_the_samples_a_user_gets(golden):
    batch = _batch()
    model = golden.on_energy(energy_samples=2, elbo_weight=0.5).build(1)
    terms = model.objective(batch, seeds.root(3))
    own = golden.build(1).objective(batch, seeds.root(3))
    count = 1 if golden.name == "unet" else 2
    seed = seeds.fold_in(seeds.root(3), 1)
    samples, weights = _samples(model, batch["image"], count, seed)
    distance = float(tf.reduce_mean(_distance(samples, batch, weights)))
    assert float(terms["energy_distance"]) == pytest.approx(distance, rel=1e-4)
    expected = 0.5 * float(own["loss"]) + 100.0 * distance
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-4)
    assert set(terms) == {*own, "energy_distance"}


def test_all_heads_are_samples_whatever_the_number():
    golden = NAMED["m_heads"].on_energy(energy_samples=1)
    batch, model = _batch(), golden.build(1)
    distance = tf.reduce_mean(
        _distance(model.sample(batch["image"], 2, seeds.root(3)), batch)
    )
    terms = model.objective(batch, seeds.root(3))
    assert float(terms["energy_distance"]) == pytest.approx(float(distance), rel=1e-4)


def _streets():
    """Two streets with road, sidewalk, car and an ignored corner, two flips of each."""
    columns = tf.constant([0, 0, 0, 1, 1, 13, 2, 255])
    labels = tf.broadcast_to(columns, [BATCH, SIZE, SIZE])
    noise = tf.random.stateless_uniform([BATCH, SIZE, SIZE, 1], [1, 1])
    image = 0.2 * noise + tf.cast(labels[..., None] % 16, tf.float32) / 16.0
    flipped = tf.where(labels == 1, 19, labels)
    return {"image": image, "labels": tf.stack([flipped, labels], axis=1)}


SWITCHED = {"switched": True, "num_classes": 24, "ignore_label": 255}


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_loss_has_the_switched_distance_and_segmentation_of_samples(golden):
    batch = _streets()
    own = {**SWITCHED, "energy_samples": 2, "elbo_weight": 0.5}
    energy = {"energy_epsilon": 0.5, "segmentation_weight": 0.25, "class_balance": 0.5}
    energy["mode_weight"] = 3.0
    model = golden.on_energy(**own, **energy).build(1)
    terms = model.objective(batch, seeds.root(3))
    count = 1 if golden.name == "unet" else 2
    seed = seeds.fold_in(seeds.root(3), 1)
    samples, weights = _samples(model, batch["image"], count, seed)
    labels = batch["labels"][:, 1]
    distance = losses.switched_energy_distance(
        probabilities=tf.nn.softmax(samples),
        labels=labels,
        ignore_label=255,
        epsilon=0.5,
        sample_weights=weights,
    )
    nats = losses.cross_entropy(
        logits=losses.unswitched_logits(samples),
        labels=tf.repeat(labels[:, None], samples.shape[1], axis=1),
        ignore_label=255,
        class_balance=0.5,
    )
    flips = {
        "probabilities": tf.nn.softmax(samples),
        "labels": labels,
        "ignore_label": 255,
        "sample_weights": weights,
    }
    expected = {
        "energy_distance": float(tf.reduce_mean(distance)),
        "mode_divergence": float(losses.mode_divergence(**flips)),
        "undecided": float(losses.undecided_switches(**flips)),
        "segmentation": float(tf.reduce_mean(nats)),
    }
    for name, value in expected.items():
        assert float(terms[name]) == pytest.approx(value, rel=1e-4), name
    has_nats = golden.name not in ("mixture", "hpu_net")  # A sum over all pixels.
    own.update(energy_weight=0.0, class_balance=0.5 if has_nats else 0.0)
    alone = golden.on_energy(**own)
    own_loss = float(alone.build(1).objective(batch, seeds.root(3))["loss"])
    total = own_loss + 100 * expected["energy_distance"]
    total += 3.0 * (expected["mode_divergence"] + expected["undecided"])
    total += 0.25 * expected["segmentation"]
    assert float(terms["loss"]) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("name", ["prob_unet", "unet", "m_heads", "dropout_unet"])
def test_with_pooled_input_the_loss_is_that_of_a_smaller_image(name):
    settings = {"name": name, "num_heads": 2, "fixed_prior": True, "dropout_rate": 0.0}
    settings.update(SWITCHED, segmentation_weight=1.0, mode_weight=1.0)
    settings.update(energy_weight=1.0, energy_samples=2, energy_epsilon=1.0)
    if name == "prob_unet":
        settings["elbo_weight"] = 0.0  # The posterior net sees the whole image.
    batch = _streets()
    small = {
        "image": tf.nn.avg_pool2d(batch["image"], 2, 2, "VALID"),
        "labels": batch["labels"][..., 1::2, 1::2],
    }
    pooled, plain = (
        models.build(tiny.network(input_pooling=pooling, **settings), 1)
        for pooling in (2, 1)
    )
    found = pooled.objective(batch, seeds.root(3))
    if name == "dropout_unet":  # It has no cheaper way: all pixels count.
        logits = pooled.sample(batch["image"], 1, seeds.root(0))
        nats = pooled.grader_cross_entropy(logits, batch)
        own = found["loss"] - found["segmentation"] - found["energy_distance"]
        own -= found["mode_divergence"] + found["undecided"]
        assert float(own) == pytest.approx(float(tf.reduce_mean(nats)), rel=1e-4)
        return
    expected = plain.objective(small, seeds.root(3))
    # Each small pixel stands for four.
    times = dict.fromkeys(["energy_distance", "mode_divergence", "undecided"], 1.0)
    assert set(found) == set(expected) > {"segmentation", *times}
    for term in set(found) - {"loss"}:
        value = times.get(term, 4.0) * float(expected[term])
        assert float(found[term]) == pytest.approx(value, rel=1e-4), term
    samples = pooled.sample(batch["image"], 2, seeds.root(0))
    assert samples.shape == (BATCH, 2, SIZE, SIZE, 24)


@pytest.mark.parametrize("pooling", [1, 2])
def test_strided_samples_are_scored_at_one_pixel_of_each_square(pooling):
    settings = {**SWITCHED, "fixed_prior": True, "elbo_weight": 0.0}
    settings.update(segmentation_weight=1.0, mode_weight=1.0, class_balance=0.5)
    settings.update(energy_weight=1.0, energy_samples=2, input_pooling=pooling)
    plain, strided = (
        models.build(tiny.network(energy_stride=stride, **settings), 1)
        for stride in (1, 2)
    )
    batch, step = _streets(), pooling * 2
    found = strided.objective(batch, seeds.root(3))
    seed = seeds.fold_in(seeds.root(3), 1)
    logits = plain.energy_samples(plain.shared(batch["image"]), seed)[:, :, 1::2, 1::2]
    labels = batch["labels"][:, 0, step // 2 :: step, step // 2 :: step]
    maps = {"probabilities": tf.nn.softmax(logits), "labels": labels}
    maps["ignore_label"] = plain.config.ignore_label
    nats = losses.cross_entropy(
        logits=losses.unswitched_logits(logits),
        labels=tf.repeat(losses.unswitched(labels)[:, None], 2, axis=1),
        ignore_label=plain.config.ignore_label,
        class_balance=0.5,
    )
    expected = {
        "energy_distance": tf.reduce_mean(losses.switched_energy_distance(**maps)),
        "mode_divergence": losses.mode_divergence(**maps),
        "undecided": losses.undecided_switches(**maps),
        "segmentation": step**2 * tf.reduce_mean(nats),  # A pixel stands for a square.
    }
    for term, value in expected.items():
        assert float(found[term]) == pytest.approx(float(value), rel=1e-4), term


def test_stratified_latents_are_spread_over_the_prior():
    golden = NAMED["prob_unet"].on_energy(energy_noise="stratified", energy_samples=4)
    model = golden.build(1)
    prior = model.prior(_batch()["image"])
    drawn = []
    model._logits = lambda features, z: drawn.append(z)  # [B, S, L]
    model.energy_samples((_batch()["image"], prior), seeds.root(3))
    noise = (drawn[0] - prior.mean()[:, None]) / prior.stddev()[:, None]
    strata = tf.floor(4.0 * tf.math.sigmoid(1.702 * noise))  # About the normal's cdf.
    np.testing.assert_array_equal(
        np.sort(strata, axis=1), np.broadcast_to([[[0], [1], [2], [3]]], noise.shape)
    )


def _trained(golden, steps):
    model = golden.build(1)
    optimizer = tf.keras.optimizers.Adam(0.02)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer)
    step = model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(_batch()).repeat(steps))
    distances = []
    for _ in range(steps):
        model.reset_metrics()
        distances.append(float(step(batches)["energy_distance"]))
    return model, distances


def test_without_the_elbo_all_but_the_posterior_learn():
    golden = NAMED["prob_unet"].on_energy(
        elbo_weight=0.0, energy_noise="stratified", energy_overlap="min"
    )
    before = golden.build(1)
    model, distances = _trained(golden, 40)
    assert model.term_names == [
        "loss",
        "energy_distance",
        "weight_decay",
        "gradient_norm",
    ]
    # Graders mark 0, 2 and 4 columns. The best single outline, of 2, has
    # 2 (1 + 0 + 1/2) / 3 - 2 (1 + 1 + 1/2) / 9 = .44.
    assert np.mean(distances[-5:]) < 0.3 < 0.6 < distances[0]
    posterior = {id(v) for v in model.posterior_net.trainable_variables}
    assert posterior
    for old, new in zip(before.trainable_variables, model.trainable_variables):
        changed = np.any(old.numpy() != new.numpy())
        assert changed == (id(new) not in posterior), new.name


def test_the_posterior_can_learn_alone():
    golden = NAMED["prob_unet"].on_energy(energy_weight=0.0, learned="posterior")
    before = golden.build(1)
    seed = seeds.root(3)
    model = golden.build(1)
    model.compile(tf.keras.optimizers.Adam(0.01))
    step = model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(_batch()).repeat(30))
    for _ in range(30):
        step(batches)
    assert (
        model.objective(_batch(), seed)["loss"]
        < before.objective(_batch(), seed)["loss"]
    )
    posterior = {id(v) for v in model.posterior_net.trainable_variables}
    for old, new in zip(before.trainable_variables, model.trainable_variables):
        changed = np.any(old.numpy() != new.numpy())
        assert changed == (id(new) in posterior), new.name


@pytest.mark.parametrize("name", ["unet", "dropout_unet", "m_heads"])
def test_several_graders_count_like_as_many_batches(name, batch):
    model = models.build(tiny.network(name=name, num_heads=3), 3)
    graders = tf.stack([batch["labels"], 1 - batch["labels"]], axis=1)
    together = model.objective({**batch, "labels": graders}, seeds.root(0))
    alone = [
        model.objective({**batch, "labels": graders[:, g]}, seeds.root(0))
        for g in range(2)
    ]
    for term, value in together.items():
        expected = np.mean([terms[term] for terms in alone])
        assert float(value) == pytest.approx(expected, rel=1e-5)


def test_a_shift_moves_the_probability_from_which_on_a_pixel_is_foreground():
    model = models.build(tiny.network(name="m_heads", num_heads=3), 0)
    image = tf.random.stateless_uniform([1, 16, 16, 1], [1, 2])
    before = model.sample(image, 3, seeds.root(0)).numpy()
    with model.foreground_shifted(np.log(3.0)):
        shifted = model.sample(image, 3, seeds.root(0)).numpy()
    np.testing.assert_allclose(shifted[..., 0], before[..., 0], atol=1e-6)
    probabilities = tf.nn.softmax(before).numpy()[..., 1]
    np.testing.assert_array_equal(shifted.argmax(-1), probabilities > 0.25)
    after = model.sample(image, 3, seeds.root(0)).numpy()
    np.testing.assert_array_equal(after, before)


def _gradient_step(batch, **settings):
    """Returns the change of all weights in a step of rate 1, and the logged norm."""
    model = models.build(tiny.network(), 1)
    model.compile(tf.keras.optimizers.SGD(1.0), **settings)
    before = [variable.numpy() for variable in model.trainable_variables]
    norm = float(model.train_step(batch)["gradient_norm"])
    after = [variable.numpy() for variable in model.trainable_variables]
    return np.concatenate([(a - b).ravel() for a, b in zip(after, before)]), norm


def test_long_gradients_are_cut_and_short_ones_are_not(batch):
    free, norm = _gradient_step(batch)
    assert np.linalg.norm(free) == pytest.approx(norm, rel=1e-3)
    cut, logged = _gradient_step(batch, gradient_clip_norm=norm / 4)
    assert logged == pytest.approx(norm, rel=1e-6)  # The log has the norm before.
    np.testing.assert_allclose(cut, free / 4, atol=1e-5 * norm)
    same, _ = _gradient_step(batch, gradient_clip_norm=norm * 4)
    np.testing.assert_allclose(same, free, atol=1e-6 * norm)


class _Misnamed(SegmentationModel):
    """A model whose layer has the word "kernel" in its name."""

    def __init__(self, config):
        super().__init__(config)
        self.conv = tf.keras.layers.Conv2D(2, 1, name="kernel_map")

    def fit_terms(self, shared, batch, seed, kl_weight):
        return {"loss": 0.0 * tf.reduce_sum(self.conv(shared))}

    def sample(self, image, num_samples, seed):
        return tf.repeat(self.conv(image)[:, None], num_samples, axis=1)


def test_kernels_decay_and_biases_do_not_whatever_their_names(batch):
    model = _Misnamed(tiny.network())
    model.initialize()
    model.compile(tf.keras.optimizers.SGD(1.0), weight_decay=0.25)
    model.conv.kernel.assign(tf.fill([1, 1, 1, 2], 4.0))
    model.conv.bias.assign([2.0, 2.0])
    terms = model.train_step(batch)
    assert float(terms["weight_decay"]) == pytest.approx(0.25 * (16 + 16) / 2)
    np.testing.assert_allclose(model.conv.kernel, np.full([1, 1, 1, 2], 3.0))
    np.testing.assert_array_equal(model.conv.bias, [2.0, 2.0])


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_every_convolution_decays(golden):
    model = golden.build(1)
    model.compile(tf.keras.optimizers.SGD(0.0), weight_decay=2.0)
    kernels = [v for v in model.trainable_variables if v.name.endswith("kernel:0")]
    biases = [v for v in model.trainable_variables if v.name.endswith("bias:0")]
    assert len(kernels) == len(biases)
    others = len(model.trainable_variables) - len(kernels) - len(biases)
    assert others == (2 if golden.name == "mixture" else 0)  # The experts' Gaussians.
    expected = sum(float(tf.reduce_sum(kernel**2)) for kernel in kernels)
    found = model._weight_decay_loss(model.trainable_variables)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def _without_noise(monkeypatch):
    """Makes latents equal to the mean of their distribution.

    Otherwise, the noise of an image depends on the shape of its batch.
    """

    @tf.autograph.experimental.do_not_convert
    def zeros(shape, seed, *args, **kwargs):
        return tf.zeros(shape)

    monkeypatch.setattr(tf.random, "stateless_normal", zeros)


def _loss_and_gradients(model, batch):
    with tf.GradientTape() as tape:
        terms = model.objective(batch, seeds.root(3))
    gradients = tape.gradient(terms["loss"], model.learned_variables)
    return {name: float(term) for name, term in terms.items()}, gradients


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_label_maps_that_pad_a_batch_have_no_part_in_it(golden, monkeypatch):
    _without_noise(monkeypatch)
    model = golden.on_energy(energy_samples=2).build(1, calm=True)
    batch = _batch()
    first, second = batch["labels"][0], batch["labels"][1, 1:2]
    # Three copies of one grader are as good as that grader alone.
    repeated = {**batch, "labels": tf.stack([first, tf.repeat(second, 3, axis=0)])}
    padding = tf.ones_like(batch["labels"][1, :2])
    padded = {
        "image": batch["image"],
        "labels": tf.stack([first, tf.concat([padding, second], axis=0)]),
        "grader_mask": tf.constant([[True] * 3, [False, False, True]]),
    }
    expected, expected_gradients = _loss_and_gradients(model, repeated)
    terms, gradients = _loss_and_gradients(model, padded)
    assert terms == pytest.approx(expected, rel=1e-4, abs=1e-6)
    for found, wanted in zip(gradients, expected_gradients):
        scale = float(tf.reduce_max(tf.abs(wanted))) + 1e-6
        np.testing.assert_allclose(found, wanted, atol=1e-4 * scale)


@pytest.mark.parametrize("name", ["prob_unet", "unet", "m_heads", "hpu_net_elbo"])
def test_padding_does_not_count_when_classes_are_weighed(name, monkeypatch):
    _without_noise(monkeypatch)
    golden = NAMED[name].on_energy(energy_weight=0.0, class_balance=1.0)
    model = golden.build(1, calm=True)
    batch = _batch()
    labels, counted = batch["labels"], tf.ones(batch["labels"].shape[:2], tf.bool)
    padded = {
        **batch,
        "labels": tf.concat([labels, tf.zeros_like(labels)], axis=1),
        "grader_mask": tf.concat([counted, ~counted], axis=1),
    }
    expected, _ = _loss_and_gradients(model, batch)
    terms, _ = _loss_and_gradients(model, padded)
    assert terms == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["prob_unet", "m_heads"])
def test_every_image_counts_the_same_whatever_its_number_of_graders(name, monkeypatch):
    _without_noise(monkeypatch)
    model, batch = NAMED[name].on_energy(energy_samples=2).build(1), _batch()
    labels = batch["labels"] * tf.constant([1, 0])[:, None, None, None]
    padded = {
        "image": batch["image"],
        "labels": labels,
        "grader_mask": tf.constant([[True, True, False], [True, False, False]]),
    }
    alone = [
        model.objective(
            {"image": batch["image"][i : i + 1], "labels": labels[i : i + 1, :count]},
            seeds.root(3),
        )
        for i, count in enumerate([2, 1])
    ]
    expected = {name: float(alone[0][name] + alone[1][name]) / 2 for name in alone[0]}
    found = {k: float(v) for k, v in model.objective(padded, seeds.root(3)).items()}
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
