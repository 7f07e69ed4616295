"""Where the lesions are: one point, or the points of a file."""

from __future__ import annotations

import csv
import dataclasses
import math
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import pydicom
from scipy import ndimage

from tf_probunet import limits
from tf_probunet.imaging import dicom, read_dicom, read_nifti
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.volume import Volume

_VOXEL = ("slice", "row", "col")
_MM = ("x_mm", "y_mm", "z_mm")
_SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
# A file may mark noise everywhere; nobody follows so many lesions.
MAX_POINTS = 1000
# DICOM's axes point to the patient's left and back, NIfTI's to right and front.
_FLIP = np.array([-1.0, -1.0, 1.0])


@dataclasses.dataclass(frozen=True)
class Point:
    """A point inside of a lesion.

    Attributes:
        name: of the lesion, empty for a single one.
        voxel: slice, row and column; None if it is given in millimetres.
        mm: as NIfTI has it; None if it is given by its voxel.
        text: as the user gave it, for error messages.
    """

    name: str
    voxel: tuple[int, int, int] | None
    mm: tuple[float, float, float] | None
    text: str

    def find(self, volumes: Sequence[Volume]) -> tuple[Volume, tuple[int, int, int]]:
        """Returns the volume that it lies in, and slice, row and column there.

        Raises:
            ValueError: it lies outside of all of them.
        """
        for volume in volumes:
            if self.mm is not None:
                place = volume.voxel_of(self.mm)
            else:
                assert self.voxel is not None
                index, row, col = self.voxel
                place = (index - volume.first, row, col)
                if not all(0 <= n < m for n, m in zip(place, volume.shape)):
                    place = None
            if place is not None:
                return volume, place
        raise ValueError(f"{self.text}: outside of the volume, {_extent(volumes)}")


def from_center(center: tuple[int, ...]) -> Point:
    """Returns the point of `--center=slice,row,col`."""
    text = ",".join(map(str, center))
    return Point("", (center[0], center[1], center[2]), None, f"center is {text}")


def from_mm(numbers: tuple[float, ...], kind: str) -> Point:
    """Returns the point of `--point_mm=x,y,z`, in the axes of the input's kind."""
    text = ",".join(f"{number:g}" for number in numbers)
    return Point("", None, _as_nifti(numbers, kind), f"point_mm is {text}")


