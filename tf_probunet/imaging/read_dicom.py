"""Reads CT slices and series in Hounsfield units, with their place in space."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import pydicom

from tf_probunet.imaging import dicom
from tf_probunet.imaging.input_image import Geometry, InputImage

_PREAMBLE = 128
_MAX_LISTED = 3


def is_dicom(path: pathlib.Path) -> bool:
    """Whether a file begins as DICOM files do, or is called .dcm."""
    if path.suffix.lower() in (".dcm", ".dicom"):
        return True
    with open(path, "rb") as handle:
        return handle.read(_PREAMBLE + 4)[_PREAMBLE:] == b"DICM"


def read_series(
    paths: Sequence[pathlib.Path], name: str, slices: tuple[int, int] | None
) -> list[InputImage]:
    """Reads the slices of a series from the lowest to the highest.

    Args:
        paths: DICOM files, in any order; a copy of a slice is passed over.
        name: of the results.
        slices: the first slice and the one behind the last; None for all.

    Raises:
        ValueError: a file is damaged or no CT slice, there are several series, the
            slices differ in size, or there are too few.
    """
    headers = [_header(path) for path in paths]
    ordered = list(
        {h.sop_uid: h for h in sorted(headers, key=lambda h: (h.z_mm, h.path))}.values()
    )
    _check_one_series(ordered)
    first, behind = slices or (0, len(ordered))
    if behind > len(ordered):
        raise ValueError(
            f"{paths[0].parent}: has {len(ordered)} slices, so that slice "
            f"{behind - 1} is none of them; expected 0 to {len(ordered) - 1}"
        )
    return [
        _read_slice(
            ordered[i].path,
            name if len(ordered) == 1 else f"{name}_{i:03d}",
            None if len(ordered) == 1 else i,
        )
        for i in range(first, behind)
    ]


def _header(path: pathlib.Path) -> dicom.SliceHeader:
    header = dicom.read_header(path, str(path))
    if header is None:
        raise ValueError(f"{path}: not a DICOM file of a CT slice")
    return header


def _check_one_series(headers: Sequence[dicom.SliceHeader]) -> None:
    series = sorted({header.series_uid for header in headers})
    if len(series) > 1:
        listed = ", ".join(series[:_MAX_LISTED])
        more = ", ..." if len(series) > _MAX_LISTED else ""
        raise ValueError(
            f"{headers[0].path}: lies among {len(series)} series ({listed}{more}), "
            "expected the files of one"
        )
    for header in headers:
        if header.shape != headers[0].shape:
            raise ValueError(
                f"{header.path}: {_size(header.shape)} pixels, but {headers[0].path} "
                f"of the same series has {_size(headers[0].shape)}, expected one size"
            )


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def _read_slice(path: str, name: str, index: int | None) -> InputImage:
    image, spacing_mm = dicom.read_pixels(path, path)
    return InputImage(
        name=name,
        source=path,
        kind="dicom",
        pixels=image.astype(np.float32)[..., None],
        values="hu",
        spacing_mm=spacing_mm,
        slice_index=index,
        geometry=_geometry(path, spacing_mm),
    )


def _geometry(path: str, spacing_mm: tuple[float, float]) -> Geometry | None:
    dataset = dicom.read_dataset(path, path, stop_before_pixels=True)
    orientation = _numbers(dataset, "ImageOrientationPatient")
    position = _numbers(dataset, "ImagePositionPatient")
    if len(orientation) != 6 or len(position) != 3:
        return None
    # DICOM's axes point to the patient's left and back, NIfTI's to right and front.
    flip = np.array([-1.0, -1.0, 1.0])
    along_row, along_column = orientation[:3], orientation[3:]
    affine = np.eye(4)
    affine[:3, 0] = flip * along_row * spacing_mm[1]
    affine[:3, 1] = flip * along_column * spacing_mm[0]
    affine[:3, 2] = flip * np.cross(along_row, along_column)
    affine[:3, 3] = flip * position
    return Geometry(affine)


def _numbers(dataset: pydicom.Dataset, name: str) -> np.ndarray:
    """Returns the numbers of an attribute; none where they make no sense."""
    try:
        numbers = np.array(dataset.get(name) or [], float).reshape(-1)
    except (TypeError, ValueError):
        numbers = np.array([])
    return numbers if np.isfinite(numbers).all() else numbers[:0]
