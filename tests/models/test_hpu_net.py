"""The Hierarchical Probabilistic U-Net: latents, losses and GECO, in numbers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny
from scipy import stats

from tf_probunet import models, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models import losses

CONFIG = tiny.network(
    name="hpu_net",
    num_scales=3,
    num_latent_scales=2,
    latent_dim=None,
    hierarchy_loss="elbo",
)


@pytest.fixture(scope="module")
def model():
    """A model whose prior and posterior differ: at first they hardly do."""
    model = models.build(CONFIG, seed=5)
    for variable in model.trainable_variables:
        if "latents" in variable.name and variable.shape.rank > 1:
            variable.assign(300 * variable)
    return model


@pytest.fixture(scope="module")
def batch():
    image = tf.random.stateless_uniform([2, 8, 8, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([2, 8, 8], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}


def _means(index, mean, log_stddev):
    return mean


def test_finer_latents_depend_on_the_coarser_ones(model, batch):
    skips = model.shared(batch["image"])
    logits, latents = model.decode(skips, _means)
    assert [tuple(part.mean.shape[1:]) for part in latents] == [(2, 2, 1), (4, 4, 1)]

    def moved(index, mean, log_stddev):
        return mean + (index == 0)

    other_logits, other = model.decode(skips, moved)
    np.testing.assert_array_equal(latents[0].mean, other[0].mean)
    assert np.abs(latents[1].mean - other[1].mean).max() > 1e-5
    assert np.abs(logits - other_logits).max() > 1e-5


def test_elbo_is_cross_entropy_and_the_kl_of_all_scales(model, batch):
    seed, noises = seeds.root(3), []

    def draw(index, mean, log_stddev):
        noise = tf.random.stateless_normal(tf.shape(mean), seeds.fold_in(seed, index))
        noises.append(noise)
        return mean + tf.exp(log_stddev) * noise

    posterior = model.posterior(**batch, draw=draw)
    logits, prior = model.decode(
        model.shared(batch["image"]), lambda index, *_: posterior[index].z
    )
    nats = losses.cross_entropy(logits=logits, labels=batch["labels"]).numpy()
    kls = []
    for q, p in zip(posterior, prior):
        m, n, s, t = (
            np.asarray(v) for v in (q.mean, p.mean, q.log_stddev, p.log_stddev)
        )
        kl = t - s + (np.exp(2 * s) + (m - n) ** 2) / (2 * np.exp(2 * t)) - 0.5
        kls.append(kl.sum((1, 2, 3)).mean())
    terms = model.objective(batch, seed)
    found = [float(terms["kl_scale_0"]), float(terms["kl_scale_1"])]
    np.testing.assert_allclose(found, kls, rtol=1e-4)
    expected = nats.mean() + sum(kls)
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-5)


def test_geco_weighs_the_constraint_by_its_multiplier(batch):
    config = dataclasses.replace(CONFIG, hierarchy_loss="geco", hardest_share=1.0)
    model = models.build(config, seed=5)
    model.multiplier.assign(3.0)
    terms = {k: float(v) for k, v in model.objective(batch, seeds.root(3)).items()}
    # All 64 pixels count.
    constraint = terms["cross_entropy"] / 64 - 0.05
    assert terms["constraint"] == pytest.approx(constraint, rel=1e-4)
    expected = 3.0 * 64 * constraint + terms["kl"]
    assert terms["loss"] == pytest.approx(expected, rel=1e-4)


def test_a_step_moves_the_multiplier_and_a_checkpoint_keeps_it(batch, tmp_path):
    config = dataclasses.replace(CONFIG, hierarchy_loss="geco")
    model = models.build(config, seed=5)
    model.compile(tf.keras.optimizers.SGD(0.0))
    data = tf.data.Dataset.from_tensors(batch)
    terms = model.train_step(next(iter(data)))
    average = 0.01 * float(terms["constraint"])
    assert float(model.constraint_average) == pytest.approx(average, rel=1e-4)
    multiplier = np.exp(0.001 * average / 0.05)
    assert float(model.multiplier) == pytest.approx(multiplier, rel=1e-6)
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "ckpt"))
    other = models.build(config, seed=6)
    tf.train.Checkpoint(model=other).read(path).expect_partial()
    assert float(other.multiplier) == float(model.multiplier) != 1.0


def test_samples_draw_each_scale_from_the_prior(model, batch):
    samples = model.sample(batch["image"], 2, seeds.root(4)).numpy()
    image_seeds = seeds.per_image(seeds.root(4), 2)
    skips = model.shared(batch["image"])
    for number in range(2):
        own = seeds.fold_in_each(image_seeds, number)

        def draw(index, mean, log_stddev, own=own):
            shape = [int(n) for n in mean.shape[1:]]
            noise = seeds.normal(seeds.fold_in_each(own, index), shape)
            return mean + tf.exp(log_stddev) * noise

        expected = model.decode(skips, draw)[0]
        np.testing.assert_allclose(samples[:, number], expected, atol=1e-5)
    assert np.abs(samples[:, 0] - samples[:, 1]).max() > 1e-5


def test_hard_pixels_are_drawn_in_proportion_to_their_cross_entropy():
    # Two pixels of four: the probabilities of drawing them follow from their nats.
    nats = np.array([4.0, 2.0, 1.0, 1.0])
    q = np.exp(-nats)
    row = np.stack([np.log(q), np.log1p(-q)], axis=-1)[None, None]  # [1, 1, 4, 2]
    logits = tf.constant(np.repeat(row, 4000, axis=0), tf.float32)
    labels = tf.zeros([4000, 1, 4], tf.int32)
    found, count = losses.hardest_nats(
        logits=logits, labels=labels, share=0.25, seed=seeds.root(1)
    )
    assert float(count) == 1.0
    shares = [np.isclose(found, n, atol=1e-3).mean() for n in (4.0, 2.0, 1.0)]
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.25], atol=0.04)
    everything, count = losses.hardest_nats(
        logits=logits[:1], labels=labels[:1], share=1.0, seed=seeds.root(1)
    )
    np.testing.assert_allclose(everything, [2.0], rtol=1e-5)
    assert float(count) == 4.0


def test_ignored_pixels_are_no_hard_ones():
    logits = tf.constant([[[[0.0, 9.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]])
    labels = tf.constant([[[255, 0, 1, 1]]])
    settings = {"share": 0.25, "seed": seeds.root(2), "ignore_label": 255}
    found, _ = losses.hardest_nats(logits=logits, labels=labels, **settings)
    np.testing.assert_allclose(found, [np.log(2)], rtol=1e-5)


def test_geco_by_hand():
    average, multiplier = losses.geco(
        constraint=tf.constant(0.5),
        average=tf.constant(0.1),
        multiplier=tf.constant(2.0),
        scale=0.05,
    )
    assert float(average) == pytest.approx(0.99 * 0.1 + 0.01 * 0.5)
    assert float(multiplier) == pytest.approx(2 * np.exp(0.001 * 0.104 / 0.05))
    _, least = losses.geco(
        constraint=tf.constant(-1.0),
        average=tf.constant(-100.0),
        multiplier=tf.constant(1e-3),
        scale=0.05,
    )
    assert float(least) == pytest.approx(1e-3)


def test_more_latent_scales_than_scales_are_refused():
    with pytest.raises(ValueError, match="num_latent_scales is 3, expected at most"):
        ModelConfig(name="hpu_net", num_scales=2)
    with pytest.raises(ValueError, match="input_pooling is 2, expected 1 for hpu_net"):
        ModelConfig(name="hpu_net", input_pooling=2)


def test_kl_of_maps_is_that_of_scipy():
    q, p = stats.norm(0.3, 0.5), stats.norm(-0.2, 1.5)
    z = np.linspace(-6, 6, 20_001)
    expected = np.sum(q.pdf(z) * (q.logpdf(z) - p.logpdf(z))) * (z[1] - z[0])
    from tf_probunet.models import latent

    q, p = (
        latent.gaussian(tf.fill([1, 1, 1, 1], m), tf.fill([1, 1, 1, 1], np.log(s)))
        for m, s in (
            (np.float32(0.3), np.float32(0.5)),
            (np.float32(-0.2), np.float32(1.5)),
        )
    )
    found = losses.kl_per_dimension(q, p)
    np.testing.assert_allclose(np.ravel(found), [expected], rtol=1e-4)


def test_the_energy_distance_teaches_all_but_the_posterior(batch):
    config = dataclasses.replace(CONFIG, elbo_weight=0.0, energy_weight=1.0)
    model = models.build(dataclasses.replace(config, energy_samples=2), seed=5)
    learned = model.learned_variables
    with tf.GradientTape() as tape:
        loss = model.objective(batch, seeds.root(1))["loss"]
    for gradient in tape.gradient(loss, learned):
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0
    nets = (model.posterior_encoder, model.posterior_decoder)
    left_out = sum(len(net.trainable_variables) for net in nets)
    assert len(learned) == len(model.trainable_variables) - left_out


def test_prior_and_posterior_start_alike():
    """Residual blocks neither blow up the features nor, by them, the deviations."""
    config = ModelConfig(
        name="hpu_net", base_channels=8, num_scales=4, initializer="he_normal"
    )
    other = models.build(models.with_defaults(config), seed=2)
    image = tf.random.stateless_uniform([2, 16, 16, 1], [4, 4])
    labels = tf.cast(image[..., 0] > 0.5, tf.int32)
    terms = other.objective({"image": image, "labels": labels}, seeds.root(1))
    assert 0 < float(terms["kl"]) < 1.0
    assert float(terms["cross_entropy"]) / 16**2 < 3.0
