"""Augmentation: one composed warp per example, for the image and its labels.

Elastic deformation, rotation, shear, scaling, mirroring and the translated crop are
composed into one grid of source positions, so that each image is interpolated once.
This is the only module that uses tensorflow-addons, if it is installed.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_probunet import seeds
from tf_probunet.config import SIZE, AugmentationConfig, sides


def augment(
    *,
    image: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    config: AugmentationConfig,
    crop_size: SIZE,
    outside_label: int,
    crop_jitter_px: int = 0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Warps, crops and recolours one example.

    Args:
        image: [H, W, C] float32 in 0..1. The graph need not know H and W.
        labels: [G, H, W] int32, label maps that move with the image.
        seed: int32[2].
        config: how strong each change is.
        crop_size: side of the result, or its height and width; 0 keeps those of the
            image.
        outside_label: label of pixels that come from beyond the image's edge.
        crop_jitter_px: largest distance between the centres of crop and image; 0 for
            any.

    Returns:
        Image [h, w, C] and labels [G, h, w].

    Raises:
        ValueError: the crop is larger than the image, or the whole image is wanted and
            its size varies.
    """
    size = tuple(image.shape[:2])
    out_size = crop_shape(size, crop_size)
    size = _known(size, image)
    warp_seed, crop_seed, colour_seed = seeds.split(seed, 3)
    offset = _random_offset(size, out_size, crop_jitter_px, crop_seed)
    if config.moves_nothing:
        image, labels = _slice(image, labels, offset, out_size)
    else:
        source = source_positions(warp_seed, config, offset, out_size)
        image = sample_image(image, source)
        labels = sample_labels(labels, source, outside_label)
    return _recolour(image, colour_seed, config), labels


def crop_shape(size: tuple[int | None, int | None], crop_size: SIZE) -> tuple[int, int]:
    """Returns the (height, width) of a crop; a `crop_size` of 0 is the whole image.

    Raises:
        ValueError: the crop does not fit, or it is the whole image and sizes vary.
    """
    (height, width), (crop_height, crop_width) = size, sides(crop_size)
    if height is None or width is None:  # The caller has checked the smallest image.
        if not crop_size:
            raise ValueError("the images differ in size, expected a crop size above 0")
        return crop_height, crop_width
    if not crop_size:
        return height, width
    if crop_height > height or crop_width > width:
        raise ValueError(
            f"a crop of {crop_height}x{crop_width} does not fit into images of "
            f"{height}x{width}"
        )
    return crop_height, crop_width


def _known(size: tuple[int | None, ...], array: tf.Tensor) -> tuple[Any, ...]:
    """Returns the leading sides of an array, as tensors if the graph needs them."""
    if None in size:
        return tuple(tf.unstack(tf.shape(array)[: len(size)]))
    return size


def source_positions(
    seed: tf.Tensor,
    config: AugmentationConfig,
    offset: tf.Tensor,
    out_size: tuple[int, int],
) -> tf.Tensor:
    """Returns where in the image each pixel of the result comes from.

    A pixel p of the result, seen from the crop's centre c, comes from

        offset + c + A (p - c) + t + e(p)

    with the affine map A (rotation, shear, scale, mirror), the shift t and the elastic
    deformation e.

    Returns:
        [h, w, 2] float32: row and column.
    """
    affine_seed, elastic_seed, shift_seed = seeds.split(seed, 3)
    rows, cols = tf.meshgrid(
        tf.range(out_size[0], dtype=tf.float32),
        tf.range(out_size[1], dtype=tf.float32),
        indexing="ij",
    )
    grid = tf.stack([rows, cols], axis=-1)  # [h, w, 2]
    centre = (tf.constant(out_size, tf.float32) - 1.0) / 2.0
    moved = tf.einsum("ij,hwj->hwi", _affine(affine_seed, config), grid - centre)
    source = tf.cast(offset, tf.float32) + centre + moved
    if config.translation_px:
        limit = config.translation_px
        source += tf.random.stateless_uniform([2], shift_seed, -limit, limit)
    if config.elastic_std_px:
        source += _elastic(elastic_seed, config, out_size)
    return source


