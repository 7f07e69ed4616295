"""Slices of a scan as a volume: equal steps, one geometry, points in space."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tf_probunet.imaging.input_image import InputImage

# Positions and sizes are decimal strings: differences below this are rounding.
_TOLERANCE_MM = 0.01
# Steps that differ by more than this share are gaps.
_STEP_TOLERANCE = 0.1
# Slices may be tilted against the axial plane, as a scanner's gantry is, but not more.
_MAX_TILT_DEGREES = 30.0


@dataclasses.dataclass(frozen=True)
class Volume:
    """Neighbouring slices, from the lowest to the highest.

    Attributes:
        images: at least two slices.
        affine: [4, 4], takes (column, row, slice, 1) to millimetres towards the
            patient's right-to-left, back-to-front and bottom-to-top, as NIfTI has it.
        first: the number of the first slice in its series.
        ends_in_gap: whether slices are missing below the first and above the last.
    """

    images: list[InputImage]
    affine: np.ndarray
    first: int = 0
    ends_in_gap: tuple[bool, bool] = (False, False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Slices, rows and columns."""
        return len(self.images), *self.images[0].shape

    @property
    def voxel_mm3(self) -> float:
        """Volume of a voxel."""
        return float(abs(np.linalg.det(self.affine[:3, :3])))

    @property
    def step_mm(self) -> float:
        """Distance from the middle of a slice to the next."""
        return self.voxel_mm3 / self._pixel_mm2

    @property
    def spacing_mm(self) -> tuple[float, float]:
        """Height and width of a pixel."""
        sides = np.linalg.norm(self.affine[:3, :2], axis=0)
        return float(sides[1]), float(sides[0])

    @functools.cached_property
    def _pixel_mm2(self) -> float:
        return float(np.linalg.norm(np.cross(*self.affine[:3, :2].T)))

    def voxel_of(self, point_mm: Sequence[float]) -> tuple[int, int, int] | None:
        """Returns slice, row and column of a point; None if it is outside.

        Args:
            point_mm: in the coordinates of `affine`.
        """
        inverse = np.linalg.inv(self.affine)
        place = inverse[:3, :3] @ np.asarray(point_mm, float) + inverse[:3, 3]
        col, row, index = np.rint(place).astype(int)
        inside = all(0 <= n < m for n, m in zip((index, row, col), self.shape))
        return (int(index), int(row), int(col)) if inside else None


def volumes_of(images: Sequence[InputImage]) -> list[Volume]:
    """Cuts the slices of a scan where some are missing.

    Args:
        images: the slices of one series or file, from the lowest to the highest.

    Returns:
        The volumes, from the lowest to the highest. Slices that have no neighbour are
        left out.

    Raises:
        ValueError: there are fewer than two slices, their position is not known, two
            are at the same place, they differ in size or direction, they are not
            axial, or none has a neighbour.
    """
    about = _about(images)
    if len(images) < 2:
        raise ValueError(
            f"{about}: a single slice, expected a series or volume of at least two; "
            "--center=row,col segments one slice"
        )
    affines = [image.geometry.affine for image in images if image.geometry is not None]
    if len(affines) < len(images):
        raise ValueError(
            f"{about}: the position of its slices is not known, expected a DICOM "
            "series or a NIfTI volume"
        )
    _check_alike(images, affines)
    normal = _normal(affines[0], about)
    positions = np.stack([affine[:3, 3] for affine in affines])
    steps = np.diff(positions @ normal)
    if (steps < 0).all():
        steps = -steps
    for i, step in enumerate(steps):
        if step < _TOLERANCE_MM:
            raise ValueError(
                f"{images[i + 1].describe()}: lies at the same height as "
                f"{images[i].describe()}, expected different slices; leave one out"
            )
    usual = float(np.median(steps[steps < 1.5 * steps.min()]))
    gaps = np.flatnonzero(np.abs(steps / usual - 1) > _STEP_TOLERANCE) + 1
    runs = np.split(np.arange(len(images)), gaps)
    found = [
        _volume(images, positions, run, affines[0]) for run in runs if len(run) > 1
    ]
    if not found:
        raise ValueError(
            f"{about}: no two of its {len(images)} slices are {usual:g} mm apart, "
            "expected neighbouring slices; some are missing"
        )
    return found


def _volume(
    images: Sequence[InputImage],
    positions: np.ndarray,
    run: np.ndarray,
    affine: np.ndarray,
) -> Volume:
    first, last = int(run[0]), int(run[-1])
    affine = affine.copy()
    # From the positions, not from the normal: slices of a tilted gantry are sheared.
    affine[:3, 2] = (positions[last] - positions[first]) / (last - first)
    affine[:3, 3] = positions[first]
    return Volume(
        images=list(images[first : last + 1]),
        affine=affine,
        first=images[first].slice_index or 0,
        ends_in_gap=(first > 0, last < len(images) - 1),
    )


def _check_alike(images: Sequence[InputImage], affines: Sequence[np.ndarray]) -> None:
    for image, affine in zip(images, affines):
        first = images[0]
        if image.shape != first.shape:
            raise ValueError(
                f"{image.describe()}: {image.shape[0]}x{image.shape[1]} pixels, but "
                f"{first.describe()} has {first.shape[0]}x{first.shape[1]}, expected "
                "one size"
            )
        apart = np.abs(affine[:3, :2] - affines[0][:3, :2]).max()
        if apart > _TOLERANCE_MM:
            raise ValueError(
                f"{image.describe()}: pixels of another size or direction than those "
                f"of {first.describe()}, expected parallel slices"
            )


def _normal(affine: np.ndarray, about: str) -> np.ndarray:
    normal = np.cross(affine[:3, 0], affine[:3, 1])
    normal /= np.linalg.norm(normal)
    tilt = np.degrees(np.arccos(np.clip(abs(normal[2]), 0, 1)))
    if tilt > _MAX_TILT_DEGREES:
        raise ValueError(
            f"{about}: an oblique series, its slices are tilted by {tilt:.0f} degrees "
            f"against the axial plane, expected at most {_MAX_TILT_DEGREES:g}"
        )
    return normal if normal[2] > 0 else -normal


def _about(images: Sequence[InputImage]) -> str:
    """Returns the file, or the folder of a series, for error messages."""
    source = images[0].source
    if images[0].kind == "dicom" and len(images) > 1:
        return source.rpartition("/")[0] or source
    return source
