"""The latent Gaussians: bounds that keep the KL finite."""

import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from helpers import tiny

from tf_probunet.models import latent
from tf_probunet.models.blocks import Initializers


def test_log_stddev_is_bounded_and_monotone():
    raw = tf.constant([-1e6, -3.0, 0.0, 3.0, 1e6])
    bounded = latent.bounded(raw).numpy()
    assert bounded[0] == -7.0 and bounded[-1] == 7.0
    assert (np.diff(bounded) > 0).all()


def test_small_log_stddevs_stay_as_they_are():
    raw = tf.constant([-0.5, 0.1, 0.5])
    np.testing.assert_allclose(latent.bounded(raw), raw, atol=1e-3)


def test_kl_of_the_most_extreme_gaussians_is_finite():
    narrow = latent.gaussian(tf.zeros([1, 6]), latent.bounded(tf.fill([1, 6], -1e9)))
    wide = latent.gaussian(tf.zeros([1, 6]), latent.bounded(tf.fill([1, 6], 1e9)))
    for pair in ((narrow, wide), (wide, narrow)):
        kl = tfp.distributions.kl_divergence(*pair).numpy()
        assert np.isfinite(kl).all() and kl[0] > 0


def test_gaussian_has_the_stddev_of_its_logarithm():
    distribution = latent.gaussian(
        tf.constant([[1.0]]), tf.constant([[np.log(3.0)]], tf.float32)
    )
    np.testing.assert_allclose(distribution.stddev(), [[3.0]], rtol=1e-6)
    np.testing.assert_allclose(distribution.mean(), [[1.0]])


def test_pooling_makes_the_gaussian_independent_of_where_things_are():
    config = tiny.network()
    encoder = latent.GaussianEncoder(config, 3, Initializers("orthogonal", 0), "prior")
    # Far from the edge a shift by a multiple of the pooling changes no mean.
    image = np.zeros((1, 32, 32, 1), np.float32)
    image[0, 8:12, 8:12] = 1.0
    shifted = np.roll(image, 8, axis=(1, 2))
    for value, moved in zip(encoder(image), encoder(shifted)):
        np.testing.assert_allclose(value, moved, atol=1e-5)


def test_latent_pooling_gives_the_encoder_the_means_of_squares():
    config = tiny.network()
    pooled_config = dataclasses.replace(config, latent_pooling=2)
    init = Initializers("orthogonal", 0)
    plain = latent.GaussianEncoder(config, 3, init, "prior")
    pooled = latent.GaussianEncoder(
        pooled_config, 3, Initializers("orthogonal", 0), "prior"
    )
    image = np.random.default_rng(0).normal(size=(2, 8, 12, 1)).astype(np.float32)
    means = image.reshape(2, 4, 2, 6, 2, 1).mean(axis=(2, 4))
    for expected, found in zip(plain(means), pooled(image)):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (config.size_divisor, pooled_config.size_divisor) == (2, 4)


def _mixture(weights, means, stddevs):
    mean, stddev = (tf.constant(v, tf.float32) for v in (means, stddevs))
    logits = tf.math.log(tf.constant(weights, tf.float32))
    return latent.mixture(mean, tf.math.log(stddev), logits)


# Two images, three components, two dimensions. The weights need no scale.
MIXTURE = (
    [[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]],
    [[[-9, 0], [0, 9], [9, 0]], [[9, 9], [0, -9], [-9, 0]]],
    [[[1, 2], [0.5, 1], [1, 1]], [[1, 1], [2, 0.5], [1, 3]]],
)


def test_latents_of_a_mixture_are_drawn_from_its_components():
    mixture = _mixture(*MIXTURE)
    assert latent.noise_dimensions(mixture) == 3
    noise = tf.random.stateless_normal([2, 20_000, 3], [0, 1])
    z = latent.from_noise(mixture, noise).numpy()
    for b in range(2):
        distances = np.linalg.norm(z[b, :, None] - np.array(MIXTURE[1][b]), axis=-1)
        chosen = distances.argmin(axis=1)
        share = np.bincount(chosen) / len(chosen)
        np.testing.assert_allclose(share, np.array(MIXTURE[0][b]) / 8, atol=0.015)
        for k in range(3):
            part = z[b, chosen == k]
            np.testing.assert_allclose(part.mean(0), MIXTURE[1][b][k], atol=0.15)
            np.testing.assert_allclose(part.std(0), MIXTURE[2][b][k], rtol=0.05)
    # Where the components overlap nothing, the density is that of its component.
    scale = mixture.components_distribution.log_prob(z[0, :1, None])[0]
    expected = np.logaddexp.reduce(np.asarray(scale) + np.log(np.array([1, 2, 5]) / 8))
    np.testing.assert_allclose(mixture.log_prob(z[:, 0])[0], expected, rtol=1e-5)


def test_the_centre_of_a_mixture_is_its_heaviest_component():
    found = latent.centre(_mixture([[1, 2, 5], [4, 3, 2]], *MIXTURE[1:]))
    np.testing.assert_allclose(found, [[9, 0], [9, 9]])


def test_repeated_mixtures_keep_the_order_of_the_batch():
    z = tf.constant([[1.0, 2.0], [-3.0, 0.5]])
    once = _mixture(*MIXTURE).log_prob(z).numpy()
    repeated = latent.repeat(_mixture(*MIXTURE), 3)
    found = repeated.log_prob(tf.repeat(z, 3, axis=0)).numpy()
    np.testing.assert_allclose(found, np.repeat(once, 3), rtol=1e-5)
