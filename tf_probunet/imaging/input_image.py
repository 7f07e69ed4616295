"""An image as the user gave it: values, pixel size and position in space."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Where the pixels of a slice lie in the scanner's space.

    Attributes:
        affine: [4, 4], takes (column, row, 0, 1) to millimetres towards the patient's
            right-to-left, back-to-front and bottom-to-top (as NIfTI has it).
        axes: the order and direction of the file's own array axes, such as
            ("R", "A", "S"); the pixels here always run towards left (columns) and
            back (rows), as in DICOM.
    """

    affine: np.ndarray
    axes: tuple[str, str, str] = ("L", "P", "S")


@dataclasses.dataclass(frozen=True)
class InputImage:
    """One slice or picture.

    Attributes:
        name: what its results are called.
        source: the file.
        kind: of the file: "dicom", "nifti", "picture" or "array".
        pixels: [H, W, C] float32, as stored.
        values: what the pixels are: "hu" (Hounsfield units), "uint8", "uint16" or
            "float" (of unknown meaning).
        spacing_mm: height and width of a pixel, None if not known.
        slice_index: which slice of the source it is; None if there is only one.
        geometry: None if not known.
    """

    name: str
    source: str
    kind: str
    pixels: np.ndarray
    values: str
    spacing_mm: tuple[float, float] | None = None
    slice_index: int | None = None
    geometry: Geometry | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def describe(self) -> str:
        """Returns the source and the slice in it, for messages."""
        if self.slice_index is None or self.kind == "dicom":
            return self.source
        return f"{self.source} (slice {self.slice_index})"
