"""Resamples images to another pixel size, by a matrix of weights along each axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Shares of pixels that differ by less are equal but for rounding.
_SAME_SHARE = 1e-5


def crop_weights(
    start: int, size: int, scale: float, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the linear interpolation of a crop along one axis as a matrix.

    Args:
        start: index of the crop's first pixel, counted in target pixels. The outer
            edges of target pixel 0 and source pixel 0 coincide.
        size: number of pixels in the crop.
        scale: target pixel size over source pixel size. Above 1 the triangle of
            weights is widened by this factor, so that no source pixel is skipped.
        length: number of source pixels.

    Returns:
        weights: [size, length]. A row sums to 1 if the centre of its target pixel lies
            inside the source, and is 0 otherwise.
        inside: [size] bool, whether the centre lies inside the source.
    """
    centres = (np.arange(start, start + size) + 0.5) * scale - 0.5
    inside = (centres >= -0.5) & (centres <= length - 0.5)
    # The outermost pixel's value continues beyond its centre.
    distances = np.abs(centres.clip(0, length - 1)[:, None] - np.arange(length))
    weights = np.maximum(0.0, 1.0 - distances / max(scale, 1.0))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights * inside[:, None], inside


def linear_weights(size: int, length: int) -> np.ndarray:
    """Returns [size, length]: linear interpolation of a whole axis."""
    return crop_weights(0, size, length / size, length)[0]


def area_weights(size: int, length: int) -> np.ndarray:
    """Returns [size, length]: the share of each old pixel in each new one."""
    edges = np.arange(size + 1)[:, None] * (length / size)
    pixels = np.arange(length)
    shared = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return shared.clip(0) * (size / length)


def resample(
    values: np.ndarray,
    shape: tuple[int, int],
    weights: Callable[[int, int], np.ndarray] = linear_weights,
) -> np.ndarray:
    """Resamples [H, W, C] to [*shape, C]; the outer edges coincide."""
    if values.shape[:2] == tuple(shape):
        return values
    rows, cols = (
        weights(size, length).astype(np.float32)
        for size, length in zip(shape, values.shape[:2])
    )
    # One axis at a time: [h, H] x [H, W, C], then [w, W] x [h, W, C].
    half = np.tensordot(rows, values, axes=(1, 0))
    return np.tensordot(half, cols, axes=(1, 1)).transpose(0, 2, 1)


def resample_labels(labels: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Resamples a label map [H, W] to `shape`; the outer edges coincide.

    The map of each label is interpolated like an image. A pixel gets the label with the
    largest share, of two equal ones the larger label. A label that would vanish keeps
    its strongest pixel.
    """
    if labels.shape == tuple(shape):
        return labels
    best = np.full(shape, -1.0, np.float32)
    result = np.zeros(shape, labels.dtype)
    strongest = {}
    for label in np.unique(labels):
        inside = (labels == label).astype(np.float32)[..., None]
        share = resample(inside, shape)[..., 0]
        strongest[label] = np.unravel_index(share.argmax(), shape)
        wins = share >= best - _SAME_SHARE
        result[wins] = label
        best = np.maximum(best, share)
    for label, place in strongest.items():
        if label and not (result == label).any():
            result[place] = label
    return result
