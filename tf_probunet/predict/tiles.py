"""Overlapping tiles, and the smooth weights that blend them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Tile(NamedTuple):
    """A part of an image.

    Attributes:
        rows: of the image.
        cols: of the image.
        weights: [h, w] above 0, falling towards the sides shared with other tiles.
    """

    rows: slice
    cols: slice
    weights: np.ndarray


def tiles(shape: tuple[int, int], size: int, divisor: int) -> list[Tile]:
    """Covers an image with tiles that overlap by a quarter.

    Args:
        shape: height and width, multiples of `divisor`.
        size: largest height and width of a tile. A shorter axis is not cut.
        divisor: tiles start at multiples of it and have such sizes, so that the
            model's down-samplings fall on the same pixels in all tiles.

    Returns:
        The tiles, row by row. The weights of a single tile are 1.
    """
    rows, cols = (_spans(length, size, divisor) for length in shape)
    return [
        Tile(
            slice(*row),
            slice(*col),
            np.outer(_weights(row, shape[0], size), _weights(col, shape[1], size)),
        )
        for row in rows
        for col in cols
    ]


def _spans(length: int, size: int, divisor: int) -> list[tuple[int, int]]:
    size = max(divisor, size // divisor * divisor)
    if length <= size:
        return [(0, length)]
    most = max(divisor, (size - _overlap(size)) // divisor * divisor)
    number = 1 + -(-(length - size) // most)
    # Spread evenly, to multiples of the divisor.
    last = (length - size) // divisor
    starts = [round(i * last / (number - 1)) * divisor for i in range(number)]
    return [(start, start + size) for start in starts]


def _overlap(size: int) -> int:
    return size // 4


def _weights(span: tuple[int, int], length: int, size: int) -> np.ndarray:
    """Returns weights [span] that are 1 except in the overlaps, where they fall."""
    start, end = span
    weights = np.ones(end - start, np.float32)
    rise = min(_overlap(size), end - start)
    ramp = np.sin(np.pi / 2 * (np.arange(rise) + 0.5) / max(rise, 1)) ** 2
    if start > 0:
        weights[:rise] *= ramp
    if end < length:
        weights[len(weights) - rise :] *= ramp[::-1]
    return weights
