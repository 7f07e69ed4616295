"""Puts the radiologists' outlines on the slices of their scan."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from tf_probunet.imaging import dicom
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.lidc import annotation_xml
from tf_probunet.preparation.lidc.lesions import Annotation
from tf_probunet.preparation.lidc.outlines import slice_mask
from tf_probunet.preparation.runner import UnitResult

# A reason in the report: the SliceLocation rule dropped the slice.
DROPPED_OUTLINE = "outline on a dropped slice"

# Positions are given to a thousandth of a millimetre; slices are 0.6 mm apart or more.
_Z_TOLERANCE_MM = 0.1


def read_annotations(
    readings: Sequence[annotation_xml.Reading],
    stack: dicom.Stack,
    annotation_file: str,
    result: UnitResult,
) -> list[Annotation]:
    """Puts all outlines on their slices and fills them.

    Args:
        readings: of the radiologists.
        stack: the slices of the scan.
        annotation_file: its name, for the report.
        result: receives the problems and counts.

    Returns:
        The annotations that have at least one pixel on a usable slice.
    """
    annotations = []
    for grader, reading in enumerate(readings):
        for nodule in reading.nodules:
            where = f"{annotation_file}, reading {grader + 1}, {nodule.name}"
            pixels = _nodule_pixels(nodule, stack, where, result)
            if pixels:
                annotations.append(Annotation(grader, pixels))
    return annotations


def locate(
    region: annotation_xml.Region, stack: dicom.Stack, where: str
) -> tuple[int | None, list[Problem]]:
    """Finds the slice an outline was drawn on: by SOPInstanceUID, else by position.

    Args:
        region: the outline.
        stack: the slices of the scan.
        where: name of the outline's lesion, for the report.

    Returns:
        The index of the slice, or None; and what contradicts it.
    """
    index = stack.position_by_uid.get(region.sop_uid)
    if index is not None:
        return index, _contradiction(region, stack.slices[index], where)
    if region.sop_uid in stack.dropped_uids:
        dropped = Problem(DROPPED_OUTLINE, where, region.sop_uid, expected=True)
        return None, [dropped]
    if region.z_mm is not None and stack.slices:
        gaps = [abs(header.z_mm - region.z_mm) for header in stack.slices]
        nearest = int(np.argmin(gaps))
        if gaps[nearest] <= _Z_TOLERANCE_MM:
            return nearest, []
    detail = f"imageSOP_UID {region.sop_uid or 'missing'}, z {region.z_mm} mm"
    return None, [Problem("outline on a slice that is not there", where, detail)]


def _contradiction(
    region: annotation_xml.Region, header: dicom.SliceHeader, where: str
) -> list[Problem]:
    # Some series have SliceLocation, and their outlines, with the opposite sign.
    positions = (header.z_mm, header.slice_location_mm)
    if region.z_mm is None or any(
        position is not None and abs(position - region.z_mm) <= _Z_TOLERANCE_MM
        for position in positions
    ):
        return []
    detail = (
        f"z {region.z_mm:g} mm, but its imageSOP_UID is that of {header.path} at "
        f"{header.z_mm:g} mm, which is used"
    )
    return [Problem("outline's position contradicts its slice", where, detail)]


def _nodule_pixels(
    nodule: annotation_xml.Nodule, stack: dicom.Stack, where: str, result: UnitResult
) -> dict[int, np.ndarray]:
    regions = collections.defaultdict(list)
    for region in nodule.regions:
        index, problems = locate(region, stack, where)
        result.problems += problems
        if index is not None:
            regions[index].append(region)
            if region.sop_uid not in stack.position_by_uid:
                result.count("outlines found by position, not by SOPInstanceUID")
    pixels = {}
    for index, on_slice in sorted(regions.items()):
        header = stack.slices[index]
        try:
            mask = slice_mask(on_slice, header.shape)
        except ValueError as error:
            result.problems.append(
                Problem("outline outside of the slice", where, str(error))
            )
            continue
        marked = np.flatnonzero(mask)  # Much faster than in two dimensions.
        if len(marked):
            pixels[index] = np.stack(np.divmod(marked, mask.shape[1]), axis=1)
        else:
            result.problems.append(
                Problem(
                    "outline without a pixel inside",
                    where,
                    f"on {header.path}",
                    expected=True,
                )
            )
    return pixels
