"""Reads the radiologists' outlines from an LIDC-IDRI annotation file (XML)."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from xml.etree.ElementTree import Element, ParseError

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from tf_probunet import files

CT_MESSAGE = "LidcReadMessage"
XRAY_MESSAGE = "IdriReadMessage"

# The largest annotation files of LIDC-IDRI are below 2 MB. Parsed elements take a
# hundred times that memory, and seconds for each megabyte.
_MAX_BYTES = 2**22
# More than any slice has columns or rows.
_MAX_COORDINATE = 2**31


@dataclasses.dataclass(frozen=True)
class MessageHeader:
    """What an annotation file says about itself.

    Attributes:
        kind: name of the root element without its namespace.
        series_uid: SeriesInstanceUID of the scan, "" where it is not given.
        study_uid: StudyInstanceUID of the scan, "" where it is not given.
    """

    kind: str
    series_uid: str
    study_uid: str


@dataclasses.dataclass(frozen=True)
class Region:
    """One outline on one slice.

    Attributes:
        sop_uid: SOPInstanceUID of the slice it was drawn on.
        z_mm: z position of that slice as the file gives it; None if it does not.
        inclusion: False for a hole.
        points: (column, row) of the outline's pixels in drawing order; an outline
            may be unclosed and may repeat points.
    """

    sop_uid: str
    z_mm: float | None
    inclusion: bool
    points: tuple[tuple[int, int], ...]

    @property
    def is_single_point(self) -> bool:
        """Whether the region marks a position instead of enclosing an area."""
        return len(set(self.points)) == 1


@dataclasses.dataclass(frozen=True)
class Nodule:
    """One radiologist's annotation of one lesion of 3 mm or more."""

    name: str
    regions: tuple[Region, ...]


@dataclasses.dataclass(frozen=True)
class Reading:
    """One radiologist's unblinded reading of a scan.

    Attributes:
        nodules: the lesions given as outlines; their single-point regions are left
            out.
        small_nodules: how many lesions were given as a single point (under 3 mm).
        non_nodules: how many non-nodules were marked.
        single_point_regions: names of the nodules that had outlines and also regions
            of a single point; once for each such region.
    """

    nodules: tuple[Nodule, ...]
    small_nodules: int
    non_nodules: int
    single_point_regions: tuple[str, ...]


def read_header(path: files.Path) -> MessageHeader:
    """Reads which scan an annotation file belongs to.

    Args:
        path: the XML file.

    Returns:
        Its header.

    Raises:
        ValueError: the file is not well-formed, or holds entities or a DTD.
    """
    root = _parse(path)
    uids = {"seriesinstanceuid": "", "studyinstanceuid": ""}
    header = _child(root, "ResponseHeader")
    for element in header if header is not None else ():
        name = _local(element).lower()  # "SeriesInstanceUid" in CT files
        if name in uids:
            uids[name] = (element.text or "").strip()
    return MessageHeader(
        kind=_local(root),
        series_uid=uids["seriesinstanceuid"],
        study_uid=uids["studyinstanceuid"],
    )


def read_readings(path: files.Path) -> list[Reading]:
    """Reads the unblinded readings of a CT scan, one for each radiologist.

    Args:
        path: the XML file, a `LidcReadMessage`.

    Returns:
        The readings in the file's order.

    Raises:
        ValueError: the file is not a CT annotation file, is not well-formed, holds
            entities or a DTD, or a value in it cannot be read.
    """
    root = _parse(path)
    if _local(root) != CT_MESSAGE:
        raise ValueError(
            f"{path}: expected the root element {CT_MESSAGE}, got {_local(root)[:80]}"
        )
    try:
        return [_reading(session) for session in _children(root, "readingSession")]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(path: files.Path) -> Element:
    size = pathlib.Path(path).stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{path}: {size} bytes, expected at most {_MAX_BYTES}")
    try:
        # In one piece: before version 2.6, expat goes through a long comment again for
        # each further piece of it.
        content = pathlib.Path(path).read_bytes()
        return ElementTree.fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ValueError(
            f"{path}: refused, expected plain XML without a DTD or entities "
            f"({type(error).__name__})"
        ) from error
    except (ParseError, LookupError, ValueError) as error:
        # LookupError and ValueError: of an encoding that does not exist or fit.
        raise ValueError(f"{path}: not well-formed XML ({error})") from error


def _reading(session: Element) -> Reading:
    nodules, small, single_points = [], 0, []
    for element in _children(session, "unblindedReadNodule"):
        name = _text(element, "noduleID", default="unnamed")
        regions = [_region(roi, name) for roi in _children(element, "roi")]
        outlines = tuple(region for region in regions if not region.is_single_point)
        if outlines:
            nodules.append(Nodule(name=name, regions=outlines))
            single_points += [name] * (len(regions) - len(outlines))
        else:
            small += 1
    return Reading(
        nodules=tuple(nodules),
        small_nodules=small,
        non_nodules=len(_children(session, "nonNodule")),
        single_point_regions=tuple(single_points),
    )


def _region(roi: Element, nodule: str) -> Region:
    points = tuple(
        (_integer(edge, "xCoord", nodule), _integer(edge, "yCoord", nodule))
        for edge in _children(roi, "edgeMap")
    )
    if not points:
        raise ValueError(f"nodule {nodule[:80]!r} has a region without edgeMap points")
    z_text = _text(roi, "imageZposition", default="")
    z_mm = _number(z_text, nodule) if z_text else None
    inclusion = _text(roi, "inclusion", default="TRUE").upper()
    if inclusion not in ("TRUE", "FALSE"):
        raise ValueError(
            f"nodule {nodule[:80]!r} has inclusion {inclusion[:80]!r}, expected TRUE "
            "or FALSE"
        )
    return Region(
        sop_uid=_text(roi, "imageSOP_UID", default=""),
        z_mm=z_mm,
        inclusion=inclusion == "TRUE",
        points=points,
    )


def _number(text: str, nodule: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"nodule {nodule[:80]!r} has imageZposition {text[:80]!r}, expected a "
            "number"
        )
    return number


def _integer(parent: Element, name: str, nodule: str) -> int:
    text = _text(parent, name, default="")
    try:
        number = int(text)
    except ValueError:
        number = _MAX_COORDINATE
    if not -_MAX_COORDINATE < number < _MAX_COORDINATE:
        raise ValueError(
            f"nodule {nodule[:80]!r} has {name} {text[:80]!r}, expected a whole number"
        )
    return number


def _local(element: Element) -> str:
    """Returns an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def _children(parent: Element, name: str) -> list[Element]:
    return [element for element in parent if _local(element) == name]


def _child(parent: Element, name: str) -> Element | None:
    return next(iter(_children(parent, name)), None)


def _text(parent: Element, name: str, *, default: str) -> str:
    """Returns a child's text without surrounding blanks."""
    child = _child(parent, name)
    text = (child.text or "").strip() if child is not None else ""
    return text or default
