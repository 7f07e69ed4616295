"""What is predicted, from what and how. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

OUTPUT_FORMATS = ("auto", "dicom_seg", "nifti", "png")
# How far a slice may lie from --z_mm: half of the thickest slices of a CT.
_MAX_OFF_MM = 5.0


def _field(default: Any, text: str, **limits: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, **limits})


@dataclasses.dataclass(frozen=True)
class CropConfig:
    """Which part of which images is looked at, and how it is made to fit the model."""

    slice: str | None = _field(
        None,
        "of a series or volume, counted from 0: one slice such as 12, or a range such "
        "as 10:20 (slices 10 to 19: the end is not included)",
    )
    instance_number: int | None = _field(
        None, "of a DICOM series: the slice with this InstanceNumber"
    )
    z_mm: float | None = _field(
        None, "of a DICOM series or NIfTI volume: the slice nearest to this height"
    )
    series: str | None = _field(
        None, "SeriesInstanceUID, or its end, where a folder holds several CT series"
    )
    region: str | None = _field(
        None, "row,col,height,width: the part of the image to segment, in its pixels"
    )
    center: str | None = _field(
        None,
        "row,col: segment a crop around this pixel, of the size that the model was "
        "scored with (of which the network may see only the middle)",
    )
    whole: bool = _field(
        False,
        "segment whole slices and series also with a model of crops around a lesion",
    )
    pad: bool = _field(
        False, "mirror the image at its border where its size does not fit the model"
    )
    spacing_mm: str | None = _field(
        None, "height,width of a pixel in mm, where the file does not say"
    )
    window: str | None = _field(
        None,
        "for models trained on 8-bit pictures: low,high that become black and white, "
        "or minmax of the region; the default for crops where the model's own were "
        "made so",
    )

    def __post_init__(self) -> None:
        """Checks what can be checked without an image."""
        if self.region is not None and self.center is not None:
            raise ValueError(
                f"region is {self.region} and center {self.center}, expected one only"
            )
        chosen = [
            f"{name} {getattr(self, name)}"
            for name in ("slice", "instance_number", "z_mm")
            if getattr(self, name) is not None
        ]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} are given, expected one only")
        if self.z_mm is not None and not math.isfinite(self.z_mm):
            raise ValueError(f"z_mm is {self.z_mm}, expected a height in mm")
        for name, parse in _PARSERS.items():
            text = getattr(self, name)
            if text is not None:
                parse(name, text)

    @property
    def cuts(self) -> bool:
        """Whether a part of the image is asked for."""
        return self.region is not None or self.center is not None

    @property
    def slices(self) -> tuple[int, int] | None:
        """The first slice and the one behind the last, or None for all."""
        return None if self.slice is None else _slices("slice", self.slice)

    @property
    def chooses(self) -> bool:
        """Whether certain slices are asked for."""
        return not (self.slice is self.instance_number is self.z_mm is None)

    def choose(
        self,
        number: int,
        *,
        about: str,
        what: str = "slices",
        heights_mm: Sequence[float] = (),
        instance_numbers: Sequence[int] = (),
    ) -> range:
        """Returns which slices of a file or series are asked for.

        Args:
            number: of slices there.
            about: the file or series, for error messages.
            what: they are called.
            heights_mm: of the slices, where known.
            instance_numbers: of the slices, where they have some.

        Raises:
            ValueError: there is no such slice.
        """
        if self.z_mm is not None:
            return _only(_nearest(self.z_mm, heights_mm, about))
        if self.instance_number is not None:
            return _only(_numbered(self.instance_number, instance_numbers, about))
        first, behind = self.slices or (0, number)
        if behind > number:
            raise ValueError(
                f"{about}: has {number} {what}, so that slice {behind - 1} is none of "
                f"them; expected 0 to {number - 1}"
                + ("; a range ends before its end" if behind > first + 1 else "")
            )
        return range(first, behind)

    @property
    def region_numbers(self) -> tuple[int, ...] | None:
        """Row, column, height and width."""
        return None if self.region is None else _whole("region", self.region, 4)

    @property
    def center_numbers(self) -> tuple[int, ...] | None:
        """Row and column."""
        return None if self.center is None else _whole("center", self.center, 2)

    @property
    def spacing_numbers(self) -> tuple[float, float] | None:
        """Height and width of a pixel in mm."""
        if self.spacing_mm is None:
            return None
        return _spacing("spacing_mm", self.spacing_mm)

    @property
    def window_numbers(self) -> tuple[float, float] | None:
        """Low and high; None for the region's own, or where none is given."""
        return None if self.window is None else _window("window", self.window)


