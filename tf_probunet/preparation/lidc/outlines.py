"""Turns a radiologist's outlines on a slice into a mask of pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tf_probunet.preparation.lidc.annotation_xml import Region

Points = Sequence["tuple[int, int]"]


def slice_mask(regions: Iterable[Region], shape: tuple[int, int]) -> np.ndarray:
    """Draws all of a radiologist's outlines of a lesion on one slice.

    Areas are joined first, and then holes are cut out, whatever their order. The pixels
    of an outline never belong to the lesion, neither those of an area nor those of a
    hole, because the radiologists were asked to draw just outside the lesion.

    Args:
        regions: the outlines, all on the same slice.
        shape: (rows, columns) of the slice.

    Returns:
        The mask, [rows, columns] bool.

    Raises:
        ValueError: an outline leaves the slice.
    """
    mask = np.zeros(shape, bool)
    ordered = sorted(regions, key=lambda region: not region.inclusion)
    for region in ordered:
        inside, boundary, window = fill(region.points, shape)
        if region.inclusion:
            mask[window] |= inside
        else:
            mask[window] &= ~(inside | boundary)
    return mask


def fill(
    points: Points, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, tuple[slice, slice]]:
    """Finds the pixels inside and on a polygon, in exact integer arithmetic.

    An open polygon is closed. A pixel is inside if the polygon winds around its centre
    and no edge passes through its centre. An outline that is drawn twice encloses the
    same pixels.

    Args:
        points: (column, row) of the vertices.
        shape: (rows, columns) of the slice.

    Returns:
        inside: [h, w] bool, pixels enclosed by the outline, without the outline.
        boundary: [h, w] bool, pixels whose centre is on the outline.
        window: the place of the two arrays in the slice, the outline's bounding box.

    Raises:
        ValueError: a vertex is outside the slice.
    """
    vertices = np.asarray(points, np.int64)  # [N, 2], column and row
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    if (low < 0).any() or high[0] >= shape[1] or high[1] >= shape[0]:
        raise ValueError(
            f"outline spans columns {low[0]} to {high[0]} and rows {low[1]} to "
            f"{high[1]}, expected it inside {shape[1]} columns x {shape[0]} rows"
        )
    width, height = high - low + 1
    starts = vertices - low
    ends = np.roll(starts, -1, axis=0)
    boundary = _boundary(starts, ends, (height, width))
    inside = (_winding_number(starts, ends, (height, width)) != 0) & ~boundary
    window = (slice(low[1], high[1] + 1), slice(low[0], high[0] + 1))
    return inside, boundary, window


def _winding_number(
    starts: np.ndarray, ends: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Counts how often the polygon winds around each pixel centre, [h, w] int."""
    winding = np.zeros(shape, np.int64)
    columns = np.arange(shape[1])
    heights = ends[:, 1] - starts[:, 1]
    # Nearly all edges lead to a neighbouring pixel; handle those of a row at once.
    single = np.abs(heights) == 1
    (x0, y0), (x1, y1) = starts[single].T, ends[single].T
    rows, signs = np.minimum(y0, y1), y1 - y0
    reach = x0 + (rows - y0) * (x1 - x0) * signs
    np.add.at(winding, rows, signs[:, None] * (columns < reach[:, None]))
    others = ~single & (heights != 0)
    for (x0, y0), (x1, y1) in zip(starts[others].tolist(), ends[others].tolist()):
        sign = 1 if y1 > y0 else -1
        rows = np.arange(min(y0, y1), max(y0, y1))  # half open: no edge counts twice
        # Left of the edge, seen as going downwards: x < x0 + (rows-y0)(x1-x0)/(y1-y0).
        left = (columns - x0) * abs(y1 - y0) < ((rows[:, None] - y0) * (x1 - x0) * sign)
        winding[rows] += sign * left
    return winding


def _boundary(
    starts: np.ndarray, ends: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Marks the pixel centres that edges pass through, [h, w] bool."""
    boundary = np.zeros(shape, bool)
    boundary[starts[:, 1], starts[:, 0]] = True
    # An edge passes through centres between its ends only if its steps share a divisor.
    long = np.gcd(*(ends - starts).T) > 1
    for (x0, y0), (x1, y1) in zip(starts[long].tolist(), ends[long].tolist()):
        steps = math.gcd(x1 - x0, y1 - y0)
        fractions = np.arange(steps)
        boundary[
            y0 + fractions * ((y1 - y0) // steps),
            x0 + fractions * ((x1 - x0) // steps),
        ] = True
    return boundary
