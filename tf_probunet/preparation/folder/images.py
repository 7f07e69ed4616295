"""Turns the values of image files into those of records, by one rule for all."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import PIL.Image

from tf_probunet.imaging import read_file, read_picture
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.windows import apply_window, file_window

LOWEST_HU = -1024.0
# A data set whose images reach down to this is CT: air is -1000 HU.
_AIR_HU = -500.0
_EXIF_ORIENTATION = 0x0112
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_INT16 = np.iinfo(np.int16)


@dataclasses.dataclass(frozen=True)
class Look:
    """What the values of an image file are.

    Attributes:
        values: "uint8", "uint16", "float" or "hu", see `InputImage`.
        is_dicom: whether the file is DICOM, whose values are Hounsfield units.
        is_colored: whether its channels differ.
        low: the smallest value.
        high: the largest value.
    """

    values: str
    is_dicom: bool
    is_colored: bool
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Rule:
    """What becomes of the values of all images.

    Attributes:
        kind: "uint8", "hu", "window", "minmax" or "percentiles".
        channels: 1 or 3.
        window: the values that become 0 and 255, for the kind "window".
    """

    kind: str
    channels: int
    window: tuple[float, float] | None = None

    @property
    def intensity(self) -> str:
        """What the values in the records mean."""
        return "hu" if self.kind == "hu" else "uint8"

    @property
    def dtype(self) -> str:
        """How they are stored."""
        return "int16" if self.kind == "hu" else "uint8"

    def describe(self) -> str:
        """Says the rule in words."""
        if self.kind == "window":
            assert self.window is not None
            return "{:g} and {:g} become 0 and 255, values beyond are clipped".format(
                *self.window
            )
        return {
            "uint8": "8-bit values as they are",
            "hu": "Hounsfield units, rounded, at least -1024",
            "minmax": "the smallest and largest value of each file become 0 and 255",
            "percentiles": "0.5 and 99.5 % of each file's values become 0 and 255",
        }[self.kind]

    def apply(self, images: Sequence[InputImage]) -> list[np.ndarray]:
        """Returns the slices of a file as [H, W, C] float32, not yet rounded.

        Raises:
            ValueError: they are in colour, but the rule is for grey values.
        """
        pixels = [_with_channels(image.pixels, self.channels) for image in images]
        if self.kind == "uint8":
            return pixels
        if self.kind == "hu":
            return [p.clip(LOWEST_HU, _INT16.max) for p in pixels]
        window = self.window
        if window is None:
            window = file_window(np.stack(pixels), self.kind)
        return [255 * apply_window(p, *window) for p in pixels]

    def store(self, pixels: np.ndarray) -> np.ndarray:
        """Rounds values to those of the records."""
        limits = (0, 255) if self.dtype == "uint8" else (_INT16.min, _INT16.max)
        return np.rint(pixels).clip(*limits).astype(self.dtype)


def read(path: pathlib.Path, cut: str) -> list[InputImage]:
    """Reads the slices of an image file.

    Raises:
        OSError: it can't be opened.
        ValueError: it can't be read, is turned by its EXIF data, has other than one or
            three channels, or holds values that are no numbers.
    """
    if path.is_file() and read_file.kind(path) == "picture":
        _check_upright(path)
    images = read_file.read(path, "image", CropConfig(), cut)
    for image in images:
        channels = image.pixels.shape[2]
        if channels not in (1, 3):
            raise ValueError(
                f"{path}: {channels} channels (transparent, or CMYK), expected grey or "
                "RGB"
            )
        if not np.isfinite(image.pixels).all():
            raise ValueError(f"{path}: values that are NaN or infinite")
        if image.shape != images[0].shape:
            raise ValueError(f"{path}: pages of different sizes")
    return images


def look(images: Sequence[InputImage]) -> Look:
    """Says what the values of a file's slices are."""
    return Look(
        values=images[0].values,
        is_dicom=images[0].kind == "dicom",
        is_colored=any(bool((i.pixels != i.pixels[..., :1]).any()) for i in images),
        low=min(float(image.pixels.min()) for image in images),
        high=max(float(image.pixels.max()) for image in images),
    )


def choose_rule(
    looks: dict[str, Look],
    *,
    intensity: str,
    window: tuple[float, float] | None,
    channels: str,
) -> Rule:
    """Chooses the rule for all images.

    Args:
        looks: of each file.
        intensity: what the user wants, or "auto".
        window: that the user wants, or None.
        channels: "auto", "grey" or "rgb".

    Raises:
        ValueError: no rule fits all files.
    """
    colored = any(look.is_colored for look in looks.values())
    number = 3 if channels == "rgb" or (channels == "auto" and colored) else 1
    kind = "window" if window else intensity
    if kind == "auto":
        kind, window = _recognised(looks)
    wrong = [
        name
        for name, look in looks.items()
        if (kind == "uint8" and look.values != "uint8")
        or (kind == "hu" and look.values in ("uint8", "uint16"))
    ]
    if wrong:
        found = looks[wrong[0]]
        raise ValueError(
            f"{wrong[0]}: {found.values} values from {found.low:g} to {found.high:g} "
            f"(in {len(wrong)} of {len(looks)} files), expected others for "
            f"--intensity={kind}; LOW,HIGH, minmax or percentiles map them"
        )
    if kind == "hu" and number == 3:
        raise ValueError("Hounsfield units in three channels, expected --channels=grey")
    return Rule(kind, number, window)


def _recognised(looks: dict[str, Look]) -> tuple[str, tuple[float, float] | None]:
    """Returns the rule that fits the values of all files, and its window."""
    eight = [name for name, look in looks.items() if look.values == "uint8"]
    if len(eight) == len(looks):
        return "uint8", None
    if eight:
        other = next(name for name in looks if name not in set(eight))
        raise ValueError(
            f"{eight[0]} and {len(eight) - 1} other files hold 8-bit values, but "
            f"{other} holds {looks[other].values} values from {looks[other].low:g} to "
            f"{looks[other].high:g}; choose a rule for all with --intensity"
        )
    found = list(looks.values())
    if all(look.is_dicom for look in found):
        return "hu", None
    signed = all(look.values != "uint16" for look in found)
    if signed and all(0 <= look.low <= look.high <= 1 for look in found):
        return "window", (0.0, 1.0)
    if signed and np.median([look.low for look in found]) <= _AIR_HU:
        return "hu", None
    return "percentiles", None


def _with_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    if pixels.shape[2] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=2)
    if (pixels == pixels[..., :1]).all():
        return pixels[..., :1]
    return pixels @ _LUMA[:, None]


def _check_upright(path: pathlib.Path) -> None:
    """Refuses a photo that viewers turn: its masks may have been drawn either way."""

    def orientation(page: PIL.Image.Image) -> int:
        if page.format == "PNG":  # Viewers show it as it is.
            return 1
        return int(page.getexif().get(_EXIF_ORIENTATION, 1) or 1)

    turns = [turn for turn in read_picture.read_pages(path, orientation) if turn != 1]
    if turns:
        raise ValueError(
            f"{path}: its EXIF data say that it is shown turned (orientation "
            f"{turns[0]}), expected an upright picture; save it turned, without EXIF"
        )
