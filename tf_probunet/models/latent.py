"""Networks that map an image, or an image and its labels, to a Gaussian."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tf_probunet.config import ModelConfig
from tf_probunet.models.blocks import Encoder, Initializers

# Standard deviations stay between exp(-7) and exp(7), so the KL divergence can't
# overflow in float32.
_MAX_LOG_STDDEV = 7.0


class GaussianEncoder(tf.keras.layers.Layer):
    """The U-Net's encoder, followed by global average pooling and a 1x1 convolution.

    The prior (Eq. 1) and the posterior (Eq. 3) are such networks. With
    `latent_pooling`, the encoder sees the input at a lower resolution.
    """

    def __init__(
        self, config: ModelConfig, latent_dim: int, init: Initializers, name: str
    ):
        super().__init__(name=name)
        self._pool = tf.keras.layers.AveragePooling2D(config.latent_pooling)
        self._encoder = Encoder(config, init, "encoder")
        self._parameters = init.conv(
            2 * latent_dim, 1, activation=None, name="parameters"
        )

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps [B, H, W, C] to mean and log standard deviation, each [B, L]."""
        features = self._encoder(self._pool(x))[-1]
        x = tf.reduce_mean(features, axis=[1, 2], keepdims=True)
        parameters = tf.cast(self._parameters(x)[:, 0, 0], tf.float32)  # [B, 2L]
        mean, raw = tf.split(parameters, 2, axis=-1)
        return mean, bounded(raw)


def gaussian(mean: tf.Tensor, log_stddev: tf.Tensor) -> tfd.MultivariateNormalDiag:
    """Returns the axis-aligned Gaussian with this mean and log standard deviation."""
    return tfd.MultivariateNormalDiag(loc=mean, scale_diag=tf.exp(log_stddev))


def bounded(raw: tf.Tensor) -> tf.Tensor:
    """Limits a log standard deviation smoothly to (-7, 7). Near 0 it hardly changes."""
    return _MAX_LOG_STDDEV * tf.tanh(raw / _MAX_LOG_STDDEV)
