"""Reads what the user gave: files, a series, or a folder of pictures."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from tf_probunet.imaging import read_dicom, read_file
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage


def read_inputs(inputs: Sequence[str], crop: CropConfig) -> list[InputImage]:
    """Reads all images, and checks that their values are finite.

    Args:
        inputs: files or directories. DICOM files of a directory, or given together,
            are the slices of one series. A directory that has no image of its own is
            searched with all directories inside.
        crop: selects a series and slices, and has the pixel size if files do not.

    Returns:
        At least one image; no two have the same name.

    Raises:
        FileNotFoundError: there is no such file or directory.
        ValueError: a file cannot be read, or makes no sense.
    """
    images: list[InputImage] = []
    series: list[pathlib.Path] = []
    for text in inputs:
        path = pathlib.Path(text)
        if path.is_dir():
            images += _read_directory(path, crop)
        elif not path.is_file():
            raise FileNotFoundError(f"{path}: no such file or directory")
        elif read_file.kind(path) == "dicom":
            series.append(path)
        else:
            images += _read_file(path, crop)
    if series:
        name = read_file.stem(
            series[0] if len(series) == 1 else series[0].resolve().parent
        )
        images += read_dicom.read_series(series, name, crop)
    images = [_with_spacing(image, crop) for image in images]
    for image in images:
        _check_values(image)
    return _with_own_names(images)


def _read_directory(path: pathlib.Path, crop: CropConfig) -> list[InputImage]:
    files_by_kind = _find(path)
    other = files_by_kind.pop(None, [])
    found = {kind: paths for kind, paths in files_by_kind.items() if kind is not None}
    if not found:
        names = f" (among others {other[0].name})" if other else ""
        raise ValueError(
            f"{path}: holds no image{names}, expected {read_file.EXPECTED}"
        )
    if len(found) > 1:
        kinds = ", ".join(sorted(found))
        raise ValueError(
            f"{path}: holds files of several kinds ({kinds}), expected one"
        )
    ((kind, paths),) = found.items()
    if kind == "dicom":
        return read_dicom.read_series(paths, read_file.stem(path.resolve()), crop, path)
    folders = sorted({str(file.parent) for file in paths})
    if len(folders) > 1:
        raise ValueError(
            f"{path}: holds images in {len(folders)} folders, expected one of them, "
            f"such as {folders[0]}"
        )
    return [image for file in paths for image in _read_file(file, crop)]


def _find(path: pathlib.Path) -> dict[str | None, list[pathlib.Path]]:
    """Returns the files of a directory by kind; without an image, all files below."""
    found = collections.defaultdict(list)
    seen = set()
    for folder, inside, names in os.walk(path, followlinks=True, onerror=_raise):
        real = os.path.realpath(folder)
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        if real in seen:  # A link to a folder that was visited before.
            inside.clear()
            continue
        seen.add(real)
        for file in (pathlib.Path(folder, name) for name in sorted(names)):
            if file.is_file() and not file.name.startswith("."):
                found[read_file.kind(file)].append(file)
        if found.keys() - {None} and folder == str(path):
            break
    return found


def _raise(error: OSError) -> None:
    raise error


def _read_file(path: pathlib.Path, crop: CropConfig) -> list[InputImage]:
    if crop.series is not None and read_file.kind(path) is not None:
        raise ValueError(f"{path}: not a DICOM file, expected no --series")
    return read_file.read(path, read_file.stem(path), crop)


def _check_values(image: InputImage) -> None:
    bad = int(np.count_nonzero(~np.isfinite(image.pixels)))
    if bad:
        raise ValueError(
            f"{image.describe()}: {bad} values are NaN or infinite, expected numbers"
        )

    # From molecules to more than any body. Areas in mm² stay finite.
    if image.spacing_mm and not all(1e-6 < mm < 1e6 for mm in image.spacing_mm):
        raise ValueError(
            f"{image.describe()}: pixels of {image.spacing_mm[0]:g} x "
            f"{image.spacing_mm[1]:g} mm, expected 0.000001 to 1000000 mm"
        )


def _with_spacing(image: InputImage, crop: CropConfig) -> InputImage:
    given = crop.spacing_numbers
    if given is None:
        return image
    if image.spacing_mm is not None:
        raise ValueError(
            f"{image.describe()}: the file has a pixel size of "
            f"{image.spacing_mm[0]:g} x {image.spacing_mm[1]:g} mm, expected no "
            "--spacing_mm"
        )
    return dataclasses.replace(image, spacing_mm=given)


def _with_own_names(images: Sequence[InputImage]) -> list[InputImage]:
    """Numbers images of the same name, so that all names differ."""
    taken: set[str] = set()
    result = []
    for image in images:
        name, number = image.name, 1
        while name in taken:
            number += 1
            name = f"{image.name}-{number}"
        taken.add(name)
        result.append(dataclasses.replace(image, name=name))
    return result
