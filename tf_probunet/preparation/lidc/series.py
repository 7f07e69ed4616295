"""Turns one annotated CT scan into the paper's lesion-centred images."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from tf_probunet import files
from tf_probunet.dataset.records import Example
from tf_probunet.hashing import content_hash, salted_hash
from tf_probunet.imaging import dicom
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.preparation.lidc import (
    annotation_xml,
    crops,
)
from tf_probunet.preparation.lidc import (
    annotations as lidc_annotations,
)
from tf_probunet.preparation.lidc import (
    lesions as lidc_lesions,
)
from tf_probunet.preparation.lidc.annotations import read_annotations
from tf_probunet.preparation.lidc.lesions import Annotation
from tf_probunet.preparation.lidc.scans import Scan, find_scans
from tf_probunet.preparation.lidc.source import NUM_GRADERS, Item, Source, add_example
from tf_probunet.preparation.runner import Unit, UnitResult


@dataclasses.dataclass(frozen=True)
class ScanTask:
    """The input of a worker that processes a scan.

    Attributes:
        root: directory that the paths of the slices are relative to.
        xml_root: directory that the path of the annotation file is relative to.
        scan: the series and its annotation file.
        keep_mismatch: keep slices whose SliceLocation differs from their position.
    """

    root: str
    xml_root: str
    scan: Scan
    keep_mismatch: bool = False


def source(
    root: files.Path,
    num_workers: int = 1,
    *,
    xml_dir: files.Path | None = None,
    keep_slice_location_mismatch: bool = False,
) -> Source:
    """Finds the scans of a download of LIDC-IDRI, or of any part of it.

    Args:
        root: the directory.
        num_workers: processes that read the headers; 0 stands for one per core.
        xml_dir: directory of the annotation files; None if under `root`.
        keep_slice_location_mismatch: don't drop slices by the SliceLocation rule.

    Returns:
        The scans; images are 180 x 180 pixels of 0.5 mm in Hounsfield units.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: it holds no CT slice, or none with its annotation file.
    """
    found = find_scans(root, num_workers, xml_dir)
    xml_root = root if xml_dir is None else xml_dir
    if not found.scans:
        raise ValueError(
            f"{root}: {found.counts['CT series']} CT series, but none with its "
            f"annotation file ({found.counts.get('CT annotation files', 0)} in "
            f"{xml_root}); name the directory of the XML files with --xml_dir"
            f"{reasons(found.problems)}"
        )
    recipe = {
        "spacing_mm": crops.SPACING_MM,
        "outside_hu": dicom.AIR_HU,
        "outline": "excluded",
    }
    if keep_slice_location_mismatch:
        recipe["slice_location_mismatch"] = "kept"
    return Source(
        items=[
            Item(
                scan_id(scan),
                scan.patient,
                ScanTask(str(root), str(xml_root), scan, keep_slice_location_mismatch),
                (
                    os.path.join(xml_root, scan.annotation_file),
                    *(os.path.join(root, header.path) for header in scan.headers),
                ),
            )
            for scan in found.scans
        ],
        process=process_scan,
        groups=found.patients,
        image_size=crops.SIZE,
        image_dtype="int16",
        content=content_hash(
            f"{header.path} {header.sop_uid}"
            for scan in found.scans
            for header in scan.headers
        ),
        recipe=recipe,
        problems=found.problems,
        counts=found.counts,
    )


def scan_id(scan: Scan) -> str:
    """Returns a short name of a scan; patients with two scans have two of them."""
    return f"{scan.patient}_{salted_hash(scan.series_uid, 'series') >> 40:06x}"


def process_scan(unit: Unit) -> UnitResult:
    """Makes the examples of one scan: one for each lesion and slice.

    Args:
        unit: with a split and a `ScanTask`.

    Returns:
        Examples of [180, 180, 1] int16 in Hounsfield units with four masks each.

    Raises:
        ValueError: the annotation file cannot be read or does not hold four readings.
    """
    split, task = unit.payload
    annotation_file = task.scan.annotation_file
    readings = annotation_xml.read_readings(
        pathlib.Path(task.xml_root, annotation_file)
    )
    if len(readings) != NUM_GRADERS:
        raise ValueError(
            f"{annotation_file}: {len(readings)} reading sessions, expected "
            f"{NUM_GRADERS}"
        )
    stack, problems = dicom.stack_slices(
        task.scan.headers, keep_mismatch=task.keep_mismatch
    )
    result = UnitResult(problems=problems)
    _report_recipe_drops(readings, annotation_file, result)
    annotations = read_annotations(readings, stack, annotation_file, result)
    lesions = lidc_lesions.group(annotations)
    result.count("scans")
    result.count("scans with lesions", int(any(r.nodules for r in readings)))
    _report_mismatch(task, stack, result)
    result.count("lesions", len(lesions))
    result.count("annotations of lesions", len(annotations))
    merged = sum(len({a.grader for a in lesion}) < len(lesion) for lesion in lesions)
    result.count("lesions with several annotations of one grader", merged)
    _add_examples(split, task, stack, lesions, result)
    result.count("scans with images", int(bool(result.examples)))
    return result


def _report_recipe_drops(
    readings: Sequence[annotation_xml.Reading], annotation_file: str, result: UnitResult
) -> None:
    """Reports what the recipe leaves out, which is not a fault of the files."""
    drops = {
        "lesions given as a single point (under 3 mm)": sum(
            reading.small_nodules for reading in readings
        ),
        "non-nodules": sum(reading.non_nodules for reading in readings),
        "single-point regions of lesions given as outlines": sum(
            len(reading.single_point_regions) for reading in readings
        ),
    }
    for name, number in drops.items():
        result.count(f"{name}, dropped", number)
        if number:
            result.problems.append(
                Problem(name, annotation_file, f"{number} dropped", expected=True)
            )


def _report_mismatch(task: ScanTask, stack: dicom.Stack, result: UnitResult) -> None:
    """Reports what the SliceLocation rule dropped; some scans lose all slices."""
    reasons = collections.Counter(problem.reason for problem in result.problems)
    slices = reasons[dicom.MISMATCH]
    outlines = reasons[lidc_annotations.DROPPED_OUTLINE]
    lost = not stack.slices
    for name, number in {
        "slices dropped by the SliceLocation rule": slices,
        "outlines dropped by the SliceLocation rule": outlines,
        "scans that lost all slices by the SliceLocation rule": int(lost),
        "slices kept against the SliceLocation rule": reasons[dicom.MISMATCH_KEPT],
    }.items():
        if number:
            result.count(name, number)
    if lost:
        result.problems.append(
            Problem(
                "scan that lost all slices by the SliceLocation rule",
                scan_id(task.scan),
                f"{slices} slices, {outlines} outlines; "
                f"--keep_slice_location_mismatch keeps them",
                expected=True,
            )
        )


def _add_examples(
    split: str,
    task: ScanTask,
    stack: dicom.Stack,
    lesions: Sequence[Sequence[Annotation]],
    result: UnitResult,
) -> None:
    marked = collections.defaultdict(list)
    for number, lesion in enumerate(lesions):
        for index in sorted({i for annotation in lesion for i in annotation.pixels}):
            marked[index].append((number, lesion))
    for index, on_slice in sorted(marked.items()):
        header = stack.slices[index]
        try:
            image, spacing_mm = dicom.read_pixels(
                pathlib.Path(task.root, header.path), header.path
            )
        except (ValueError, OSError) as error:
            result.problems.append(Problem("unreadable slice", header.path, str(error)))
            continue
        for number, lesion in on_slice:
            masks = lidc_lesions.grader_masks(lesion, index, image.shape, NUM_GRADERS)
            crop, labels = crops.crop(image, masks, spacing_mm)
            example = Example(
                key=f"{scan_id(task.scan)}_n{number:02d}_z{header.z_mm:.2f}",
                group=task.scan.patient,
                image=crop[..., None],
                labels=labels.astype(np.uint8),
                spacing_mm=(crops.SPACING_MM, crops.SPACING_MM),
            )
            add_example(result, split, example)
