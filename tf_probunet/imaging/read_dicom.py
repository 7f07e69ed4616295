"""Reads CT slices and series in Hounsfield units, with their position in space."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Sequence

import numpy as np
import pydicom

from tf_probunet.imaging import dicom
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import Geometry, InputImage

_PREAMBLE = 128
_MAX_LISTED = 8
# Positions are decimal strings: differences below this are rounding.
_TOLERANCE_MM = 0.01


def is_dicom(path: pathlib.Path) -> bool:
    """Whether a file begins like a DICOM file, or is called .dcm."""
    if path.suffix.lower() in (".dcm", ".dicom"):
        return True
    with open(path, "rb") as handle:
        return handle.read(_PREAMBLE + 4)[_PREAMBLE:] == b"DICM"


def read_series(
    paths: Sequence[pathlib.Path],
    name: str,
    crop: CropConfig,
    folder: pathlib.Path | None = None,
) -> list[InputImage]:
    """Reads the slices of a series from the lowest to the highest.

    Args:
        paths: DICOM files, in any order. Copies of a slice are skipped.
        name: of the results.
        crop: selects a series and slices.
        folder: the folder that was searched for the files. DICOM files other than CT
            slices are skipped there. None for files that the user named.

    Raises:
        ValueError: a file is damaged or not a CT slice, there are several series, the
            slices differ in size, or there is no such slice.
    """
    headers = [dicom.read_header(path, str(path)) for path in paths]
    slices = [header for header in headers if header is not None]
    if not slices or (folder is None and len(slices) < len(headers)):
        other = paths[headers.index(None)]
        raise ValueError(f"{other}: not a DICOM file of a CT slice")
    about = folder or paths[0].parent
    slices = _one_series(slices, crop.series, about)
    ordered = list(
        {h.sop_uid: h for h in sorted(slices, key=lambda h: (h.z_mm, h.path))}.values()
    )
    _check_sizes(ordered)
    heights = [header.z_mm for header in ordered]
    chosen = crop.choose(
        len(ordered),
        about=str(about),
        heights_mm=heights,
        instance_numbers=[header.instance_number for header in ordered],
    )
    step_mm = _step(heights)
    return [
        _read_slice(
            ordered[i].path,
            name if len(ordered) == 1 else f"{name}_{i:03d}",
            None if len(ordered) == 1 else i,
            step_mm,
        )
        for i in chosen
    ]


def _one_series(
    headers: Sequence[dicom.SliceHeader], wanted: str | None, about: pathlib.Path
) -> list[dicom.SliceHeader]:
    """Returns the slices of the only series, or of the one that the user wants."""
    series = collections.defaultdict(list)
    for header in headers:
        series[header.series_uid].append(header)
    chosen = [uid for uid in series if uid.endswith(wanted or "")]
    if len(chosen) == 1:
        return series[chosen[0]]
    listed = "; ".join(
        f"{uid} ({len(found)} slices in {pathlib.Path(found[0].path).parent})"
        for uid, found in sorted(series.items())[:_MAX_LISTED]
    )
    more = "; ..." if len(series) > _MAX_LISTED else ""
    asked = f", {len(chosen)} of them with the end {wanted!r}" if wanted else ""
    raise ValueError(
        f"{about}: holds {len(series)} CT series{asked}, expected one: {listed}{more}; "
        "give --series=UID, or the folder of one"
    )


def _check_sizes(headers: Sequence[dicom.SliceHeader]) -> None:
    for header in headers:
        if header.shape != headers[0].shape:
            raise ValueError(
                f"{header.path}: {_size(header.shape)} pixels, but {headers[0].path} "
                f"of the same series has {_size(headers[0].shape)}, expected one size"
            )


def _step(heights_mm: Sequence[float]) -> float | None:
    """Returns the distance of neighbouring slices; None if it is not known.

    Where slices are missing, the distance is a multiple of it. Heights are rounded.
    """
    steps = np.diff(sorted(heights_mm))
    steps = steps[steps > _TOLERANCE_MM]
    if not len(steps):
        return None
    return float(np.median(steps[steps < 1.5 * steps.min()]))


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def _read_slice(
    path: str, name: str, index: int | None, step_mm: float | None
) -> InputImage:
    image, spacing_mm = dicom.read_pixels(path, path)
    return InputImage(
        name=name,
        source=path,
        kind="dicom",
        pixels=image.astype(np.float32)[..., None],
        values="hu",
        spacing_mm=spacing_mm,
        slice_index=index,
        geometry=_geometry(path, spacing_mm, step_mm),
    )


def _geometry(
    path: str, spacing_mm: tuple[float, float], step_mm: float | None
) -> Geometry | None:
    dataset = dicom.read_dataset(path, path, stop_before_pixels=True)
    if dataset is None:
        return None
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
    normal = np.cross(along_row, along_column)
    # With a tilted gantry, slices are closer to each other than their heights say.
    apart_mm = _thickness(dataset) if step_mm is None else step_mm * abs(normal[2])
    affine[:3, 2] = flip * normal * (apart_mm or 1.0)
    affine[:3, 3] = flip * position
    return Geometry(affine)


def _thickness(dataset: pydicom.Dataset) -> float | None:
    """Returns the thickness of a single slice; None if the file does not say."""
    for name in ("SpacingBetweenSlices", "SliceThickness"):
        numbers = np.abs(_numbers(dataset, name))
        if len(numbers) == 1 and 0 < numbers[0] < 100:
            return float(numbers[0])
    return None


def _numbers(dataset: pydicom.Dataset, name: str) -> np.ndarray:
    """Returns the numbers of an attribute; none if they make no sense."""
    try:
        numbers = np.array(dataset.get(name) or [], float).reshape(-1)
    except (TypeError, ValueError):
        numbers = np.array([])
    return numbers if np.isfinite(numbers).all() else numbers[:0]
