"""Finds CT series by their DICOM headers and reads slices in Hounsfield units."""

from __future__ import annotations

import dataclasses
import io
import math
import statistics
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pydicom
import pydicom.errors
from pydicom import filereader
from pydicom.errors import InvalidDicomError
from pydicom.filereader import data_element_generator
from pydicom.tag import BaseTag, Tag
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    RLELossless,
)

from tf_probunet import files, limits
from tf_probunet.damage import reason
from tf_probunet.imaging.problem import Problem

AIR_HU = -1024
# Rows and columns of a slice. CT scanners make 512 to 2048 of them.
MAX_SIDE = 2**13

# Reasons in the report.
MISMATCH = "SliceLocation differs from the position"
MISMATCH_KEPT = f"{MISMATCH}, kept"

# Positions are decimal strings: differences below this are rounding.
_TOLERANCE_MM = 0.01

# Tags are stored in ascending order, and Columns is the last one that is needed.
_TAGS = {
    Tag(keyword): keyword
    for keyword in (
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
}
_COLUMNS = max(_TAGS)
_META_TAGS = {Tag("TransferSyntaxUID"): "TransferSyntaxUID"}

# Nearly all headers end before this. The private tags after them are long.
_FIRST_BYTES = 2**12
# Run lengths pack at most 128 bytes into two.
_RLE_RATIO = 64
_JPEG, _JPEG_2000 = b"\xff\xd8", b"\xff\x4f\xff\x51"
# Markers of a JPEG or JPEG-LS stream: a frame with its size, other sizes than those of
# the frame, and the scan in which the pixels begin.
_FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}
_PARAMETERS, _SCAN = 0xF8, 0xDA
_OVERSIZE = 4

