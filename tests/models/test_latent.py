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
