"""Finds CT series by their DICOM headers and reads slices in Hounsfield units."""

from __future__ import annotations

import dataclasses
import statistics
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import pydicom
from pydicom.errors import InvalidDicomError

from tf_probunet import files
from tf_probunet.preparation.problem import Problem

AIR_HU = -1024

# Positions are decimal strings: differences below this are rounding.
_TOLERANCE_MM = 0.01

_TAGS = (
    "Modality",
    "PatientID",
    "StudyInstanceUID",
    "SeriesInstanceUID",
    "SOPInstanceUID",
    "SliceLocation",
    "ImagePositionPatient",
    "InstanceNumber",
    "Rows",
    "Columns",
)

# pydicom and its decoders raise all of these for missing, damaged or unknown data.
_PYDICOM_ERRORS = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


@dataclasses.dataclass(frozen=True)
class SliceHeader:
    """What the header of a CT slice says.

    Attributes:
        path: the file, relative to the directory that was searched.
        patient: PatientID.
        study_uid: StudyInstanceUID.
        series_uid: SeriesInstanceUID.
        sop_uid: SOPInstanceUID.
        z_mm: last entry of ImagePositionPatient.
        slice_location_mm: SliceLocation, None where it is missing.
        instance_number: InstanceNumber, 0 where it is missing.
        shape: (Rows, Columns).
    """

    path: str
    patient: str
    study_uid: str
    series_uid: str
    sop_uid: str
    z_mm: float
    slice_location_mm: float | None
    instance_number: int
    shape: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Stack:
    """The usable slices of a series, from low to high z.

    Attributes:
        slices: one for each position.
        position_by_uid: SOPInstanceUID to index into `slices`. Where several files
            lie at one position, all of them lead there.
        dropped_uids: SOPInstanceUIDs of the files that were dropped.
    """

    slices: tuple[SliceHeader, ...]
    position_by_uid: dict[str, int]
    dropped_uids: frozenset[str]


def read_header(path: files.Path, name: str) -> SliceHeader | None:
    """Reads the header of a CT slice.

    Args:
        path: the file.
        name: how the file is called in the report.

    Returns:
        The header; None if the file is not DICOM, or not CT.

    Raises:
        ValueError: the file is a CT slice whose header is damaged or incomplete.
    """
    try:
        dataset = pydicom.dcmread(
            path, stop_before_pixels=True, specific_tags=list(_TAGS)
        )
    except InvalidDicomError:
        return None
    except _PYDICOM_ERRORS as error:
        raise ValueError(f"{name}: damaged DICOM header ({error})") from error
    try:
        if dataset.get("Modality") != "CT":
            return None
        location = dataset.get("SliceLocation")
        return SliceHeader(
            path=name,
            patient=str(dataset.PatientID).strip(),
            study_uid=str(dataset.get("StudyInstanceUID", "")),
            series_uid=str(dataset.SeriesInstanceUID),
            sop_uid=str(dataset.SOPInstanceUID),
            z_mm=float(dataset.ImagePositionPatient[-1]),
            slice_location_mm=None if location is None else float(location),
            instance_number=int(dataset.get("InstanceNumber") or 0),
            shape=(int(dataset.Rows), int(dataset.Columns)),
        )
    except _PYDICOM_ERRORS as error:
        raise ValueError(f"{name}: incomplete CT header ({error})") from error


def stack_slices(headers: Iterable[SliceHeader]) -> tuple[Stack, list[Problem]]:
    """Sorts the slices of a series, and drops those that cannot be trusted.

    Dropped are slices whose |SliceLocation| differs from |ImagePositionPatient[-1]|
    (the signs may differ; a slice without SliceLocation is kept) and further files
    with the same SOPInstanceUID or at the same position. Missing slices are reported.

    Args:
        headers: the slices of one series, in any order.

    Returns:
        The stack, and what was dropped or looks wrong.
    """
    problems: list[Problem] = []
    unique = _without_copies(headers, problems)
    slices: list[SliceHeader] = []
    position_by_uid = {}
    for header in sorted(
        _well_placed(unique, problems),
        key=lambda h: (h.z_mm, h.instance_number, h.sop_uid),
    ):
        if slices and header.z_mm - slices[-1].z_mm < _TOLERANCE_MM:
            problems.append(
                Problem(
                    "second slice at the same position",
                    header.path,
                    f"z {header.z_mm:g} mm, {slices[-1].path} is used",
                )
            )
        else:
            slices.append(header)
        position_by_uid[header.sop_uid] = len(slices) - 1
    _report_gaps(slices, problems)
    dropped = {header.sop_uid for header in unique} - set(position_by_uid)
    return Stack(tuple(slices), position_by_uid, frozenset(dropped)), problems


