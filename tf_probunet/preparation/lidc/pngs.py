"""Reads ready-made crops of LIDC, as PNG files in two known layouts."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re

import numpy as np
import PIL.Image

from tf_probunet import damage, files
from tf_probunet.dataset.records import Example
from tf_probunet.hashing import content_hash
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.preparation import tree
from tf_probunet.preparation.lidc.source import NUM_GRADERS, Item, Source, add_example
from tf_probunet.preparation.runner import Unit, UnitResult
from tf_probunet.preparation.splits import SPLITS


@dataclasses.dataclass(frozen=True)
class ImageFiles:
    """An image with its masks, as paths relative to the input directory."""

    key: str
    image: str
    masks: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PatientTask:
    """All images of a patient.

    Attributes:
        root: the input directory.
        patient: name of the patient.
        images: their files.
        size: expected height and width in pixels.
    """

    root: str
    patient: str
    images: tuple[ImageFiles, ...]
    size: int


def slices_source(root: files.Path) -> Source:
    """Finds `<patient>/nodule-K/{images,mask-0,...,mask-3}/slice-J.png`.

    Args:
        root: the directory of the patients, or the one above it.

    Returns:
        The images by patient, 128 x 128 pixels each.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: the directory is of another layout.
    """
    root = tree.check_directory(root)
    found, problems = _find(
        root, re.compile(r"(.*)/(nodule-[^/]*)/images/([^/]+)\.png")
    )
    by_patient = collections.defaultdict(list)
    for image, (folder, nodule, stem) in found:
        patient = pathlib.PurePosixPath(folder).name
        by_patient[patient].append(
            ImageFiles(
                key=f"{patient}_{nodule}_{stem}",
                image=image,
                masks=tuple(
                    f"{folder}/{nodule}/mask-{grader}/{stem}.png"
                    for grader in range(NUM_GRADERS)
                ),
            )
        )
    if not by_patient:
        raise ValueError(
            f"{root}: no <patient>/nodule-K/images/*.png found, as expected of "
            f"--format=png_slices{reasons(problems)}"
        )
    return _source(root, by_patient, problems, size=128)


def crops_source(root: files.Path) -> Source:
    """Finds `{train,val,test}/{images,gt}/<patient>/`, the paper authors' own crops.

    Args:
        root: the directory of the splits, or the one above it.

    Returns:
        The images by patient, 180 x 180 pixels each, with their split.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: the directory is of another layout.
    """
    root = tree.check_directory(root)
    layout = rf"((?:.*/)?({'|'.join(SPLITS)}))/images/([^/]*)/([^/]+)\.png"
    found, problems = _find(root, re.compile(layout))
    by_patient = collections.defaultdict(list)
    splits: dict[str, set[str]] = {split: set() for split in SPLITS}
    for image, (folder, split, patient, stem) in found:
        splits[split].add(patient)
        by_patient[patient].append(
            ImageFiles(
                key=f"{patient}_{stem}",
                image=image,
                masks=tuple(
                    f"{folder}/gt/{patient}/{stem}_l{grader}.png"
                    for grader in range(NUM_GRADERS)
                ),
            )
        )
    if not by_patient:
        raise ValueError(
            f"{root}: no {{train,val,test}}/images/<patient>/*.png found, as expected "
            f"of --format=crops{reasons(problems)}"
        )
    source = _source(root, by_patient, problems, size=180)
    return dataclasses.replace(
        source, splits={split: sorted(names) for split, names in splits.items()}
    )


def process_patient(unit: Unit) -> UnitResult:
    """Reads the images of a patient.

    Args:
        unit: with a split and a `PatientTask`.

    Returns:
        Examples of [size, size, 1] uint8 with four masks each.
    """
    split, task = unit.payload
    result = UnitResult()
    for paths in task.images:
        try:
            image = _read_grey(task, paths.image)
            labels = np.stack([_read_mask(task, mask) for mask in paths.masks])
        except FileNotFoundError as error:
            missing = os.path.relpath(error.filename, task.root)
            result.problems.append(Problem("file missing", missing))
        except ValueError as error:
            result.problems.append(Problem("unusable file", paths.image, str(error)))
        else:
            example = Example(
                key=paths.key, group=task.patient, image=image[..., None], labels=labels
            )
            add_example(result, split, example)
    return result


def _find(
    root: pathlib.Path, layout: re.Pattern[str]
) -> tuple[list[tuple[str, tuple[str, ...]]], list[Problem]]:
    """Returns the images of a layout of four levels, or of five if there are none.

    Each comes with the parts of its path that the layout names.
    """
    names, problems = tree.list_files(root, max_depth=5)
    found = [(n, match.groups()) for n in names if (match := layout.fullmatch(n))]
    for depth in (4, 5):
        images = [image for image in found if image[0].count("/") + 1 == depth]
        if images:
            return images, problems
    return [], problems


def _source(
    root: pathlib.Path,
    by_patient: dict[str, list[ImageFiles]],
    problems: list[Problem],
    size: int,
) -> Source:
    items = [
        Item(
            patient,
            patient,
            PatientTask(str(root), patient, tuple(images), size),
            tuple(
                os.path.join(root, name)
                for image in images
                for name in (image.image, *image.masks)
            ),
        )
        for patient, images in sorted(by_patient.items())
    ]
    paths = [image for images in by_patient.values() for image in images]
    return Source(
        items=items,
        process=process_patient,
        groups=sorted(by_patient),
        image_size=size,
        image_dtype="uint8",
        content=content_hash(
            f"{path.image} {(root / path.image).stat().st_size}" for path in paths
        ),
        problems=problems,
        counts={"image files": len(paths)},
    )


def _read_mask(task: PatientTask, name: str) -> np.ndarray:
    values = _read_grey(task, name)
    found = np.unique(values)
    if len(found) > 2 or (len(found) == 2 and found[0] != 0):
        raise ValueError(
            f"{name}: {len(found)} grey values from {found[0]} to {found[-1]}, "
            f"expected a mask of 0 and one other value"
        )
    return (values > 0).astype(np.uint8)


def _read_grey(task: PatientTask, name: str) -> np.ndarray:
    """Reads an 8-bit grey PNG, [size, size] uint8."""
    path = pathlib.Path(task.root, name)
    try:
        with files.BoundedReader(path) as file:
            image = PIL.Image.open(file, formats=["PNG"])
            mode, size = image.mode, image.size
            fits = mode in ("L", "1") and size == (task.size, task.size)
            # Pictures of other sizes are not decoded.
            values = np.array(image) if fits else None
    except FileNotFoundError:
        raise
    except damage.PICTURE as error:
        raise ValueError(f"{name}: damaged PNG ({damage.reason(error)})") from error
    if mode not in ("L", "1"):
        raise ValueError(f"{name}: PNG of mode {mode!r}, expected 8-bit grey")
    if values is None:
        raise ValueError(
            f"{name}: {size[0]} x {size[1]} pixels, expected {task.size} x {task.size}"
        )
    return values.astype(np.uint8)
