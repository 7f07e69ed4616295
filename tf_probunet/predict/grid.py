"""The part of an image that is segmented, at the model's resolution and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_probunet.preparation.lidc_crops import resampling_weights


@dataclasses.dataclass(frozen=True)
class Region:
    """A rectangle of an image's pixels."""

    row: int
    col: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width

    @property
    def slices(self) -> tuple[slice, slice]:
        """To index an array [H, W, ...] with."""
        return (
            slice(self.row, self.row + self.height),
            slice(self.col, self.col + self.width),
        )

    def check_inside(self, shape: tuple[int, int], about: str) -> None:
        """Checks that it lies inside of an image of that height and width.

        Raises:
            ValueError: it does not.
        """
        ends = (self.row + self.height, self.col + self.width)
        if (
            min(self.row, self.col) < 0
            or min(self.shape) < 1
            or any(end > size for end, size in zip(ends, shape))
        ):
            raise ValueError(
                f"{about}: region of rows {self.row} to {ends[0] - 1} and columns "
                f"{self.col} to {ends[1] - 1}, expected one inside of the image's "
                f"{shape[0]}x{shape[1]} pixels"
            )


@dataclasses.dataclass(frozen=True)
class Grid:
    """How a region becomes the model's input.

    Attributes:
        region: of the image.
        shape: its height and width at the model's resolution.
        padded: those with the border that makes them fit the down-samplings.
    """

    region: Region
    shape: tuple[int, int]
    padded: tuple[int, int]

    def to_model(self, pixels: np.ndarray) -> np.ndarray:
        """Cuts [H, W, C] out and resamples it linearly: [*shape, C]."""
        return resample(pixels[self.region.slices], self.shape)

    def pad(self, values: np.ndarray) -> np.ndarray:
        """Mirrors [*shape, C] at the border: [*padded, C]."""
        missing = [
            ((want - have) // 2, (want - have) - (want - have) // 2)
            for want, have in zip(self.padded, self.shape)
        ]
        return np.pad(values, missing + [(0, 0)], mode="symmetric")

    def to_input(self, values: np.ndarray) -> np.ndarray:
        """Crops [*padded, K] and resamples it to the image's pixels in the region."""
        top, left = ((w - h) // 2 for w, h in zip(self.padded, self.shape))
        inner = values[top : top + self.shape[0], left : left + self.shape[1]]
        return resample(inner, self.region.shape)


def plan(
    region: Region,
    *,
    spacing_mm: tuple[float, float] | None,
    target_mm: float | None,
    divisor: int,
    pad: bool,
    about: str,
    shape: tuple[int, int] | None = None,
) -> Grid:
    """Works out the sizes of a region at the model's resolution.

    Args:
        region: of the image.
        spacing_mm: height and width of the image's pixels, if known.
        target_mm: size of the pixels that the model was trained on, if known.
        divisor: the model's sizes are multiples of this.
        pad: whether other sizes may be padded.
        about: the file, for error messages.
        shape: height and width at the model's resolution, where that is fixed.

    Raises:
        ValueError: the size does not fit, and may not be padded.
    """
    if shape is None:
        shape = region.shape
        if spacing_mm is not None and target_mm is not None:
            shape = tuple(
                max(1, round(size * mm / target_mm))
                for size, mm in zip(region.shape, spacing_mm)
            )
    padded = tuple(-(-size // divisor) * divisor for size in shape)
    if padded != tuple(shape) and not pad:
        raise ValueError(_size_message(region, shape, target_mm, divisor, about))
    return Grid(region, tuple(shape), padded)


def region_around(
    center: Sequence[int], size: tuple[int, int], image_shape: tuple[int, int]
) -> Region:
    """Returns the region of a size around a pixel, moved to lie inside of the image.

    It is smaller along an axis where the image itself is.
    """
    height, width = (min(s, n) for s, n in zip(size, image_shape))
    row, col = (
        min(max(c - s // 2, 0), n - s)
        for c, s, n in zip(center, (height, width), image_shape)
    )
    return Region(row, col, height, width)


def resample(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Interpolates [H, W, C] linearly to [*shape, C]; the outer edges coincide.

    Where pixels grow, the triangle of weights is widened so that none is skipped.
    """
    if values.shape[:2] == tuple(shape):
        return values
    rows, cols = (
        resampling_weights(0, size, length / size, length)[0].astype(np.float32)
        for size, length in zip(shape, values.shape[:2])
    )
    # One axis after the other: [h, H] x [H, W, C], then [w, W] x [h, W, C].
    half = np.tensordot(rows, values, axes=(1, 0))
    return np.tensordot(half, cols, axes=(1, 1)).transpose(0, 2, 1)


def _size_message(
    region: Region,
    shape: tuple[int, int],
    target_mm: float | None,
    divisor: int,
    about: str,
) -> str:
    below = [max(divisor, size // divisor * divisor) for size in shape]
    above = [-(-size // divisor) * divisor for size in shape]
    at = f" (after resampling to {target_mm:g} mm)" if shape != region.shape else ""
    sizes = f"{above[0]}x{above[1]}"
    if below != above:
        sizes = f"{below[0]}x{below[1]} or {sizes}"
    return (
        f"{about}: {shape[0]}x{shape[1]} pixels{at}, but the model needs multiples of "
        f"{divisor}, such as {sizes}; give --pad, --center or --region"
    )