def read_pixels(path: files.Path, name: str) -> tuple[np.ndarray, tuple[float, float]]:
    """Reads a CT slice.

    Values below -1024 HU, which scanners put outside of their field of view, become
    -1024 (air), and values over 32767 become 32767.

    Args:
        path: the DICOM file.
        name: how the file is called in the report.

    Returns:
        image: [rows, columns] int16, in Hounsfield units.
        spacing_mm: size of a pixel (row, column).

    Raises:
        ValueError: the pixels cannot be decoded, or there is no usable pixel size.
    """
    try:
        dataset = pydicom.dcmread(path)
        # As signed or unsigned numbers, by the file's PixelRepresentation.
        pixels = dataset.pixel_array
        spacing = tuple(float(value) for value in dataset.PixelSpacing)
        slope = float(dataset.get("RescaleSlope", 1))
        intercept = float(dataset.get("RescaleIntercept", 0))
    except (InvalidDicomError, *_PYDICOM_ERRORS) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{name}: cannot read the CT slice ({reason})") from error
    if pixels.ndim != 2:
        raise ValueError(
            f"{name}: pixels of shape {list(pixels.shape)}, expected one grey slice"
        )
    if len(spacing) != 2 or not all(0 < value < 100 for value in spacing):
        raise ValueError(f"{name}: PixelSpacing {spacing}, expected two sizes in mm")
    hounsfield = pixels.astype(np.float64) * slope + intercept
    image = np.rint(hounsfield.clip(AIR_HU, np.iinfo(np.int16).max)).astype(np.int16)
    return image, (spacing[0], spacing[1])


def _without_copies(
    headers: Iterable[SliceHeader], problems: list[Problem]
) -> list[SliceHeader]:
    first: dict[str, SliceHeader] = {}
    for header in sorted(headers, key=lambda h: h.path):
        known = first.setdefault(header.sop_uid, header)
        if known is not header:
            problems.append(
                Problem(
                    "duplicate file",
                    header.path,
                    f"same SOPInstanceUID as {known.path}, which is used",
                )
            )
    return list(first.values())


def _well_placed(
    headers: Iterable[SliceHeader], problems: list[Problem]
) -> list[SliceHeader]:
    """Returns the slices whose |SliceLocation| is |ImagePositionPatient[-1]|."""
    kept = []
    for header in headers:
        location = header.slice_location_mm
        z_mm = abs(header.z_mm)
        if location is None or abs(abs(location) - z_mm) <= _TOLERANCE_MM:
            kept.append(header)
        else:
            problems.append(
                Problem(
                    "SliceLocation differs from the position",
                    header.path,
                    f"|SliceLocation| {abs(location):g}, expected "
                    f"|ImagePositionPatient[-1]| {z_mm:g}",
                )
            )
    return kept


def _report_gaps(slices: Sequence[SliceHeader], problems: list[Problem]) -> None:
    steps = [high.z_mm - low.z_mm for low, high in zip(slices, slices[1:])]
    if len(steps) < 2:
        return
    usual = statistics.median(steps)
    gaps = [step for step in steps if step > 1.5 * usual]
    if gaps:
        missing = sum(round(step / usual) - 1 for step in gaps)
        problems.append(
            Problem(
                "slices missing",
                slices[0].path.rpartition("/")[0] or slices[0].path,
                f"{len(gaps)} gaps of about {missing} slices among {len(slices)}",
            )
        )