def sample_image(image: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
    """Samples an image [H, W, C] bilinearly at [h, w, 2]; positions are clamped."""
    height, width = source.shape[:2]
    points = tf.reshape(source, [1, height * width, 2])
    values = _interpolate_bilinear()(image[None], points)  # [1, h w, C]
    return tf.reshape(values, [height, width, image.shape[-1]])


def sample_labels(labels: tf.Tensor, source: tf.Tensor, outside: int) -> tf.Tensor:
    """Samples label maps [G, H, W] at the nearest pixel of [h, w, 2]: [G, h, w]."""
    height, width = _known(labels.shape, labels)[1:]
    nearest = tf.cast(tf.round(source), tf.int32)
    rows, cols = nearest[..., 0], nearest[..., 1]
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    index = tf.clip_by_value(rows, 0, height - 1) * width
    index += tf.clip_by_value(cols, 0, width - 1)  # [h, w]
    flat = tf.reshape(labels, [-1, height * width])
    sampled = tf.gather(flat, index, axis=1)  # [G, h, w]
    return tf.where(inside, sampled, outside)


def _random_offset(
    size: tuple[Any, Any], out_size: tuple[int, int], jitter: int, seed: tf.Tensor
) -> tf.Tensor:
    """Draws the upper left corner of the crop, whole pixels: int32[2]."""
    room = tf.stack(size) - tf.constant(out_size)
    first, last = tf.zeros_like(room), room
    if jitter:
        first = tf.maximum(0, room // 2 - jitter)
        last = tf.minimum(room, room // 2 + jitter)
    uniform = tf.random.stateless_uniform([2], seed)
    return first + tf.cast(uniform * tf.cast(last - first + 1, tf.float32), tf.int32)


def _slice(
    image: tf.Tensor, labels: tf.Tensor, offset: tf.Tensor, size: tuple[int, int]
) -> tuple[tf.Tensor, tf.Tensor]:
    (row, col), (height, width) = tf.unstack(offset), size
    image = image[row : row + height, col : col + width]
    labels = labels[:, row : row + height, col : col + width]
    image = tf.ensure_shape(image, [height, width, image.shape[-1]])
    return image, tf.ensure_shape(labels, [labels.shape[0], height, width])


def _affine(seed: tf.Tensor, config: AugmentationConfig) -> tf.Tensor:
    """Draws the map [2, 2] from the result's (row, column) to the image's."""
    turn, shear_by, scale_by, mirror = tf.unstack(
        tf.random.stateless_uniform([4], seed, -1.0, 1.0)
    )
    angle = turn * math.radians(config.rotation_degrees)
    if config.quarter_turns:
        quarters = tf.random.stateless_uniform(
            [], seeds.fold_in(seed, 1), 0, 4, tf.int32
        )
        angle += tf.cast(quarters, tf.float32) * (math.pi / 2)
    shear = tf.tan(shear_by * math.radians(config.shear_degrees))
    # The map is from the result to the image, so it shrinks to enlarge.
    scale = tf.exp(-scale_by * math.log1p(config.scale))
    flip = tf.where(mirror < 0, -1.0, 1.0) if config.flip else 1.0
    cos, sin = tf.cos(angle), tf.sin(angle)
    rotation = tf.stack([tf.stack([cos, -sin]), tf.stack([sin, cos])])
    shearing = tf.stack([tf.stack([1.0, shear]), tf.stack([0.0, flip])])
    return scale * rotation @ shearing


def _elastic(
    seed: tf.Tensor, config: AugmentationConfig, out_size: tuple[int, int]
) -> tf.Tensor:
    """Draws a smooth displacement [h, w, 2]: random vectors on a coarse grid."""
    spacing = config.elastic_spacing_px
    coarse = [max(2, math.ceil(side / spacing) + 1) for side in out_size]
    vectors = tf.random.stateless_normal([*coarse, 2], seed)
    smooth = tf.image.resize(vectors, out_size, method="bicubic")
    return config.elastic_std_px * smooth


def _recolour(
    image: tf.Tensor, seed: tf.Tensor, config: AugmentationConfig
) -> tf.Tensor:
    """Changes brightness, contrast, saturation and gamma of values in 0..1."""
    factors = tf.random.stateless_uniform([4], seed, -1.0, 1.0)
    brightness, contrast, saturation, gamma = tf.unstack(factors)
    changed = image
    if config.contrast:
        factor = tf.exp(contrast * math.log1p(config.contrast))
        changed = tf.image.adjust_contrast(changed, factor)
    if config.saturation and image.shape[-1] == 3:
        factor = tf.exp(saturation * math.log1p(config.saturation))
        changed = tf.image.adjust_saturation(tf.clip_by_value(changed, 0, 1), factor)
    if config.brightness:
        changed += brightness * config.brightness
    if changed is not image:
        changed = tf.clip_by_value(changed, 0.0, 1.0)
    if config.gamma:
        changed = changed ** tf.exp(gamma * math.log1p(config.gamma))
    return changed


def bilinear(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Samples images [B, H, W, C] at row and column [B, N, 2]: [B, N, C].

    Gives the same as `tensorflow_addons.image.interpolate_bilinear`, for environments
    without it. Positions beyond the edge are clamped to it.
    """
    channels = images.shape[-1]
    height, width = _known(images.shape, images)[1:3]
    last = tf.cast(tf.stack([height - 2, width - 2]), points.dtype)
    corner = tf.clip_by_value(tf.floor(points), 0.0, last)
    weight = tf.cast(tf.clip_by_value(points - corner, 0.0, 1.0), images.dtype)
    down, right = weight[..., :1], weight[..., 1:]  # [B, N, 1]
    index = tf.cast(corner, tf.int32)
    flat = tf.reshape(images, [-1, channels])  # [B H W, C]
    first = index[..., 0] * width + index[..., 1]  # [B, N]
    first += tf.range(tf.shape(images)[0])[:, None] * (height * width)
    upper_left, upper_right, lower_left, lower_right = (
        tf.gather(flat, first + offset) for offset in (0, 1, width, width + 1)
    )
    upper = right * (upper_right - upper_left) + upper_left
    lower = right * (lower_right - lower_left) + lower_left
    return down * (lower - upper) + upper


@functools.lru_cache(maxsize=1)
def _interpolate_bilinear() -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Imports tensorflow-addons, if installed, without its end-of-life notice."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tensorflow_addons.image import interpolate_bilinear
    except ImportError:  # The lane `current` does not have it.
        return bilinear
    return interpolate_bilinear