# pydicom and its decoders raise all of these for missing, damaged or unknown data.
_PYDICOM_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    pydicom.errors.BytesLengthException,
    struct.error,
    zlib.error,
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
        slice_location_mm: SliceLocation, None if it is missing.
        instance_number: InstanceNumber, 0 if it is missing.
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
        name: what the file is called in the report.

    Returns:
        The header; None if the file is not DICOM, or not CT.

    Raises:
        ValueError: the file is a CT slice whose header is damaged or incomplete.
    """
    header = _plain_header(files.read_start(path, _FIRST_BYTES), name)
    if header is None:
        header = _any_header(path, name)
    if header is None:
        return None
    _check_shape(header.shape, name)
    for position in (header.z_mm, header.slice_location_mm):
        if position is not None and not math.isfinite(position):
            raise ValueError(f"{name}: position {position} mm, expected a number")
    return header


def _plain_header(start: bytes, name: str) -> SliceHeader | None:
    """Reads a CT header from the first bytes of a file, if it is an ordinary one.

    pydicom's data sets would take twice the time, for a quarter of a million files.

    Returns:
        What `_any_header` would return; None if `_any_header` has to read the file.
    """
    try:
        stream = io.BytesIO(start)
        if stream.read(132)[128:] != b"DICM":
            return None
        meta = _elements(stream, _META_TAGS, last=0x0002FFFF)
        syntax = _text(meta["TransferSyntaxUID"])
        if syntax in (ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian):
            return None
        values = _elements(
            stream, _TAGS, last=_COLUMNS, is_implicit=syntax == ImplicitVRLittleEndian
        )
        sides = [values.pop("Rows"), values.pop("Columns")]
        texts = {keyword: _text(value) for keyword, value in values.items()}
        names = ("PatientID", "SeriesInstanceUID", "SOPInstanceUID")
        is_plain = all(len(side) == 2 for side in sides) and all(
            texts[keyword] and "\\" not in texts[keyword] for keyword in names
        )
        if not is_plain or texts["Modality"] != "CT":
            return None
        location = texts.get("SliceLocation")
        return SliceHeader(
            path=name,
            patient=texts["PatientID"],
            study_uid=texts.get("StudyInstanceUID", ""),
            series_uid=texts["SeriesInstanceUID"],
            sop_uid=texts["SOPInstanceUID"],
            z_mm=float(texts["ImagePositionPatient"].split("\\")[-1]),
            slice_location_mm=float(location) if location else None,
            instance_number=int(texts.get("InstanceNumber") or 0),
            shape=(
                int.from_bytes(sides[0], "little"),
                int.from_bytes(sides[1], "little"),
            ),
        )
    except _PYDICOM_ERRORS:
        return None  # Perhaps only because `start` is not the whole file.


def _elements(
    stream: io.BytesIO,
    tags: Mapping[BaseTag, str],
    *,
    last: int,
    is_implicit: bool = False,
) -> dict[str, bytes]:
    """Returns the bytes of some elements, and stops after the tag `last`."""
    found = data_element_generator(
        stream,
        is_implicit,
        True,
        stop_when=lambda tag, *_: int(tag) > last,
        specific_tags=list(tags),
    )
    # pydicom adds the character set, and None stands for an empty value.
    return {
        tags[element.tag]: element.value or b""
        for element in found
        if element.tag in tags
    }


def _text(value: bytes) -> str:
    return value.decode("ascii").strip(" \0")


def _any_header(path: files.Path, name: str) -> SliceHeader | None:
    dataset = read_dataset(
        path, name, stop_before_pixels=True, specific_tags=list(_TAGS)
    )
    if dataset is None:
        return None
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
        raise ValueError(f"{name}: incomplete CT header ({reason(error)})") from error


def read_dataset(path: files.Path, name: str, **kwargs: Any) -> pydicom.Dataset | None:
    """Reads a DICOM file.

    Args:
        path: the file.
        name: what the file is called in the report.
        **kwargs: for `pydicom.dcmread`.

    Returns:
        The data set; None if the file is not DICOM.

    Raises:
        ValueError: the file is damaged, or deflated.
    """
    try:
        with files.BoundedReader(path) as stream:
            _check_not_deflated(stream)
            return pydicom.dcmread(stream, **kwargs)
    except InvalidDicomError:
        return None
    except (OSError, *_PYDICOM_ERRORS) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # From the system: the file does not exist or may not be read.
        raise ValueError(f"{name}: damaged DICOM file ({reason(error)})") from error


def stack_slices(
    headers: Iterable[SliceHeader], *, keep_mismatch: bool = False
) -> tuple[Stack, list[Problem]]:
    """Sorts the slices of a series, and drops those that cannot be trusted.

    Dropped are slices whose |SliceLocation| differs from |ImagePositionPatient[-1]|
    (the signs may differ; a slice without SliceLocation is kept) and further files
    with the same SOPInstanceUID or at the same position. Slices that are missing from
    the files are reported.

    Args:
        headers: the slices of one series, in any order.
        keep_mismatch: keep slices whose SliceLocation differs; they are reported.

    Returns:
        The stack, and what was dropped or looks wrong.
    """
    problems: list[Problem] = []
    unique = _without_copies(headers, problems)
    slices: list[SliceHeader] = []
    position_by_uid = {}
    for header in sorted(
        _well_placed(unique, keep_mismatch, problems),
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
    _report_gaps(unique, problems)
    dropped = {header.sop_uid for header in unique} - set(position_by_uid)
    return Stack(tuple(slices), position_by_uid, frozenset(dropped)), problems


def read_pixels(path: files.Path, name: str) -> tuple[np.ndarray, tuple[float, float]]:
    """Reads a CT slice.

    Values below -1024 HU, which scanners put outside of their field of view, become
    -1024 (air), and values over 32767 become 32767.

    Args:
        path: the DICOM file.
        name: what the file is called in the report.

    Returns:
        image: [rows, columns] int16, in Hounsfield units.
        spacing_mm: size of a pixel (row, column).

    Raises:
        ValueError: the pixels cannot be decoded, or there is no usable pixel size.
    """
    dataset = read_dataset(path, name)
    if dataset is None:
        raise ValueError(f"{name}: not a DICOM file, expected a CT slice")
    try:
        # Before the decoders allocate memory for what the header announces.
        _check_shape((int(dataset.Rows), int(dataset.Columns)), name)
        if int(dataset.get("NumberOfFrames") or 1) != 1:
            raise ValueError(f"{dataset.NumberOfFrames} frames, expected one")
        if int(dataset.get("SamplesPerPixel") or 1) != 1:
            raise ValueError(f"{dataset.SamplesPerPixel} colours, expected grey")
        _check_packed_pixels(dataset)
        # As signed or unsigned numbers, by the file's PixelRepresentation.
        pixels = dataset.pixel_array
        spacing = tuple(float(value) for value in dataset.PixelSpacing)
        slope = float(dataset.get("RescaleSlope", 1))
        intercept = float(dataset.get("RescaleIntercept", 0))
    except _PYDICOM_ERRORS as error:
        raise ValueError(
            f"{name}: cannot read the CT slice ({reason(error)})"
        ) from error
    if pixels.ndim != 2:
        raise ValueError(
            f"{name}: pixels of shape {list(pixels.shape)}, expected one grey slice"
        )
    if len(spacing) != 2 or not all(0 < value < 100 for value in spacing):
        raise ValueError(f"{name}: PixelSpacing {spacing}, expected two sizes in mm")
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ValueError(
            f"{name}: rescaled by {slope} and {intercept}, expected two numbers"
        )
    # In place: real numbers need four times the memory of the pixels. Whole numbers,
    # which most scanners give, need half of that and half the time.
    is_whole = all(v.is_integer() and abs(v) < 2**14 for v in (slope, intercept))
    if is_whole and pixels.dtype.itemsize <= 2:
        hounsfield: np.ndarray = pixels.astype(np.int32)
        hounsfield *= int(slope)
        hounsfield += int(intercept)
    else:
        hounsfield = pixels.astype(np.float64)
        hounsfield *= slope
        hounsfield += intercept
    hounsfield.clip(AIR_HU, np.iinfo(np.int16).max, out=hounsfield)
    image = np.rint(hounsfield).astype(np.int16)
    return image, (spacing[0], spacing[1])


def _check_shape(shape: tuple[int, int], name: str) -> None:
    if not all(1 <= side <= MAX_SIDE for side in shape):
        raise ValueError(
            f"{name}: {shape[0]} x {shape[1]} pixels, expected 1 to {MAX_SIDE} each way"
        )


def _check_not_deflated(stream: files.BoundedReader) -> None:
    """Refuses deflated files, which pydicom would unpack without a limit."""
    # pydicom finds the transfer syntax in the same way, so nothing gets past this.
    filereader.read_preamble(stream, force=False)
    syntax = filereader._read_file_meta_info(stream).get("TransferSyntaxUID")
    if syntax == DeflatedExplicitVRLittleEndian:
        raise ValueError("deflated, which is not read")
    stream.seek(0)


def _check_packed_pixels(dataset: pydicom.Dataset) -> None:
    """Checks that packed pixels unpack to what the header announces, not to more."""
    syntax = dataset.file_meta.TransferSyntaxUID
    if not syntax.is_encapsulated:
        return
    stream = _packed_stream(dataset)
    if syntax == RLELossless:
        limits.check(_RLE_RATIO * len(stream), f"{len(stream)} bytes of run lengths")
        return
    expected = (int(dataset.Rows), int(dataset.Columns), 1)
    for size in _stream_sizes(stream):
        if size != expected:
            raise ValueError(
                f"packed pixels of {size[0]} x {size[1]} in {size[2]} colours, but "
                f"the header announces {expected[0]} x {expected[1]} in grey"
            )


def _packed_stream(dataset: pydicom.Dataset) -> bytes:
    """Returns the packed pixels of a file of one frame."""
    content, items, place = dataset.PixelData, [], 0
    while content[place : place + 4] == b"\xfe\xff\x00\xe0":
        (length,) = struct.unpack_from("<I", content, place + 4)
        items.append(content[place + 8 : place + 8 + length])
        place += 8 + length
    # An offset other than 0 would lead a decoder elsewhere.
    if not items or items[0].strip(b"\0") or len(items[0]) > 4:
        raise ValueError("packed pixels of several frames, expected one")
    if "ExtendedOffsetTable" in dataset:
        raise ValueError("packed pixels with an extended offset table, expected none")
    return b"".join(items[1:])


def _stream_sizes(stream: bytes) -> list[tuple[int, int, int]]:
    """Returns rows, columns and colours that JPEG, JPEG-LS or JPEG 2000 announces."""
    if stream.startswith(_JPEG_2000):
        right, bottom, left, top = struct.unpack_from(">4I", stream, 8)
        return [(bottom - top, right - left, *struct.unpack_from(">H", stream, 40))]
    if not stream.startswith(_JPEG):
        raise ValueError("packed pixels of an unknown kind")
    sizes, place, marker = [], 2, None
    while marker != _SCAN:
        start, marker, length = struct.unpack_from(">BBH", stream, place)
        if start != 0xFF:
            raise ValueError("packed pixels without a header of their own")
        if marker == 0xFF:  # A fill byte.
            place += 1
            continue
        if marker in _FRAMES:
            sizes.append(struct.unpack_from(">HHB", stream, place + 5))
        if marker == _PARAMETERS and stream[place + 4] == _OVERSIZE:
            raise ValueError("packed pixels of over 65535 rows or columns")
        place += 2 + length
    if not sizes:
        raise ValueError("packed pixels without a size")
    return sizes


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
    headers: Iterable[SliceHeader], keep_mismatch: bool, problems: list[Problem]
) -> list[SliceHeader]:
    """Returns the slices whose |SliceLocation| is |ImagePositionPatient[-1]|."""
    kept = []
    for header in headers:
        location = header.slice_location_mm
        z_mm = abs(header.z_mm)
        if location is None or abs(abs(location) - z_mm) <= _TOLERANCE_MM:
            kept.append(header)
        else:
            if keep_mismatch:
                kept.append(header)
            problems.append(
                Problem(
                    MISMATCH_KEPT if keep_mismatch else MISMATCH,
                    header.path,
                    f"|SliceLocation| {abs(location):g}, expected "
                    f"|ImagePositionPatient[-1]| {z_mm:g}",
                    expected=True,
                )
            )
    return kept


def _report_gaps(headers: Sequence[SliceHeader], problems: list[Problem]) -> None:
    ordered = sorted(headers, key=lambda h: (h.z_mm, h.path))
    pairs = [
        (low, high)
        for low, high in zip(ordered, ordered[1:])
        if high.z_mm - low.z_mm >= _TOLERANCE_MM
    ]
    if len(pairs) < 2:
        return
    steps = [high.z_mm - low.z_mm for low, high in pairs]
    distance = _slice_distance(
        steps, [abs(high.instance_number - low.instance_number) for low, high in pairs]
    )
    gaps = [step for step in steps if step > 1.5 * distance]
    if gaps:
        missing = sum(round(step / distance) - 1 for step in gaps)
        problems.append(
            Problem(
                "slices missing",
                ordered[0].path.rpartition("/")[0] or ordered[0].path,
                f"{len(gaps)} gaps of about {missing} slices in all among "
                f"{len(ordered)}, {distance:g} mm apart",
            )
        )


def _slice_distance(steps: Sequence[float], numbers: Sequence[int]) -> float:
    """Returns how far apart the slices of a whole series would be.

    Where many are missing, the usual step is longer than that. Most steps are
    multiples of it, though, and the slices are numbered.

    Args:
        steps: mm from each slice to the next.
        numbers: by how much InstanceNumber differs between them.
    """
    # Where all numbers are even, say, every second one belongs to something else.
    common = math.gcd(*numbers)
    numbered = [step / (n // common) for step, n in zip(steps, numbers) if n]
    guesses = sorted({round(step, 3) for step in steps}, reverse=True)
    if numbered:
        guesses.insert(0, statistics.median(numbered))
    for guess in guesses:
        multiples = [step / guess for step in steps]
        fitting = sum(m > 0.9 and abs(m - round(m)) < 0.1 for m in multiples)
        if fitting >= 0.9 * len(steps):
            return guess
    return statistics.median(steps)
