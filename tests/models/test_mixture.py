"""The mixture of stochastic experts: samples, weights and its loss, in numbers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny
from scipy import special, stats

from tf_probunet import models, noise, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.evaluation.metrics import ged

CONFIG = tiny.network(name="mixture", num_experts=3, expert_samples=2)


@pytest.fixture(scope="module")
def model():
    return models.build(CONFIG, seed=5)


@pytest.fixture(scope="module")
def batch():
    image = tf.random.stateless_uniform([2, 4, 4, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([2, 4, 4, 4], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}


def _dense(layer, x):
    kernel, bias = (weight.numpy() for weight in layer.weights)
    return x @ kernel[0, 0] + bias


def test_a_latent_shifts_and_scales_the_features(model, batch):
    shared = model.shared(batch["image"])
    z = np.random.default_rng(0).normal(size=(2, 3, 2)).astype(np.float32)
    found = model.decode(shared.features, z).numpy()
    parts = []
    for first, last in model.modulation:
        parts.append(_dense(last, np.maximum(_dense(first, z), 0)))  # [B, S, F]
    shift, scale = (part[:, :, None, None] for part in parts)
    features = (shared.features.numpy()[:, None] + shift) * (1 + scale)
    for s in range(3):
        expected = model.head(features[:, s])[:, 0]
        np.testing.assert_allclose(found[:, s], expected, atol=1e-5)


def test_the_gate_sees_the_pooled_bottleneck(model, batch):
    bottleneck = model.unet.encoder(batch["image"])[-1].numpy().mean((1, 2))
    hidden = np.maximum(_dense(model.gate[0], bottleneck), 0)
    expected = special.softmax(_dense(model.gate[1], hidden), axis=1)
    np.testing.assert_allclose(
        model.shared(batch["image"]).weights, expected, rtol=1e-4
    )


def test_samples_come_from_experts_by_their_weights(model, batch):
    shared, count = model.shared(batch["image"]), 8
    means, stddevs = (values.numpy() for values in model.experts())
    image_seeds = seeds.per_image(seeds.root(3), 2)
    drawn = noise.independent(image_seeds, count, 3).numpy()
    samples = model.sample(batch["image"], count, seeds.root(3))
    for b in range(2):
        ends = np.cumsum(shared.weights[b])
        expert = np.searchsorted(ends[:-1], stats.norm.cdf(drawn[b, :, 2]))
        z = means[expert] + stddevs[expert] * drawn[b, :, :2]
        expected = model.decode(shared.features[b : b + 1], z[None])[0]
        np.testing.assert_allclose(samples[b], expected, atol=1e-5)


def test_weighted_samples_are_the_experts_in_turn(model, batch):
    shared = model.shared(batch["image"])
    logits, weights = model.weighted(batch["image"], 5, seeds.root(4))
    gate = shared.weights.numpy()
    # Experts 0 and 1 have two of the five samples each.
    expected = gate[:, [0, 1, 2, 0, 1]] / [2, 2, 1, 2, 2]
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(np.sum(weights, axis=1), 1, rtol=1e-5)
    means, stddevs = (values.numpy()[[0, 1, 2, 0, 1]] for values in model.experts())
    drawn = noise.independent(seeds.per_image(seeds.root(4), 2), 5, 2)
    expected = model.decode(shared.features, means + stddevs * drawn)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 3"):
        model.weighted(batch["image"], 2, seeds.root(4))


@pytest.mark.parametrize("nats", [0.0, 0.25])
def test_loss_is_the_cost_of_the_nearest_samples_and_the_kl_of_the_gate(batch, nats):
    config = dataclasses.replace(CONFIG, beta=0.5, expert_nats=nats)
    other = models.build(config, seed=5)
    shared, image_seeds = (
        other.shared(batch["image"]),
        seeds.per_image(seeds.root(1), 2),
    )
    means, stddevs = other.experts()
    z = [
        means[k]
        + stddevs[k] * noise.independent(seeds.fold_in_each(image_seeds, k), 2, 2)
        for k in range(3)
    ]
    logits = other.decode(shared.features, tf.concat(z, axis=1))
    p = tf.nn.softmax(logits).numpy()[..., 1]  # [B, 6, H, W]
    y = batch["labels"].numpy().copy()
    y[1, 0] = 0  # An empty grader.
    terms = other.objective({**batch, "labels": tf.constant(y)}, seeds.root(1))
    costs, kls = [], []
    for b in range(2):
        both = np.einsum("shw,ghw->sg", p[b], y[b])
        union = p[b].sum((1, 2))[:, None] + y[b].sum((1, 2)) - both
        distances = 1 - (both + 1) / (union + 1)
        for s in range(6):
            truth = np.where(y[b], p[b, s], 1 - p[b, s])  # [G, H, W]
            distances[s] -= nats * np.log(truth).mean((1, 2))
        nearest = distances.argmin(0)
        costs.append(distances.min(0).mean())
        share = np.bincount(nearest // 2, minlength=3) / 4
        kls.append(special.rel_entr(share, shared.weights[b]).sum())
    assert float(terms["transport"]) == pytest.approx(np.mean(costs), rel=1e-3)
    assert float(terms["kl"]) == pytest.approx(np.mean(kls), rel=1e-3, abs=1e-5)
    expected = np.mean(costs) + 0.5 * np.mean(kls)
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-3)


def test_energy_distance_has_the_gates_weights(batch):
    config = dataclasses.replace(CONFIG, energy_weight=1.0, elbo_weight=0.0)
    config = dataclasses.replace(config, energy_samples=5, energy_epsilon=1e-6)
    model = models.build(config, seed=5)
    with tf.GradientTape() as tape:
        terms = model.objective(batch, seeds.root(1))
    shared = model.shared(batch["image"])
    weights = model.energy_weights(shared).numpy()  # Five samples become six.
    np.testing.assert_allclose(weights[:, ::2] * 2, shared.weights, rtol=1e-5)
    assert np.abs(tape.gradient(terms["loss"], model.gate[1].bias)).max() > 0


def test_weights_are_those_of_the_weighted_metric():
    samples = np.zeros((2, 2, 2), np.uint8)
    samples[1] = 1
    graders = np.ones((1, 2, 2), np.uint8)
    # 2 w_0 d - 2 w_0 w_1 d with d = 1.
    found = ged.energy_distance(samples, graders, sample_weights=np.array([0.25, 0.75]))
    assert found == pytest.approx(2 * 0.25 - 2 * 0.25 * 0.75)


def test_defaults_are_those_of_its_authors():
    config = models.with_defaults(ModelConfig(name="mixture"))
    assert (config.num_experts, config.latent_dim, config.beta) == (4, 1, 1.0)