@dataclasses.dataclass(frozen=True)
class PredictConfig:
    """How many samples are drawn, and how they are written."""

    num_samples: int = _field(16, "segmentations per image")
    seed: int = _field(0, "of the samples; the same for every image")
    output_format: str = _field(
        "auto",
        "of the label maps; auto: that of the input (PNG for DICOM where highdicom "
        "is not installed)",
        choices=OUTPUT_FORMATS,
    )
    group_iou: float = _field(
        0.7, "samples whose IoU is at least this are one hypothesis"
    )
    tile_size: int = _field(
        512, "larger images are segmented in tiles of this height and width"
    )
    overwrite: bool = _field(False, "replace earlier results of the same names")

    def __post_init__(self) -> None:
        """Checks the numbers."""
        limits = {
            "num_samples": (1, 4096),
            "seed": (-(2**31), 2**31 - 1),
            "group_iou": (0, 1),
            "tile_size": (1, 2**15),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low} to {high}")
        if self.output_format not in OUTPUT_FORMATS:
            raise ValueError(
                f"output_format is {self.output_format!r}, expected one of "
                f"{', '.join(OUTPUT_FORMATS)}"
            )


def _numbers(name: str, text: str, count: int, kind: type, what: str) -> tuple:
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(math.isfinite(n) for n in numbers):
        raise ValueError(f"{name} is {text!r}, expected {what}")
    return numbers


def _whole(name: str, text: str, count: int) -> tuple[int, ...]:
    example = "10,20,48,48" if count == 4 else "210,300"
    return _numbers(name, text, count, int, f"{count} whole numbers such as {example}")


def _slices(name: str, text: str) -> tuple[int, int]:
    first, colon, behind = text.partition(":")
    try:
        low = int(first)
        high = int(behind) if colon else low + 1
    except ValueError:
        low, high = 0, 0
    if not 0 <= low < high:
        raise ValueError(
            f"{name} is {text!r}, expected a number or a range as 10:20 (10 to 19)"
        )
    return low, high


def _only(index: int) -> range:
    return range(index, index + 1)


def _nearest(z_mm: float, heights_mm: Sequence[float], about: str) -> int:
    if not len(heights_mm):
        raise ValueError(f"{about}: its heights are not known, expected no --z_mm")
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
        raise ValueError(f"{about}: no DICOM series, which alone has instance_number")
    raise ValueError(
        f"{about}: {len(found)} slices have the instance_number {wanted}, expected "
        f"one; they are {min(instance_numbers)} to {max(instance_numbers)}"
    )


def _spacing(name: str, text: str) -> tuple[float, float]:
    height, width = _numbers(name, text, 2, float, "two sizes such as 0.7,0.7")
    if min(height, width) <= 0:
        raise ValueError(f"{name} is {text!r}, expected two sizes over 0")
    return height, width


def _window(name: str, text: str) -> tuple[float, float] | None:
    if text == "minmax":
        return None
    low, high = _numbers(name, text, 2, float, "low,high or minmax")
    if low >= high:
        raise ValueError(f"{name} is {text!r}, expected low,high with low below high")
    return low, high


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "slice": _slices,
    "region": lambda name, text: _whole(name, text, 4),
    "center": lambda name, text: _whole(name, text, 2),
    "spacing_mm": _spacing,
    "window": _window,
}
