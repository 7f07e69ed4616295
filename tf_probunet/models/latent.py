"""Networks that map an image, or an image and its labels, to Gaussians."""

from __future__ import annotations

from typing import Union

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tf_probunet import noise as noise_lib
from tf_probunet.config import ModelConfig
from tf_probunet.models.blocks import Encoder, Initializers

# A mixture has a `tfd.Categorical` and a `tfd.MultivariateNormalDiag`, batch [B, K].
Latents = Union[tfd.MultivariateNormalDiag, tfd.MixtureSameFamily]

# Standard deviations stay between exp(-7) and exp(7), so the KL divergence can't
# overflow in float32.
_MAX_LOG_STDDEV = 7.0


class GaussianEncoder(tf.keras.layers.Layer):
    """The U-Net's encoder, followed by global average pooling and a 1x1 convolution.

    The prior (Eq. 1) and the posterior (Eq. 3) are such networks. With
    `latent_pooling`, the encoder sees the input at a lower resolution.
    """

    def __init__(
        self,
        config: ModelConfig,
        latent_dim: int,
        init: Initializers,
        name: str,
        num_outputs: int | None = None,
    ):
        super().__init__(name=name)
        self._pool = tf.keras.layers.AveragePooling2D(config.latent_pooling)
        self._encoder = Encoder(config, init, "encoder")
        self._parameters = init.conv(
            num_outputs or 2 * latent_dim, 1, activation=None, name="parameters"
        )

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Maps [B, H, W, C] to mean and log standard deviation, each [B, L]."""
        mean, raw = tf.split(self._outputs(x), 2, axis=-1)
        return mean, bounded(raw)

    def _outputs(self, x: tf.Tensor) -> tf.Tensor:
        features = self._encoder(self._pool(x))[-1]
        x = tf.reduce_mean(features, axis=[1, 2], keepdims=True)
        return tf.cast(self._parameters(x)[:, 0, 0], tf.float32)


class MixtureEncoder(GaussianEncoder):
    """The same network for a mixture of Gaussians with weights that it computes."""

    def __init__(
        self,
        config: ModelConfig,
        latent_dim: int,
        components: int,
        init: Initializers,
        name: str,
    ):
        num_outputs = components * (2 * latent_dim + 1)
        super().__init__(config, latent_dim, init, name, num_outputs)
        self._sizes = [components * latent_dim] * 2 + [components]
        self._shape = [-1, components, latent_dim]

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Maps [B, H, W, C] to the components and the logarithms of their weights.

        Returns:
            Means and log standard deviations, each [B, K, L], and log weights [B, K].
        """
        mean, raw, logits = tf.split(self._outputs(x), self._sizes, axis=-1)
        mean, raw = (tf.reshape(part, self._shape) for part in (mean, raw))
        return mean, bounded(raw), logits


def gaussian(mean: tf.Tensor, log_stddev: tf.Tensor) -> tfd.MultivariateNormalDiag:
    """Returns the axis-aligned Gaussian with this mean and log standard deviation."""
    return tfd.MultivariateNormalDiag(loc=mean, scale_diag=tf.exp(log_stddev))


def mixture(
    mean: tf.Tensor, log_stddev: tf.Tensor, logits: tf.Tensor
) -> tfd.MixtureSameFamily:
    """Returns the mixture of the Gaussians [B, K, L] with log weights [B, K]."""
    return tfd.MixtureSameFamily(
        tfd.Categorical(logits=logits), gaussian(mean, log_stddev)
    )


def is_mixture(distribution: Latents) -> bool:
    """Whether the distribution is a mixture."""
    return isinstance(distribution, tfd.MixtureSameFamily)


def mixture_weights(distribution: tfd.MixtureSameFamily) -> tf.Tensor:
    """Returns the weights of a mixture's components, [B, K]."""
    return tf.nn.softmax(distribution.mixture_distribution.logits)


def noise_dimensions(distribution: Latents) -> int:
    """Returns the number D of normal numbers that one latent is made of."""
    return int(distribution.event_shape[0]) + is_mixture(distribution)


def from_noise(distribution: Latents, noise: tf.Tensor) -> tf.Tensor:
    """Turns standard normal noise into latents of the distribution.

    The last number of the noise chooses the component of a mixture.

    Args:
        distribution: batch [B].
        noise: [B, S, D], with D from `noise_dimensions`.

    Returns:
        [B, S, L].
    """
    if not is_mixture(distribution):
        mean, stddev = distribution.mean(), distribution.stddev()
        return mean[:, None] + stddev[:, None] * noise
    parts = distribution.components_distribution
    weights = mixture_weights(distribution)
    return noise_lib.of_mixture(noise, weights, parts.mean(), parts.stddev())


def centre(distribution: Latents) -> tf.Tensor:
    """Returns the mean [B, L], that of the heaviest component for a mixture.

    The mean of a whole mixture may be a latent that it never draws.
    """
    if not is_mixture(distribution):
        return distribution.mean()
    heaviest = tf.argmax(distribution.mixture_distribution.logits, axis=-1)
    means = distribution.components_distribution.mean()
    return tf.gather(means, heaviest, axis=1, batch_dims=1)


def repeat(distribution: Latents, times: int) -> Latents:
    """Repeats each distribution of the batch [B]: [B times]."""
    if is_mixture(distribution):
        logits = distribution.mixture_distribution.logits
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=tf.repeat(logits, times, axis=0)),
            repeat(distribution.components_distribution, times),
        )
    return tfd.MultivariateNormalDiag(
        tf.repeat(distribution.mean(), times, axis=0),
        tf.repeat(distribution.stddev(), times, axis=0),
    )


def bounded(raw: tf.Tensor) -> tf.Tensor:
    """Limits a log standard deviation smoothly to (-7, 7). Near 0 it hardly changes."""
    return _MAX_LOG_STDDEV * tf.tanh(raw / _MAX_LOG_STDDEV)
