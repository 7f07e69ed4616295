"""Standard normal noise for sets of samples: independent or stratified."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet import seeds

# The quantile of 1 is infinite, and float32 has no number between 1 - 2^-24 and 1.
_MARGIN = 2.0**-24


def independent(
    image_seeds: tf.Tensor, num_samples: int | tf.Tensor, dimensions: int
) -> tf.Tensor:
    """Draws independent noise.

    Args:
        image_seeds: int32[B, 2].
        num_samples: S, the number of samples per image.
        dimensions: L, the dimensions of the latent space.

    Returns:
        [B, S, L] float32.
    """
    return seeds.normal(image_seeds, [num_samples, dimensions])


def stratified(
    image_seeds: tf.Tensor,
    num_samples: int | tf.Tensor,
    dimensions: int,
    *,
    midpoints: bool = False,
) -> tf.Tensor:
    """Spreads the samples of an image over the normal distribution (Latin hypercube).

    Each dimension is cut into S strata of equal probability, and each stratum contains
    one sample. The assignment is random for every dimension and image. The samples of
    an image represent the distribution better than S independent samples. Each single
    sample, at a random point of its stratum, is still standard normal.

    Args:
        image_seeds: int32[B, 2].
        num_samples: S, the number of samples per image.
        dimensions: L, the dimensions of the latent space.
        midpoints: take the middle of each stratum instead of a random point.

    Returns:
        [B, S, L] float32.
    """
    order, place = (seeds.fold_in_each(image_seeds, i) for i in range(2))
    shape = [num_samples, dimensions]
    stratum = tf.argsort(seeds.uniform(order, shape), axis=1)  # [B, S, L]
    inside = 0.5 if midpoints else seeds.uniform(place, shape)
    share = (tf.cast(stratum, tf.float32) + inside) / tf.cast(num_samples, tf.float32)
    noise = tf.math.ndtri(tf.clip_by_value(share, _MARGIN, 1.0 - _MARGIN))
    return tf.ensure_shape(noise, [None, None, dimensions])


NOISES = {"independent": independent, "stratified": stratified}