def read(path: str, images: Sequence[InputImage]) -> list[Point]:
    """Reads the points of a CSV file, a NIfTI label map or a DICOM segmentation.

    Args:
        path: the file.
        images: the slices that the points belong to.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, holds no point or too many, or belongs to
            another series.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file, expected points of lesions")
    if file.name.lower().endswith(read_nifti.SUFFIXES):
        points = _read_nifti(file)
    elif file.suffix.lower() == ".csv":
        points = _read_csv(file, images[0].kind)
    elif read_dicom.is_dicom(file):
        points = _read_segmentation(file, images[0])
    else:
        raise ValueError(
            f"{file}: unknown kind of file, expected points as CSV (.csv), NIfTI "
            "(.nii, .nii.gz) or a DICOM segmentation"
        )
    if not 0 < len(points) <= MAX_POINTS:
        raise ValueError(
            f"{file}: {len(points)} lesions, expected 1 to {MAX_POINTS} of them"
        )
    names = [point.name for point in points]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{file}: two lesions are called {name!r}")
    return points


def _read_csv(path: pathlib.Path, kind: str) -> list[Point]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.DictReader(handle))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file ({error})") from error
    points = []
    for number, row in enumerate(rows, start=2):
        about = f"{path}, line {number}"
        columns = _VOXEL if "slice" in row else _MM
        try:
            values = [float(row[name]) for name in columns]
        except (KeyError, TypeError, ValueError):
            values = []
        whole = columns == _MM or all(v.is_integer() for v in values)
        if not values or not whole or not all(map(math.isfinite, values)):
            found = {k: v for k, v in row.items() if k is not None}
            raise ValueError(
                f"{about}: {str(found)[:80]}, expected whole numbers in the columns "
                "slice, row and col, or numbers in x_mm, y_mm and z_mm"
            )
        name = _safe_name(row.get("name") or f"lesion_{number - 1:02d}", about)
        if columns == _VOXEL:
            index, line, col = map(int, values)
            points.append(Point(name, (index, line, col), None, about))
        else:
            points.append(Point(name, None, _as_nifti(values, kind), about))
    return points


def _read_nifti(path: pathlib.Path) -> list[Point]:
    labels, affine = read_nifti.read_labels(path)
    points: list[Point] = []
    for label in np.unique(labels[labels != 0]):
        parts, number = ndimage.label(labels == label, np.ones((3, 3, 3)))
        for part in range(1, number + 1):
            place = _middle(np.argwhere(parts == part))
            mm = affine[:3, :3] @ place + affine[:3, 3]
            name = f"lesion_{len(points) + 1:02d}"
            points.append(Point(name, None, tuple(mm), f"{path}, part {part}"))
            if len(points) > MAX_POINTS:
                return points
    return points


def _read_segmentation(path: pathlib.Path, image: InputImage) -> list[Point]:
    dataset = dicom.read_dataset(path, str(path))
    if dataset is None or dataset.get("SOPClassUID") != _SEGMENTATION:
        raise ValueError(f"{path}: not a DICOM segmentation, expected one")
    source = (
        dicom.read_dataset(image.source, image.source, stop_before_pixels=True)
        if image.kind == "dicom"
        else None
    )
    frame = dataset.get("FrameOfReferenceUID")
    if source is not None and source.get("FrameOfReferenceUID") != frame:
        raise ValueError(
            f"{path}: a segmentation in the frame of reference {frame}, expected "
            f"{source.get('FrameOfReferenceUID')}, that of {image.source}"
        )
    try:
        by_segment = _segment_points(dataset)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: cannot read the segmentation ({str(error)[:200]})"
        ) from error
    return [
        Point(
            f"lesion_{segment:02d}",
            None,
            tuple(_FLIP * _middle(np.concatenate(places))),
            f"{path}, segment {segment}",
        )
        for segment, places in sorted(by_segment.items())
    ]


def _segment_points(dataset: pydicom.Dataset) -> dict[int, list[np.ndarray]]:
    """Returns the marked voxels of each segment, in DICOM's millimetres."""
    size = [int(dataset.get(n) or 1) for n in ("NumberOfFrames", "Rows", "Columns")]
    limits.check(8 * math.prod(size), f"a segmentation of {size} pixels")
    frames = dataset.pixel_array
    frames = frames[None] if frames.ndim == 2 else frames
    half = int(dataset.get("MaximumFractionalValue", 1)) / 2
    shared = dataset.SharedFunctionalGroupsSequence[0]
    found: dict[int, list[np.ndarray]] = {}
    for frame, groups in zip(frames, dataset.PerFrameFunctionalGroupsSequence):
        rows, cols = np.nonzero(frame > half)
        if not len(rows):
            continue
        segment = _group(groups, shared, "SegmentIdentificationSequence")
        number = int(segment.ReferencedSegmentNumber)
        measures = _group(groups, shared, "PixelMeasuresSequence")
        height, width = map(float, measures.PixelSpacing)
        plane = _group(groups, shared, "PlaneOrientationSequence")
        along = np.array(plane.ImageOrientationPatient, float)
        position = _group(groups, shared, "PlanePositionSequence")
        origin = np.array(position.ImagePositionPatient, float)
        places = (
            origin
            + cols[:, None] * width * along[:3]
            + rows[:, None] * height * along[3:]
        )
        found.setdefault(number, []).append(places)
    return found


def _group(groups: pydicom.Dataset, shared: pydicom.Dataset, name: str):
    return (groups if name in groups else shared)[name][0]


def _middle(places: np.ndarray) -> np.ndarray:
    """Returns the one of the places [N, 3] that is nearest to their mean."""
    return places[((places - places.mean(axis=0)) ** 2).sum(axis=1).argmin()]


def _as_nifti(numbers: Sequence[float], kind: str) -> tuple[float, float, float]:
    x, y, z = numbers
    return (-x, -y, z) if kind == "dicom" else (x, y, z)


def _safe_name(name: str, about: str) -> str:
    if not re.fullmatch(r"[\w-][\w. -]{0,99}", name):
        raise ValueError(
            f"{about}: the name is {name[:80]!r}, expected letters, digits, dots and "
            "dashes"
        )
    return name


def _extent(volumes: Sequence[Volume]) -> str:
    parts = []
    for volume in volumes:
        count, height, width = volume.shape
        corners = np.array(
            [
                [col, row, index, 1]
                for col in (0, width - 1)
                for row in (0, height - 1)
                for index in (0, count - 1)
            ]
        )
        mm = corners @ volume.affine.T[:, :3]
        if volume.images[0].kind == "dicom":
            mm = mm * _FLIP
        low, high = mm.min(axis=0), mm.max(axis=0)
        axes = (f"{a} {lo:.0f} to {hi:.0f}" for a, lo, hi in zip("xyz", low, high))
        parts.append(
            f"slices {volume.first} to {volume.first + count - 1}, rows 0 to "
            f"{height - 1}, columns 0 to {width - 1} ({', '.join(axes)} mm)"
        )
    return "expected " + "; or ".join(parts[:4]) + ("; ..." if len(parts) > 4 else "")
