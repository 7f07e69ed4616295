"""The Stochastic Segmentation Network: its distribution and its loss, in numbers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny
from scipy import special

from tf_probunet import models, noise, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models.ssn import LogitNormal

CONFIG = tiny.network(name="ssn", covariance_rank=2, logit_samples=5)


@pytest.fixture(scope="module")
def model():
    return models.build(CONFIG, seed=5)


@pytest.fixture(scope="module")
def batch():
    image = tf.random.stateless_uniform([2, 4, 4, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([2, 3, 4, 4], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}


def test_draws_have_the_mean_and_the_low_rank_covariance(model):
    rng = np.random.default_rng(0)
    mean, stddev = rng.normal(size=(2, 1, 1, 2, 2)).astype(np.float32)
    factor = rng.normal(size=(1, 1, 2, 2, 2)).astype(np.float32)
    image_seeds = seeds.per_image(seeds.root(1), 1)
    common = noise.independent(image_seeds, 40_000, 2)
    normal = LogitNormal(mean, np.abs(stddev), factor)
    drawn = model.draw(normal, common, image_seeds).numpy().reshape(40_000, 4)
    rows = factor.reshape(4, 2)
    covariance = np.diag(stddev.reshape(4) ** 2) + rows @ rows.T
    np.testing.assert_allclose(drawn.mean(0), mean.reshape(4), atol=0.06)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.03 * scale)


def test_loss_is_minus_log_of_the_mean_likelihood_of_the_draws(model, batch):
    seed = seeds.root(3)
    terms = model.objective(batch, seed)
    image_seeds = seeds.per_image(seed, 2)
    common = noise.independent(image_seeds, 5, 2)
    logits = model.draw(model.shared(batch["image"]), common, image_seeds).numpy()
    log_p = special.log_softmax(logits.astype(np.float64), axis=-1)  # [B, M, H, W, K]
    labels = batch["labels"].numpy()
    expected = []
    for b in range(2):
        for g in range(3):
            picked = np.take_along_axis(log_p[b], labels[b, g][None, ..., None], -1)
            nats = picked.sum((1, 2, 3))  # [M]
            expected.append(-special.logsumexp(nats) + np.log(5))
    assert float(terms["loss"]) == pytest.approx(np.mean(expected), rel=1e-5)
    # The mean likelihood is at least 1/M of the best one.
    assert float(terms["loss"]) != pytest.approx(float(terms["cross_entropy"]))


def test_only_the_mean_is_learned_during_the_warm_up(model, batch):
    with tf.GradientTape() as tape:
        terms = model.objective(batch, seeds.root(3), tf.constant(0.9))
    assert float(terms["loss"]) == pytest.approx(
        float(terms["cross_entropy"]), rel=1e-6
    )
    weights = model.covariance_head.trainable_variables
    for gradient in tape.gradient(terms["loss"], weights):
        np.testing.assert_array_equal(gradient, 0.0)


def test_logits_of_the_background_do_not_vary(batch):
    config = dataclasses.replace(CONFIG, background_value=0.25)
    model = models.build(config, seed=5)
    image = tf.where(tf.range(4)[None, :, None, None] < 2, 0.25, batch["image"] + 0.3)
    samples = model.sample(image, 3, seeds.root(0)).numpy()
    mean = model.shared(image).mean.numpy()
    np.testing.assert_array_equal(samples[:, :, :2], np.repeat(mean[:, None, :2], 3, 1))
    assert np.abs(samples[:, :, 2:] - mean[:, None, 2:]).min(axis=(2, 3)).min() > 0


def test_stratified_samples_share_stratified_numbers(model, batch):
    image_seeds = seeds.per_image(seeds.root(2), 2)
    common = noise.draw("stratified", image_seeds, 4, 2)
    expected = model.draw(model.shared(batch["image"]), common, image_seeds)
    found = model.sample(batch["image"], 4, seeds.root(2), "stratified")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_defaults_are_the_papers():
    config = ModelConfig(name="ssn")
    assert (config.covariance_rank, config.logit_samples) == (10, 20)
