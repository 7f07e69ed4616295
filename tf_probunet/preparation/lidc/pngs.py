"""LIDC images that others have cut out already, as PNG files in two known layouts."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib

import numpy as np
import PIL.Image

from tf_probunet import damage, files
from tf_probunet.dataset.records import Example
from tf_probunet.hashing import content_hash
from tf_probunet.imaging.problem import Problem
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
        size: expected pixels on each side.
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
    root = _directory(root)
    by_patient = collections.defaultdict(list)
    for folder in _first_match(root, ("*/nodule-*/images", "*/*/nodule-*/images")):
        nodule = folder.parent
        patient = nodule.parent.name
        for name in _png_names(folder):
            masks = [nodule / f"mask-{grader}" / name for grader in range(NUM_GRADERS)]
            by_patient[patient].append(
                ImageFiles(
                    key=f"{patient}_{nodule.name}_{pathlib.Path(name).stem}",
                    image=_relative(folder / name, root),
                    masks=tuple(_relative(mask, root) for mask in masks),
                )
            )
    if not by_patient:
        raise ValueError(
            f"{root}: no <patient>/nodule-K/images/*.png found, as expected of "
            f"--format=png_slices"
        )
    return _source(root, by_patient, size=128)


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
    root = _directory(root)
    by_patient = collections.defaultdict(list)
    splits = {split: set() for split in SPLITS}
    for folder in _first_match(root, ("*/images/*", "*/*/images/*")):
        patient, split_dir = folder.name, folder.parent.parent
        if split_dir.name not in splits or not folder.is_dir():
            continue
        for name in _png_names(folder):
            stem = pathlib.Path(name).stem
            masks = [
                split_dir / "gt" / patient / f"{stem}_l{grader}.png"
                for grader in range(NUM_GRADERS)
            ]
            splits[split_dir.name].add(patient)
            by_patient[patient].append(
                ImageFiles(
                    key=f"{patient}_{stem}",
                    image=_relative(folder / name, root),
                    masks=tuple(_relative(mask, root) for mask in masks),
                )
            )
    if not by_patient:
        raise ValueError(
            f"{root}: no {{train,val,test}}/images/<patient>/*.png found, as expected "
            f"of --format=crops"
        )
    found = _source(root, by_patient, size=180)
    return dataclasses.replace(
        found, splits={split: sorted(names) for split, names in splits.items()}
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


def _source(
    root: pathlib.Path, by_patient: dict[str, list[ImageFiles]], size: int
) -> Source:
    items = [
        Item(patient, patient, PatientTask(str(root), patient, tuple(images), size))
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
            # Other sizes are not unpacked, whatever they are.
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


def _directory(root: files.Path) -> pathlib.Path:
    root = pathlib.Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such directory")
    return root


def _first_match(root: pathlib.Path, patterns: tuple[str, ...]) -> list[pathlib.Path]:
    """Returns the sorted paths of the first pattern that fits any."""
    return next((found for p in patterns if (found := sorted(root.glob(p)))), [])


def _png_names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".png")


def _relative(path: pathlib.Path, root: pathlib.Path) -> str:
    return path.relative_to(root).as_posix()
