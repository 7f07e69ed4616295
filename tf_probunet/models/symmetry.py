"""Averages a map of features over the eight symmetries of the square."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

# Each one transposes the image or not, and turns either direction round or not.
NUM_SYMMETRIES = 8


def mean(function: Callable[[tf.Tensor], tf.Tensor], image: tf.Tensor) -> tf.Tensor:
    """Returns the mean of what a function makes of an image turned and mirrored.

    Each result is turned back before it is averaged. The symmetries are computed one
    after the other, so they take no more memory than one.

    Args:
        function: maps images [B, H, W, C] of any height and width to [B, H, W, F].
        image: [B, H, W, C].

    Returns:
        [B, H, W, F].
    """

    def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = _turned_back(function(_turned(image, i)), i)
        return i + 1, total + features

    total = function(image)
    _, total = tf.while_loop(
        lambda i, _: i < NUM_SYMMETRIES,
        add,
        (tf.constant(1), total),  # The symmetry 0 changes nothing.
        shape_invariants=(tf.TensorShape([]), total.shape),
        parallel_iterations=1,
    )
    return total / NUM_SYMMETRIES


def _turned(image: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    """Applies the symmetry i to images [B, H, W, C]."""
    return _mirrored(_transposed(image, i), i)


def _turned_back(image: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    """Undoes `_turned`."""
    return _transposed(_mirrored(image, i), i)


def _transposed(image: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.cond(i < 4, lambda: image, lambda: tf.transpose(image, [0, 2, 1, 3]))


def _mirrored(image: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    for axis in (1, 2):
        image = tf.cond(
            i % (2 * axis) < axis,
            lambda image=image: image,
            lambda image=image, axis=axis: tf.reverse(image, [axis]),
        )
    return image
