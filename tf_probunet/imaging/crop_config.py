"""Which slices, and which part of an image, the user wants."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

from tf_probunet.config import Checked, field

# How far a slice may be from --z_mm: half the thickness of the thickest CT slices.
_MAX_OFF_MM = 5.0


@dataclasses.dataclass(frozen=True)
class CropConfig(Checked):
    """Selects slices and a part of them, and says how they are made to fit a model."""

    slice: Optional[str] = field(
        None,
        "slices of a series or volume, counted from 0: one such as 12, or a range such "
        "as 10:20 (slices 10 to 19: the end is not included)",
    )
    instance_number: Optional[int] = field(
        None, "the slice of a DICOM series with this InstanceNumber"
    )
    z_mm: Optional[float] = field(
        None, "the slice of a DICOM series or NIfTI volume nearest to this height"
    )
    series: Optional[str] = field(
        None, "SeriesInstanceUID, or its end, if a folder holds several CT series"
    )
    region: Optional[str] = field(
        None, "row,col,height,width: the part of the image to segment, in its pixels"
    )
    center: Optional[str] = field(
        None,
        "row,col: segment a crop around this pixel. It has the size that the model was "
        "scored with; the network may see only its middle. slice,row,col: follow the "
        "lesion at this voxel through the slices",
    )
    whole: bool = field(
        False,
        "segment whole slices and series, even with a model of crops around a lesion",
    )
    pad: bool = field(
        False, "mirror the image at its border if its size does not fit the model"
    )
    spacing_mm: Optional[str] = field(
        None, "height,width of a pixel in mm, if the file does not say"
    )
    window: Optional[str] = field(
        None,
        "for models trained on 8-bit pictures: low,high become black and white, or "
        "minmax: those of the region. The default is minmax for crops if the training "
        "crops were made so",
    )

    def __post_init__(self) -> None:
        """Checks everything that needs no image."""
        super().__post_init__()
        if self.region is not None and self.center is not None:
            raise ValueError(
                f"region is {self.region} and center {self.center}, expected one only"
            )
        if self.center is not None and self.follows and self.chooses:
            raise ValueError(
                f"center is {self.center}, which names a slice, expected no other "
                "choice of slices"
            )
        chosen = [
            f"{name} {getattr(self, name)}"
            for name in ("slice", "instance_number", "z_mm")
            if getattr(self, name) is not None
        ]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} are given, expected one only")
        for name, parse in _PARSERS.items():
            text = getattr(self, name)
            if text is not None:
                parse(name, text)

    @property
    def cuts(self) -> bool:
        """Whether the user wants a part of the image."""
        return self.region is not None or self.center is not None

    @property
    def slices(self) -> tuple[int, int] | None:
        """The first slice and the one after the last, or None for all."""
        return None if self.slice is None else _slices("slice", self.slice)

    @property
    def chooses(self) -> bool:
        """Whether the user wants certain slices."""
        chosen = (self.slice, self.instance_number, self.z_mm)
        return any(value is not None for value in chosen)

    def choose(
        self,
        number: int,
        *,
        about: str,
        what: str = "slices",
        heights_mm: Sequence[float] = (),
        instance_numbers: Sequence[int] = (),
    ) -> range:
        """Returns the slices of a file or series that the user wants.

        Args:
            number: of slices in the file or series.
            about: the file or series, for error messages.
            what: the word for slices in error messages.
            heights_mm: of the slices, if known.
            instance_numbers: of the slices, if they have any.

        Raises:
            ValueError: there is no such slice.
        """
        if self.z_mm is not None:
            return _only(_nearest(self.z_mm, heights_mm, about))
        if self.instance_number is not None:
            return _only(_numbered(self.instance_number, instance_numbers, about))
        first, end = self.slices or (0, number)
        if end > number:
            raise ValueError(
                f"{about}: has {number} {what} and no slice {end - 1}; expected 0 to "
                f"{number - 1}"
                + ("; a range ends before its end" if end > first + 1 else "")
            )
        return range(first, end)

    @property
    def region_numbers(self) -> tuple[int, ...] | None:
        """Row, column, height and width."""
        return None if self.region is None else _whole("region", self.region, 4)

    @property
    def center_numbers(self) -> tuple[int, ...] | None:
        """Row and column, after the slice if a lesion is followed."""
        return None if self.center is None else _center("center", self.center)

    @property
    def follows(self) -> bool:
        """Whether a lesion is followed through the slices."""
        return self.center_numbers is not None and len(self.center_numbers) == 3

    @property
    def spacing_numbers(self) -> tuple[float, float] | None:
        """Height and width of a pixel in mm."""
        if self.spacing_mm is None:
            return None
        return _spacing("spacing_mm", self.spacing_mm)

    @property
    def window_numbers(self) -> tuple[float, float] | None:
        """Low and high; None for those of the region, or if no window is given."""
        return None if self.window is None else _window("window", self.window)


def numbers(name: str, text: str, count: int, kind: type, what: str) -> tuple:
    """Returns the numbers of a flag such as 10,20.

    Args:
        name: of the flag.
        text: its value.
        count: how many numbers it needs.
        kind: int or float.
        what: is expected, for the error message.

    Raises:
        ValueError: there are others.
    """
    try:
        found = tuple(kind(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != count or not all(math.isfinite(n) for n in found):
        raise ValueError(f"{name} is {text!r}, expected {what}")
    return found


def _whole(name: str, text: str, count: int) -> tuple[int, ...]:
    example = {2: "210,300", 3: "40,210,300", 4: "10,20,48,48"}[count]
    return numbers(name, text, count, int, f"{count} whole numbers such as {example}")


def _center(name: str, text: str) -> tuple[int, ...]:
    count = 3 if text.count(",") == 2 else 2
    return _whole(name, text, count)


def _slices(name: str, text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    try:
        low = int(first)
        high = int(end) if colon else low + 1
    except ValueError:
        low, high = 0, 0
    if not 0 <= low < high:
        raise ValueError(
            f"{name} is {text!r}, expected a number or a range such as 10:20 (10 to 19)"
        )
    return low, high


def _only(index: int) -> range:
    return range(index, index + 1)


def _nearest(z_mm: float, heights_mm: Sequence[float], about: str) -> int:
    if not len(heights_mm):
        raise ValueError(
            f"{about}: the heights of its slices are not known, expected no --z_mm"
        )
    index = min(range(len(heights_mm)), key=lambda i: abs(heights_mm[i] - z_mm))
    if abs(heights_mm[index] - z_mm) > _MAX_OFF_MM:
        raise ValueError(
            f"{about}: no slice within {_MAX_OFF_MM:g} mm of z_mm {z_mm:g}, expected "
            f"{min(heights_mm):g} to {max(heights_mm):g}"
        )
    return index


def _numbered(wanted: int, instance_numbers: Sequence[int], about: str) -> int:
    found = [i for i, number in enumerate(instance_numbers) if number == wanted]
    if len(found) == 1:
        return found[0]
    if not instance_numbers:
        raise ValueError(
            f"{about}: not a DICOM series; only those have an instance_number"
        )
    raise ValueError(
        f"{about}: {len(found)} slices have the instance_number {wanted}, expected "
        f"one; they are {min(instance_numbers)} to {max(instance_numbers)}"
    )


def _spacing(name: str, text: str) -> tuple[float, float]:
    height, width = numbers(name, text, 2, float, "two sizes such as 0.7,0.7")
    if min(height, width) <= 0:
        raise ValueError(f"{name} is {text!r}, expected two sizes above 0")
    return height, width


def _window(name: str, text: str) -> tuple[float, float] | None:
    if text == "minmax":
        return None
    low, high = numbers(name, text, 2, float, "low,high or minmax")
    if low >= high:
        raise ValueError(f"{name} is {text!r}, expected low,high with low below high")
    return low, high


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "slice": _slices,
    "region": lambda name, text: _whole(name, text, 4),
    "center": _center,
    "spacing_mm": _spacing,
    "window": _window,
}
