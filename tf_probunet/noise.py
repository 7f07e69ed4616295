"""Standard normal noise for sets of samples: independent or stratified."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet import seeds

# Smaller stratified sets take the middle of each stratum instead of a random point.
# `run/bench_noise.py` shows that this is better for few samples, and no better for 16.
# A single sample is a random point too: the middle would always be the same one.
RANDOM_FROM = 16

# The quantile of 1 is infinite, and float32 has no number between 1 - 2^-24 and 1.
_MARGIN = 2.0**-24


def draw(
    sampling: str,
    image_seeds: tf.Tensor,
    num_samples: int | tf.Tensor,
    dimensions: int,
    minor: int | None = None,
) -> tf.Tensor:
    """Draws the noise of a set of samples, for each image from its own seed.

    Args:
        sampling: one of `config.SAMPLINGS`. "stratified" takes midpoints for 2 to
            `RANDOM_FROM` - 1 samples. They are then a quadrature rule: the set
            represents the distribution, but a single sample never comes from its tails.
            Other sets take random points, and each sample is a draw from the
            distribution.
        image_seeds: int32[B, 2].
        num_samples: S, the number of samples per image.
        dimensions: L, the dimensions of the latent space.
        minor: a dimension that matters less. It stays at 0 in sets of midpoints: a few
            samples represent the distribution better without it. In larger stratified
            sets it is crossed with the others.

    Returns:
        [B, S, L] float32.
    """
    if sampling == "independent":
        return independent(image_seeds, num_samples, dimensions)
    midpoints = (1 < num_samples) & (num_samples < RANDOM_FROM)
    drawn = stratified(
        image_seeds, num_samples, dimensions, midpoints=midpoints, crossed=minor
    )
    if minor is None:
        return drawn
    kept = tf.one_hot(minor, dimensions, on_value=0.0, off_value=1.0)
    return tf.where(midpoints, kept * drawn, drawn)


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
    midpoints: bool | tf.Tensor = False,
    crossed: int | None = None,
) -> tf.Tensor:
    """Spreads the samples of an image over the normal distribution (Latin hypercube).

    Each dimension is cut into S strata of equal probability, and each stratum contains
    one sample. The assignment is random for every dimension and image. The samples of
    an image represent the distribution better than S independent samples. Each single
    sample, at a random point of its stratum, is still standard normal.

    A crossed dimension is also spread evenly together with each other one: the plane of
    the two, cut into about sqrt(S) x sqrt(S) cells, has a sample in each cell.

    Args:
        image_seeds: int32[B, 2].
        num_samples: S, the number of samples per image.
        dimensions: L, the dimensions of the latent space.
        midpoints: take the middle of each stratum instead of a random point.
        crossed: the dimension that is crossed with every other one; None for none.

    Returns:
        [B, S, L] float32.
    """
    order, place = (seeds.fold_in_each(image_seeds, i) for i in range(2))
    shape = [num_samples, dimensions]
    if crossed is None:
        stratum = tf.argsort(seeds.uniform(order, shape), axis=1)  # [B, S, L]
    else:
        stratum = _crossed_strata(order, num_samples, dimensions, crossed)
    inside = tf.where(midpoints, 0.5, seeds.uniform(place, shape))
    share = (tf.cast(stratum, tf.float32) + inside) / tf.cast(num_samples, tf.float32)
    noise = tf.math.ndtri(tf.clip_by_value(share, _MARGIN, 1.0 - _MARGIN))
    return tf.ensure_shape(noise, [None, None, dimensions])


def _crossed_strata(
    image_seeds: tf.Tensor, num_samples: int | tf.Tensor, dimensions: int, crossed: int
) -> tf.Tensor:
    """Assigns samples to strata, with one dimension crossed with the others.

    The samples are put in groups of neighbours in the crossed dimension. In each other
    dimension, the samples of a group come from different parts of about sqrt(S) strata.

    Returns:
        [B, S, L] int32.
    """
    levels, ties, order = (seeds.fold_in_each(image_seeds, i) for i in range(3))
    count = tf.cast(num_samples, tf.float32)
    side = tf.cast(tf.math.ceil(tf.sqrt(count)), tf.int32)
    groups = -(-num_samples // side)
    level = tf.argsort(seeds.uniform(levels, [groups, side, dimensions]), axis=2)
    level = tf.reshape(level, [-1, groups * side, dimensions])[:, :num_samples]
    tie = seeds.uniform(ties, [num_samples, dimensions])
    rank = tf.argsort(tf.cast(level, tf.float32) + tie, axis=1)
    stratum = tf.argsort(rank, axis=1)  # The inverse permutation.
    neighbours = tf.range(num_samples)[None, :, None]
    stratum = tf.where(tf.range(dimensions) == crossed, neighbours, stratum)
    shuffled = tf.argsort(seeds.uniform(order, [num_samples]), axis=1)  # [B, S]
    return tf.gather(stratum, shuffled, axis=1, batch_dims=1)


def of_mixture(
    noise: tf.Tensor, weights: tf.Tensor, means: tf.Tensor, stddevs: tf.Tensor
) -> tf.Tensor:
    """Turns noise into draws from mixtures of axis-aligned Gaussians.

    Args:
        noise: [B, S, L + 1] standard normal. The last number chooses the component.
        weights: [B, K] with a sum of 1.
        means: [B, K, L].
        stddevs: [B, K, L].

    Returns:
        [B, S, L].
    """
    share = 0.5 * tf.math.erfc(-noise[..., -1:] / 2.0**0.5)  # [B, S, 1] in 0..1
    ends = tf.cumsum(weights, axis=-1)[:, None, :-1]
    chosen = tf.reduce_sum(tf.cast(share >= ends, tf.int32), axis=-1)  # [B, S]
    mean, stddev = (
        tf.gather(values, chosen, axis=1, batch_dims=1) for values in (means, stddevs)
    )
    return mean + stddev * noise[..., :-1]


NOISES = {"independent": independent, "stratified": stratified}
