"""Stateless seeds, derived from one number and the step, replica and example.

A seed is an int32 tensor of shape [2]. The same seed gives the same numbers, whatever
the number of replicas, workers or threads.
"""

from __future__ import annotations

import tensorflow as tf


def root(seed: int | tf.Tensor) -> tf.Tensor:
    """Returns the int32[2] seed for the integer that a user chose."""
    return fold_in(tf.constant([0x5EED, 0x0A11], tf.int32), seed)


def fold_in(seed: tf.Tensor, data: int | tf.Tensor) -> tf.Tensor:
    """Derives another seed from a seed and an integer.

    Args:
        seed: int32[2].
        data: an integer scalar of any width, for example a step. All of its 64 bits
            count.

    Returns:
        int32[2].
    """
    data = tf.cast(data, tf.int64)
    low = tf.bitcast(data, tf.int32)  # [2]: low and high half
    seed = tf.random.experimental.stateless_fold_in(seed, low[0])
    return tf.random.experimental.stateless_fold_in(seed, low[1])


def split(seed: tf.Tensor, num: int = 2) -> list[tf.Tensor]:
    """Splits a seed into `num` independent ones, each int32[2]."""
    return tf.unstack(tf.random.experimental.stateless_split(seed, num), num)


def for_replica(seed: tf.Tensor) -> tf.Tensor:
    """Derives a seed for the current replica, so that replicas draw differently."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return fold_in(seed, 0)
    return fold_in(seed, context.replica_id_in_sync_group)


def per_image(seed: tf.Tensor, batch_size: int | tf.Tensor) -> tf.Tensor:
    """Returns a seed for each image, int32[B, 2].

    Args:
        seed: int32[2], which is combined with the position in the batch, or
            int32[B, 2], which is returned unchanged.
        batch_size: B.
    """
    if seed.shape.rank == 2:
        return seed
    return tf.map_fn(
        lambda i: fold_in(seed, i),
        tf.range(batch_size),
        fn_output_signature=tf.TensorSpec([2], tf.int32),
    )


def normal(seeds: tf.Tensor, shape: list[int | tf.Tensor]) -> tf.Tensor:
    """Draws standard normal numbers for each image from its own seed.

    Args:
        seeds: int32[B, 2].
        shape: the shape of the numbers of one image.

    Returns:
        [B, *shape] float32.
    """
    static = [n if isinstance(n, int) else None for n in shape]
    return tf.map_fn(
        lambda seed: tf.random.stateless_normal(shape, seed),
        seeds,
        fn_output_signature=tf.TensorSpec(static, tf.float32),
    )


def uniform(seeds: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Draws numbers from [0, 1) for each image from its own seed: [B, *shape]."""
    return tf.map_fn(
        lambda seed: tf.random.stateless_uniform(shape, seed),
        seeds,
        fn_output_signature=tf.float32,
    )


def fold_in_each(seeds: tf.Tensor, data: int | tf.Tensor) -> tf.Tensor:
    """Applies `fold_in` with the same integer to each of the seeds, int32[B, 2]."""
    return tf.map_fn(
        lambda seed: fold_in(seed, data),
        seeds,
        fn_output_signature=tf.TensorSpec([2], tf.int32),
    )
