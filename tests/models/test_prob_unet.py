"""The Probabilistic U-Net: its objective, sampling and likelihood, in numbers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny
from scipy import special, stats

from tf_probunet import models, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models import f_comb, losses, prob_unet, spread

CONFIG = tiny.network()


@pytest.fixture(scope="module")
def model():
    return models.build(CONFIG, seed=5)


@pytest.fixture(scope="module")
def batch():
    image = tf.random.stateless_uniform([3, 8, 8, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([3, 8, 8], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}


def test_objective_is_cross_entropy_of_a_posterior_draw_plus_beta_kl(batch):
    config = dataclasses.replace(CONFIG, beta=2.5)
    model = models.build(config, seed=5)
    seed = seeds.root(9)
    terms = model.objective(batch, seed)
    posterior, prior = model.posterior(**batch), model.prior(batch["image"])
    z = posterior.mean() + posterior.stddev() * tf.random.stateless_normal([3, 2], seed)
    logits = model.f_comb(model.unet(batch["image"]), z[:, None])[:, 0]
    nats = losses.cross_entropy(logits=logits, labels=batch["labels"])
    kl = np.asarray(losses.kl_per_dimension(posterior, prior)).mean(0)
    np.testing.assert_allclose(terms["cross_entropy"], np.mean(nats), rtol=1e-5)
    np.testing.assert_allclose([terms["kl_0"], terms["kl_1"]], kl, rtol=1e-4)
    np.testing.assert_allclose(terms["kl"], kl.sum(), rtol=1e-4)
    np.testing.assert_allclose(terms["loss"], np.mean(nats) + 2.5 * kl.sum(), rtol=1e-5)


def test_prob_unet_defaults_are_the_papers():
    config = models.with_defaults(ModelConfig())
    assert (config.latent_dim, config.beta) == (6, 1.0)
    assert models.with_defaults(ModelConfig(beta=4.0)).beta == 4.0


def test_posterior_depends_on_labels_and_on_the_image(model, batch):
    image, labels = batch["image"], batch["labels"]
    mean = model.posterior(image=image, labels=labels).mean().numpy()
    other_labels = model.posterior(image=image, labels=1 - labels).mean().numpy()
    other_image = model.posterior(image=1 - image, labels=labels).mean().numpy()
    assert np.abs(mean - other_labels).max() > 1e-4
    assert np.abs(mean - other_image).max() > 1e-4


def test_posterior_ignores_what_is_ignored(batch):
    config = dataclasses.replace(CONFIG, num_classes=3, ignore_label=255)
    model = models.build(config)
    labels = batch["labels"].numpy()
    labels[:, :4] = 255
    inputs = tf.one_hot(labels, 3)
    assert float(tf.reduce_max(inputs[:, :4])) == 0.0
    expected = model.posterior_net(tf.concat([batch["image"], inputs], -1))[0]
    result = model.posterior(image=batch["image"], labels=labels).mean()
    np.testing.assert_allclose(result, expected)


def test_samples_are_decoded_draws_from_the_prior(model, batch):
    per_image = seeds.per_image(seeds.root(3), 3)
    prior = model.prior(batch["image"])
    features = model.features(batch["image"])
    samples = model.sample(batch["image"], 4, seeds.root(3)).numpy()
    for i in range(3):
        noise = tf.random.stateless_normal([4, 2], per_image[i])
        z = prior.mean()[i] + prior.stddev()[i] * noise
        expected = model.f_comb(features[i : i + 1], z[None])[0]
        np.testing.assert_allclose(samples[i], expected, atol=1e-5)


@pytest.mark.parametrize("num_samples, candidates", [(3, 129), (16, 128)])
@pytest.mark.parametrize("compared", [64, 16])
def test_a_stratified_set_is_chosen_among_stratified_latents(
    model, batch, monkeypatch, num_samples, candidates, compared
):
    monkeypatch.setattr(prob_unet, "_MAX_COMPARED_PIXELS", compared)
    prior, features = model.prior(batch["image"]), model.features(batch["image"])
    image_seeds = seeds.per_image(seeds.root(7), 3)
    z = model.sample_latents(prior, candidates, image_seeds, "stratified")
    logits = model.decode(features, z).numpy()
    marked = logits[..., 1] > logits[..., 0]  # [B, C, H, W]
    if compared == 16:
        marked = marked[:, :, 1::2, 1::2]
    assert 0.1 < marked.mean() < 0.9
    flat = marked.reshape(3, candidates, compared).astype(np.float32)
    places = spread.choose(flat, num_samples, image_seeds)
    expected = tf.gather(z, places, axis=1, batch_dims=1)
    found = model.stratified_latents(features, prior, num_samples, image_seeds)
    np.testing.assert_array_equal(found, expected)
    drawn = model.sample(batch["image"], num_samples, image_seeds, "stratified")
    np.testing.assert_allclose(drawn, model.decode(features, found), atol=1e-5)


@pytest.mark.parametrize(
    "changes, num_samples",
    [({}, 1), ({}, 130), ({"num_classes": 3}, 4), ({"injection": "start"}, 4)],
)
def test_where_nothing_is_chosen_the_latents_are_stratified(
    batch, changes, num_samples
):
    model = models.build(dataclasses.replace(CONFIG, **changes), seed=5)
    prior, features = model.prior(batch["image"]), model.features(batch["image"])
    expected = model.sample_latents(prior, num_samples, seeds.root(7), "stratified")
    found = model.stratified_latents(features, prior, num_samples, seeds.root(7))
    np.testing.assert_array_equal(found, expected)


def test_latents_have_the_priors_moments(model, batch):
    prior = model.prior(batch["image"])
    z = model.sample_latents(prior, 20_000, seeds.root(0)).numpy()
    scale = prior.stddev().numpy()
    np.testing.assert_allclose(z.mean(1), prior.mean(), atol=5 * scale.max() / 141)
    np.testing.assert_allclose(z.std(1), scale, rtol=0.03)


def test_an_images_samples_do_not_depend_on_its_batch(model, batch):
    per_image = tf.constant([[1, 2], [3, 4], [5, 6]])
    together = model.sample(batch["image"], 2, per_image).numpy()
    alone = model.sample(batch["image"][1:2], 2, per_image[1:2]).numpy()
    np.testing.assert_allclose(together[1:2], alone, atol=1e-5)


def test_chunks_change_nothing_but_memory(model, batch, monkeypatch):
    features = model.features(batch["image"])
    z = tf.random.stateless_normal([3, 7, 2], [0, 0])
    whole = model.decode(features, z)
    monkeypatch.setattr(f_comb, "_MAX_ACTIVATIONS", 2 * int(tf.size(features)))
    chunked = tf.function(model.decode_in_chunks)(features, z)
    np.testing.assert_allclose(chunked, whole, atol=1e-5)
    assert chunked.shape == whole.shape


def test_log_likelihood_agrees_with_numerical_integration(batch):
    config = dataclasses.replace(CONFIG, latent_dim=1)
    model = models.build(config, seed=2)
    grid = np.linspace(-8, 8, 2001)
    prior = model.prior(batch["image"])
    features = model.features(batch["image"])
    estimate = model.log_likelihood(**batch, num_samples=4000, seed=seeds.root(1))
    for i in range(3):
        z = tf.constant(grid[None, :, None], tf.float32)
        logits = model.f_comb(features[i : i + 1], z)
        labels = tf.repeat(batch["labels"][i : i + 1, None], len(grid), axis=1)
        log_p_y = -losses.cross_entropy(logits=logits, labels=labels).numpy()[0]
        mean, stddev = float(prior.mean()[i, 0]), float(prior.stddev()[i, 0])
        log_joint = log_p_y + stats.norm.logpdf(grid, mean, stddev)
        expected = special.logsumexp(log_joint) + np.log(grid[1] - grid[0])
        assert float(estimate[i]) == pytest.approx(expected, abs=0.02)


def test_reconstruction_decodes_the_posterior(model, batch):
    logits = model.reconstruct(**batch, seed=seeds.root(4))
    z = model.sample_latents(model.posterior(**batch), 1, seeds.root(4))
    expected = model.f_comb(model.features(batch["image"]), z)[:, 0]
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_fixed_prior_is_standard_normal_whatever_the_image(batch):
    model = models.build(dataclasses.replace(CONFIG, fixed_prior=True))
    prior = model.prior(batch["image"])
    np.testing.assert_array_equal(prior.mean(), np.zeros((3, 2)))
    np.testing.assert_array_equal(prior.stddev(), np.ones((3, 2)))
    posterior = model.posterior(**batch)
    mean, stddev = posterior.mean().numpy(), posterior.stddev().numpy()
    # KL to a standard normal: (s^2 + m^2 - 1) / 2 - log s.
    expected = ((stddev**2 + mean**2 - 1) / 2 - np.log(stddev)).sum(1).mean()
    assert float(model.objective(batch, seeds.root(0))["kl"]) == pytest.approx(
        expected, rel=1e-4
    )


def test_a_fixed_prior_has_the_deviation_that_was_asked_for(batch):
    config = dataclasses.replace(CONFIG, fixed_prior=True, prior_stddev=3.0)
    prior = models.build(config).prior(batch["image"])
    np.testing.assert_array_equal(prior.mean(), np.zeros((3, 2)))
    np.testing.assert_allclose(prior.stddev(), np.full((3, 2), 3.0), rtol=1e-6)


def test_blind_posterior_does_not_see_the_image(batch):
    config = dataclasses.replace(CONFIG, posterior_sees_image=False)
    model = models.build(config)
    one = model.posterior(**batch).mean()
    other = model.posterior(image=1 - batch["image"], labels=batch["labels"]).mean()
    np.testing.assert_array_equal(one, other)


def test_early_injection_runs_the_unet_on_image_and_latent(batch):
    model = models.build(dataclasses.replace(CONFIG, injection="start"), seed=1)
    z = tf.random.stateless_normal([3, 2, 2], [0, 0])
    logits = model.decode_in_chunks(model.features(batch["image"]), z).numpy()
    for s in range(2):
        planes = tf.tile(z[:, s, None, None, :], [1, 8, 8, 1])
        features = model.unet(tf.concat([batch["image"], planes], axis=-1))
        np.testing.assert_allclose(
            logits[:, s], model.f_comb(features)[:, 0], atol=1e-5
        )
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 1e-4


def test_several_graders_share_the_unet_but_not_the_posterior(model, batch):
    labels = tf.stack([batch["labels"], 1 - batch["labels"]], axis=1)  # [3, 2, 8, 8]
    seed = seeds.root(9)
    terms = model.objective({"image": batch["image"], "labels": labels}, seed)
    noise = tf.reshape(tf.random.stateless_normal([6, 2], seed), [3, 2, 2])
    prior, features = model.prior(batch["image"]), model.features(batch["image"])
    nats, kls = [], []
    for g in range(2):
        posterior = model.posterior(image=batch["image"], labels=labels[:, g])
        z = posterior.mean() + posterior.stddev() * noise[:, g]
        logits = model.f_comb(features, z[:, None])[:, 0]
        nats.append(losses.cross_entropy(logits=logits, labels=labels[:, g]))
        kls.append(np.asarray(losses.kl_per_dimension(posterior, prior)).sum(-1))
    assert float(terms["cross_entropy"]) == pytest.approx(np.mean(nats), rel=1e-5)
    assert float(terms["kl"]) == pytest.approx(np.mean(kls), rel=1e-4)


MIXTURE = dataclasses.replace(CONFIG, prior_components=3)


def test_a_mixture_prior_has_the_kl_of_posterior_draws(batch):
    config = dataclasses.replace(MIXTURE, beta=2.0, kl_samples=4000)
    model, seed = models.build(config, seed=5), seeds.root(9)
    terms = model.objective(batch, seed)
    prior, posterior = model.prior(batch["image"]), model.posterior(**batch)
    z = posterior.sample(4000, seed=1)  # Other draws than those of the model.
    draws = (posterior.log_prob(z) - prior.log_prob(z)).numpy()
    error = float(draws.mean(1).std()) / 4000**0.5
    assert float(terms["kl"]) == pytest.approx(draws.mean(), abs=8 * error)
    assert float(terms["loss"]) == pytest.approx(
        float(terms["cross_entropy"] + 2 * terms["kl"]), rel=1e-5
    )
    assert "kl_0" not in terms  # The dimensions of a mixture have no KL of their own.


def test_samples_of_a_mixture_prior_are_decoded_draws_of_its_components(batch):
    model = models.build(MIXTURE, seed=5)
    prior, image_seeds = model.prior(batch["image"]), seeds.per_image(seeds.root(3), 3)
    ends = np.cumsum(tf.nn.softmax(prior.mixture_distribution.logits), axis=1)
    parts, samples = (
        prior.components_distribution,
        model.sample(batch["image"], 4, seeds.root(3)),
    )
    features, used = model.features(batch["image"]), set()
    for i in range(3):
        noise = tf.random.stateless_normal([4, 3], image_seeds[i]).numpy()
        chosen = np.searchsorted(ends[i], stats.norm.cdf(noise[:, 2]))
        used |= set(chosen)
        z = parts.mean().numpy()[i, chosen]
        z = z + parts.stddev().numpy()[i, chosen] * noise[:, :2]
        expected = model.f_comb(features[i : i + 1], z[None])[0]
        np.testing.assert_allclose(samples[i], expected, atol=1e-5)
    assert used == {0, 1, 2}


def test_the_energy_distance_teaches_the_weights_of_a_mixture(batch):
    config = dataclasses.replace(
        MIXTURE, energy_samples=7, energy_weight=1.0, elbo_weight=0.0
    )
    model = models.build(config, seed=5)
    shared = model.shared(batch["image"])
    logits, weights = model.energy_samples(shared, seeds.root(1)), None
    weights = model.energy_weights(shared).numpy()
    # Seven samples are rounded up to three for each of the three components.
    assert logits.shape[1] == 9 and weights.shape == (3, 9)
    expected = tf.nn.softmax(shared[1].mixture_distribution.logits).numpy()
    np.testing.assert_allclose(weights.reshape(3, 3, 3).sum(2), expected, rtol=1e-5)
    np.testing.assert_allclose(np.ptp(weights.reshape(3, 3, 3), axis=2), 0, atol=1e-7)
    with tf.GradientTape() as tape:
        loss = model.objective(batch, seeds.root(1))["loss"]
    bias = model.prior_net.trainable_variables[-1]
    assert np.abs(tape.gradient(loss, bias).numpy()[-3:]).min() > 0


def test_features_averaged_over_the_symmetries_of_the_square(model, batch):
    config = dataclasses.replace(CONFIG, average_symmetries=True)
    averaged = models.build(config, seed=5)
    image = np.random.default_rng(0).normal(size=[2, 8, 12, 1]).astype(np.float32)
    expected = []
    for turns in range(4):
        for step in (1, -1):
            turned = np.rot90(image, turns, axes=(1, 2))[:, ::step]
            features = model.unet(turned.copy()).numpy()[:, ::step]
            expected.append(np.rot90(features, -turns, axes=(1, 2)))
    found = averaged.features(image).numpy()
    np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=1e-6)
    assert np.abs(found - expected[0]).max() > 0.01  # The U-Net is not symmetric.
    # What is learned stays the same.
    terms, plain = (m.objective(batch, seeds.root(3)) for m in (averaged, model))
    np.testing.assert_array_equal(terms["loss"], plain["loss"])


def test_outlines_are_drawn_from_the_networks_probabilities(model, batch):
    config = dataclasses.replace(CONFIG, outline_stddev=1.7)
    outlined = models.build(config, seed=5)
    features, prior = outlined.features(batch["image"]), outlined.prior(batch["image"])
    np.testing.assert_array_equal(prior.mean()[:, 2], np.zeros(3))
    np.testing.assert_array_equal(prior.stddev()[:, 2], np.ones(3))
    z = prior.mean()[:, None, :2]
    expected = model.decode(features, z).numpy()
    moved = outlined.decode(features, tf.concat([z, tf.fill([3, 1, 1], 0.5)], -1))
    sharpness = 1 / np.sqrt(1 - 1.7**2 / (np.pi**2 / 3))
    shift = 0.5 * 1.7 * np.array([0, 1])
    np.testing.assert_allclose(moved, sharpness * (expected + shift), rtol=1e-4)
    # At the same latent otherwise, a pixel is marked as often as its probability says.
    number = 2000
    numbers = stats.norm.ppf((np.arange(number) + 0.5) / number).astype(np.float32)
    many = [tf.repeat(z, number, axis=1), np.tile(numbers[:, None], [3, 1, 1])]
    logits = outlined.decode_in_chunks(features, tf.concat(many, -1)).numpy()
    marked = (logits[..., 1] > logits[..., 0]).mean(axis=1)
    probability = special.softmax(expected, axis=-1)[:, 0, ..., 1]
    np.testing.assert_allclose(marked, probability, atol=0.012)
    mean = special.softmax(logits, axis=-1)[..., 1].mean(axis=1)
    np.testing.assert_allclose(mean, probability, atol=0.006)
    # Nothing of it is learned, and the losses see the probabilities as they are.
    assert len(outlined.trainable_variables) == len(model.trainable_variables)
    posterior = outlined.posterior(**batch)
    kl = np.asarray(losses.kl_per_dimension(posterior, prior))
    np.testing.assert_allclose(kl[:, 2], 0.0, atol=1e-6)
    terms = outlined.fit_terms((features, prior), batch, seeds.root(3), 1.0)
    assert "kl_1" in terms and "kl_2" not in terms
    drawn = tf.random.stateless_normal([3, 3], seeds.root(3))
    z = (posterior.mean() + posterior.stddev() * drawn)[:, None, :2]
    nats = losses.cross_entropy(
        logits=model.decode(features, z)[:, 0], labels=batch["labels"]
    )
    np.testing.assert_allclose(terms["cross_entropy"], np.mean(nats), rtol=1e-5)
