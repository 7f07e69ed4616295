"""Reads the files of a case and checks that the masks fit the image."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np

from tf_probunet.dataset.records import MAX_GRADERS
from tf_probunet.imaging import read_file, read_nifti
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.folder import classes, images, masks
from tf_probunet.preparation.folder.cases import Case, MaskFile
from tf_probunet.preparation.folder.config import FolderConfig
from tf_probunet.preparation.folder.masks import RawMask

# How far the pixels of an image and its mask may be apart.
_TOLERANCE_MM = 0.1
# Columns are x and rows are y, as in a picture.
_AS_STORED = np.diag([-1.0, -1.0, 1.0, 1.0])


@dataclasses.dataclass
class Loaded:
    """The content of a case's files.

    Attributes:
        images: the slices; none if the image can't be used.
        masks: the slices of each usable mask.
        problems: what can't be used, and why.
    """

    images: list[InputImage] = dataclasses.field(default_factory=list)
    masks: dict[MaskFile, list[RawMask]] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)


def load(root: pathlib.Path, case: Case, config: FolderConfig) -> Loaded:
    """Reads an image and its masks. What can't be used becomes a problem."""
    loaded = Loaded()
    path = root / case.image
    try:
        loaded.images = images.read(path, config.slice_axis)
    except (ValueError, OSError) as error:
        detail = message(error, root, case.image)
        loaded.problems.append(Problem("unusable image", case.image, detail))
        return loaded
    for mask in case.masks:
        try:
            found = _read_mask(root, case, mask, config)
            problem = _misfit(loaded.images, found, case, mask)
        except (ValueError, OSError) as error:
            problem = Problem(
                "unusable mask", mask.path, message(error, root, mask.path)
            )
        if problem is None:
            loaded.masks[mask] = found
        else:
            loaded.problems.append(problem)
    _keep_whole_graders(loaded, case, config)
    number = len({mask.grader for mask in loaded.masks})
    if not number:
        loaded.problems.append(Problem("image without a usable mask", case.image))
    elif number > MAX_GRADERS:
        loaded.masks.clear()
        detail = f"{number} graders, expected at most {MAX_GRADERS}"
        loaded.problems.append(Problem("too many graders", case.image, detail))
    return loaded


def doubts(loaded: Loaded, case: Case) -> list[Problem]:
    """Returns what is used, but may be wrong."""
    without = any(found[0].geometry is None for found in loaded.masks.values())
    if not loaded.images or loaded.images[0].kind != "nifti" or not without:
        return []
    return [
        Problem(
            "masks without an orientation",
            case.image,
            "the NIfTI image is turned as CT slices are shown, the masks are used as "
            "they are; look at --preview",
        )
    ]


def message(error: Exception, root: pathlib.Path, name: str) -> str:
    """Returns an error's message in one line, without the path of its file."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    text = " ".join(text.split())
    for start in (f"{root / name}: ", f"{name}: "):
        text = text[len(start) :] if text.startswith(start) else text
    return text.replace(f"{root}/", "")


def _read_mask(
    root: pathlib.Path, case: Case, mask: MaskFile, config: FolderConfig
) -> list[RawMask]:
    path, image, affine = root / mask.path, root / case.image, None
    lies_as_image = config.ignore_mask_affine and read_file.kind(path) == "nifti"
    if lies_as_image:
        is_nifti = image.is_file() and read_file.kind(image) == "nifti"
        affine = read_nifti.stored_affine(image) if is_nifti else _AS_STORED
    found = masks.read(
        path, cut=config.slice_axis, threshold=config.mask_threshold, affine=affine
    )
    if lies_as_image:
        found = [dataclasses.replace(one, geometry=None) for one in found]
    for one in found:
        values = classes.values_in(one, path)
        if config.nested_names:
            _check_binary(values, path)
    return found


def _check_binary(values: list[int] | None, path: pathlib.Path) -> None:
    if values is None or len(set(values) - {0}) > 1:
        what = "colours" if values is None else f"the values {values[:8]}"
        raise ValueError(
            f"{path}: {what}, expected 0 and one other in the mask of a nested class"
        )


def _misfit(
    image: list[InputImage], mask: list[RawMask], case: Case, file: MaskFile
) -> Problem | None:
    """Returns why a mask does not fit its image; None if it does."""
    if len(image) != len(mask):
        detail = f"{len(mask)} slices, expected {len(image)} as in {case.image}"
        return Problem("other number of slices", file.path, detail)
    found, expected = mask[0].shape, image[0].shape
    if any(one.shape != expected for one in mask):
        detail = "{}x{}, expected {}x{} as in ".format(*found, *expected) + case.image
        return Problem("size mismatch", file.path, detail)
    if mask[0].geometry is None:
        return None
    if image[0].geometry is None:
        return Problem(
            "mask with an orientation that its image lacks",
            file.path,
            "--ignore_mask_affine takes its columns and rows as they are stored",
        )
    for one, other in ((image[0], mask[0]), (image[-1], mask[-1])):
        assert one.geometry is not None and other.geometry is not None
        corner = np.array([expected[1], expected[0], 0.0, 1.0])
        apart = one.geometry.affine - other.geometry.affine
        far = max(np.abs(apart[:3, 3]).max(), np.abs(apart @ corner).max())
        if far > _TOLERANCE_MM:
            return Problem(
                "mask that lies elsewhere than its image",
                file.path,
                f"{far:.3g} mm apart by their headers, expected at most "
                f"{_TOLERANCE_MM:g}; --ignore_mask_affine uses the image's",
            )
    return None


def _keep_whole_graders(loaded: Loaded, case: Case, config: FolderConfig) -> None:
    """Drops graders that lack the mask of a nested class."""
    for grader in case.graders if config.nested_names else ():
        own = [mask for mask in loaded.masks if mask.grader == grader]
        present = {mask.class_name for mask in own}
        lacking = [name for name in config.nested_names if name not in present]
        if lacking:
            detail = f"grader {grader!r} has no usable mask of {', '.join(lacking)}"
            loaded.problems.append(
                Problem("grader without all classes", case.image, detail)
            )
        for mask in own if lacking else ():
            del loaded.masks[mask]
