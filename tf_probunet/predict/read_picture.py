"""Reads PNG and TIFF pictures and NumPy arrays."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image
import PIL.ImageSequence

from tf_probunet.predict.input_image import InputImage

PICTURE_SUFFIXES = (".png", ".tif", ".tiff")
ARRAY_SUFFIXES = (".npy",)

# Modes of Pillow that hold something else than what they are converted to.
_CONVERSIONS = {"1": "L", "P": "RGB", "I;16B": "I;16"}


def read_picture(
    path: pathlib.Path, name: str, slices: tuple[int, int] | None
) -> list[InputImage]:
    """Reads a picture, or the pages of a TIFF file.

    Args:
        path: the file.
        name: of the results.
        slices: the first page and the one behind the last; None for all.

    Raises:
        ValueError: the file is damaged, or holds no such page.
    """
    try:
        with PIL.Image.open(path) as opened:
            if opened.format not in ("PNG", "TIFF"):
                raise ValueError(f"it is {opened.format}, expected PNG or TIFF")
            pages = [_array(page) for page in PIL.ImageSequence.Iterator(opened)]
    except (
        OSError,
        SyntaxError,
        ValueError,
        PIL.Image.DecompressionBombError,
    ) as error:
        raise ValueError(f"{path}: cannot read the picture ({error})") from error
    return _images(path, name, "picture", pages, slices)


def read_array(
    path: pathlib.Path, name: str, slices: tuple[int, int] | None
) -> list[InputImage]:
    """Reads an array [H, W], [H, W, C] or [N, H, W, C].

    Args:
        path: the NPY file.
        name: of the results.
        slices: the first image and the one behind the last; None for all.

    Raises:
        ValueError: the file is damaged, or holds something else.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: cannot read the array ({error})") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
        raise ValueError(f"{path}: expected an NPY file of numbers")
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(
            f"{path}: an array of shape {list(array.shape)}, expected [H, W], "
            "[H, W, C] or [N, H, W, C]"
        )
    return _images(
        path, name, "array", list(array) if array.ndim == 4 else [array], slices
    )


def _array(page: PIL.Image.Image) -> np.ndarray:
    if page.mode in _CONVERSIONS:
        page = page.convert(_CONVERSIONS[page.mode])
    return np.array(page)


def _images(
    path: pathlib.Path,
    name: str,
    kind: str,
    arrays: list[np.ndarray],
    slices: tuple[int, int] | None,
) -> list[InputImage]:
    number = len(arrays)
    first, behind = slices or (0, number)
    if behind > number:
        raise ValueError(
            f"{path}: has {number} images, so that slice {behind - 1} is none of them; "
            f"expected 0 to {number - 1}"
        )
    return [
        InputImage(
            name=name if number == 1 else f"{name}_{i:03d}",
            source=str(path),
            kind=kind,
            pixels=arrays[i].astype(np.float32).reshape(arrays[i].shape[:2] + (-1,)),
            values=_values(arrays[i].dtype),
            slice_index=None if number == 1 else i,
        )
        for i in range(first, behind)
    ]


def _values(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "float"
    if dtype in (np.uint8, np.uint16):
        return str(dtype)
    return "hu"
