"""Takes a part of an image to the model's resolution, and the results back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_probunet.imaging.resampling import area_weights, linear_weights, resample

# Files may claim any pixel size. No image gets longer sides than this, which is far
# more than fits into memory.
_MAX_SIDE = 2**40


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
        """Checks that it lies inside an image of this height and width.

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
                f"{self.col} to {ends[1] - 1}, expected one inside the image's "
                f"{shape[0]}x{shape[1]} pixels"
            )


@dataclasses.dataclass(frozen=True)
class Grid:
    """How a region becomes the model's input.

    Attributes:
        region: of the image.
        shape: its height and width at the model's resolution.
        padded: height and width of what the network sees, with a border that makes
            them fit its down-samplings.
        part: what the network sees of the region, at the model's resolution. The rest
            is background. None for all of it.
        by_area: whether the model's pixels are means of the image's pixels, as in the
            frames of Cityscapes. Otherwise they are interpolated, as in LIDC.
    """

    region: Region
    shape: tuple[int, int]
    padded: tuple[int, int]
    part: Region | None = None
    by_area: bool = False

    @property
    def resampling_bytes(self) -> int:
        """The memory of the matrices that resample the region."""
        if self.shape == self.region.shape:
            return 0
        sides = zip(self.shape, self.region.shape)
        return 24 * sum(length * size for length, size in sides)

    @property
    def seen(self) -> Region:
        """What the network sees of the region, at the model's resolution."""
        return self.part or Region(0, 0, *self.shape)

    @property
    def seen_in_image(self) -> Region:
        """What the network sees, in the image's own pixels, partial ones included."""
        rows, cols = (
            (first + start * size // length, first - (-(start + side) * size // length))
            for first, size, length, start, side in zip(
                (self.region.row, self.region.col),
                self.region.shape,
                self.shape,
                (self.seen.row, self.seen.col),
                self.seen.shape,
            )
        )
        return Region(rows[0], cols[0], rows[1] - rows[0], cols[1] - cols[0])

    def to_model(self, pixels: np.ndarray) -> np.ndarray:
        """Cuts [H, W, C] out and resamples it: [*shape, C]."""
        weights = area_weights if self.by_area else linear_weights
        return resample(pixels[self.region.slices], self.shape, weights)

    def pad(self, values: np.ndarray) -> np.ndarray:
        """Cuts what is seen out of [*shape, C] and mirrors its border: [*padded, C]."""
        missing = [
            ((want - have) // 2, (want - have) - (want - have) // 2)
            for want, have in zip(self.padded, self.seen.shape)
        ]
        return np.pad(values[self.seen.slices], missing + [(0, 0)], mode="symmetric")

    def unpad(self, values: np.ndarray) -> np.ndarray:
        """Cuts the border off [*padded, K]: [*seen.shape, K]."""
        height, width = self.seen.shape
        top, left = ((w - h) // 2 for w, h in zip(self.padded, self.seen.shape))
        return values[top : top + height, left : left + width]

    def to_input(self, values: np.ndarray) -> np.ndarray:
        """Takes probabilities [*padded, K] to the image's pixels in the region.

        The border is cut off, and what was not seen is background with certainty.
        """
        inner = self.unpad(values)
        if self.part is not None:
            whole = np.zeros((*self.shape, inner.shape[-1]), inner.dtype)
            whole[..., 0] = 1
            whole[self.part.slices] = inner
            inner = whole
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
    seen_size: int = 0,
    center: Sequence[int] | None = None,
    by_area: bool = False,
) -> Grid:
    """Works out the sizes of a region at the model's resolution.

    Args:
        region: of the image.
        spacing_mm: height and width of the image's pixels, if known.
        target_mm: size of the pixels that the model was trained on, if known.
        divisor: the model's sizes are multiples of this.
        pad: whether other sizes may be padded.
        about: the file, for error messages.
        shape: height and width at the model's resolution, if they are fixed.
        seen_size: the largest height and width that the network sees; 0 for all.
        center: the pixel of the image in the middle of what it sees; None for the
            middle of the region.
        by_area: whether the model's pixels are means of the image's pixels.

    Raises:
        ValueError: the size does not fit, and may not be padded.
    """
    if shape is None:
        shape = resampled_shape(region.shape, spacing_mm, target_mm)
    part = _part(region, shape, seen_size, center) if seen_size else None
    seen = shape if part is None else part.shape
    height, width = (-(-size // divisor) * divisor for size in seen)
    padded = (height, width)
    if padded != seen and not pad:
        to = "the model's scale" if target_mm is None else f"{target_mm:g} mm"
        at = f" (after resampling to {to})" if shape != region.shape else ""
        raise ValueError(_size_message(seen, at, divisor, about))
    return Grid(region, shape, padded, part, by_area)


def resampled_shape(
    shape: tuple[int, int],
    spacing_mm: tuple[float, float] | None,
    target_mm: float | None,
) -> tuple[int, int]:
    """Returns height and width at the model's resolution, if that is known."""
    if spacing_mm is None or target_mm is None:
        return shape
    height, width = (
        max(1, round(min(size * mm / target_mm, _MAX_SIDE)))
        for size, mm in zip(shape, spacing_mm)
    )
    return height, width


def region_around(
    center: Sequence[int], size: tuple[int, int], image_shape: tuple[int, int]
) -> Region:
    """Returns a region of this size around a pixel, moved to lie inside the image.

    It is smaller if the image itself is.
    """
    height, width = (min(s, n) for s, n in zip(size, image_shape))
    row, col = (
        min(max(c - s // 2, 0), n - s)
        for c, s, n in zip(center, (height, width), image_shape)
    )
    return Region(row, col, height, width)


def _part(
    region: Region, shape: tuple[int, int], size: int, center: Sequence[int] | None
) -> Region | None:
    """Returns what the network sees of a region; None for all of it."""
    height, width = (min(size, length) for length in shape)
    if (height, width) == shape:
        return None
    if center is None:
        return Region((shape[0] - height) // 2, (shape[1] - width) // 2, height, width)
    row, col = (
        int((c + 0.5 - first) * length / side)
        for c, first, length, side in zip(
            center, (region.row, region.col), shape, region.shape
        )
    )
    return region_around((row, col), (height, width), shape)


def _size_message(shape: tuple[int, int], at: str, divisor: int, about: str) -> str:
    below = [max(divisor, size // divisor * divisor) for size in shape]
    above = [-(-size // divisor) * divisor for size in shape]
    sizes = f"{above[0]}x{above[1]}"
    if below != above:
        sizes = f"{below[0]}x{below[1]} or {sizes}"
    return (
        f"{about}: {shape[0]}x{shape[1]} pixels{at}, but the model needs multiples of "
        f"{divisor}, such as {sizes}; give --pad or --region, or resize the image as "
        "those of the training were"
    )
