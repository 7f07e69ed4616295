"""Chooses the samples of a set among many candidates, so that it represents them."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet import noise, seeds

# Sets of two samples and more are chosen among at least so many candidates.
CANDIDATES = 128


def candidates_each(num_samples: int | tf.Tensor) -> tf.Tensor:
    """Returns how many candidates there are for each sample of a set.

    It is 1, so that nothing is chosen, for a single sample and for large sets.
    """
    return tf.where(tf.equal(num_samples, 1), 1, -(-CANDIDATES // num_samples))


def choose(
    marked: tf.Tensor, num_samples: int | tf.Tensor, image_seeds: tf.Tensor
) -> tf.Tensor:
    """Chooses a set that is spread over the candidates' areas.

    The candidates are put in S groups of neighbours by their area, and each group gives
    one sample. In sets of fewer than `noise.RANDOM_FROM` samples, it is the candidate
    with the largest mean IoU with its group. Larger sets take the same place, drawn at
    random, in each group. Every candidate is then chosen with the same probability, so
    that frequencies are unbiased.

    Args:
        marked: [B, C, P] float32, 1 where a candidate marks a pixel, otherwise 0. C is
            a multiple of S.
        num_samples: S.
        image_seeds: int32[B, 2].

    Returns:
        The places of the chosen candidates, in random order: [B, S] int32.
    """
    places, order = (seeds.fold_in_each(image_seeds, i) for i in (3, 4))
    areas = tf.reduce_sum(marked, axis=2)
    each = tf.shape(marked)[1] // num_samples
    by_area = tf.argsort(areas, axis=1, stable=True)
    groups = tf.reshape(by_area, [-1, num_samples, each])  # [B, S, G]

    def central() -> tf.Tensor:
        members = tf.gather(marked, groups, axis=1, batch_dims=1)  # [B, S, G, P]
        shared = tf.matmul(members, members, transpose_b=True)  # [B, S, G, G]
        sizes = tf.gather(areas, groups, axis=1, batch_dims=1)
        union = sizes[..., None] + sizes[..., None, :] - shared
        both_empty = tf.cast(tf.equal(union, 0), union.dtype)
        overlap = tf.math.divide_no_nan(shared, union) + both_empty
        return tf.argmax(tf.reduce_sum(overlap, axis=-1), axis=-1, output_type=tf.int32)

    def same_place() -> tf.Tensor:
        drawn = seeds.uniform(places, [1]) * tf.cast(each, tf.float32)
        return tf.repeat(tf.cast(drawn, tf.int32), num_samples, axis=1)

    place = tf.cond(num_samples < noise.RANDOM_FROM, central, same_place)  # [B, S]
    chosen = tf.gather(groups, place, axis=2, batch_dims=2)
    shuffled = tf.argsort(seeds.uniform(order, [num_samples]), axis=1)
    return tf.gather(chosen, shuffled, axis=1, batch_dims=1)
