"""Reads PNG, TIFF and JPEG pictures and NumPy arrays."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image
import PIL.ImageSequence

from tf_probunet import arrays, damage, files
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict.config import CropConfig

PICTURE_SUFFIXES = (".png", ".tif", ".tiff", ".jpg", ".jpeg")
_FORMATS = ["PNG", "TIFF", "JPEG"]
ARRAY_SUFFIXES = (".npy",)

# Values of all pages of a file; Pillow itself bounds the pixels of one page.
MAX_VALUES = 2**28
# Deflate packs at most 1032 bytes into one, and a byte holds eight bits of a picture.
_VALUES_PER_BYTE = 10_000

# An array with a longer last axis holds slices: grey, RGB and RGBA have up to 4.
_MAX_CHANNELS = 4

# Modes of Pillow that hold something else than what they are converted to.
_CONVERSIONS = {"1": "L", "P": "RGB", "I;16B": "I;16"}


def read_picture(path: pathlib.Path, name: str, crop: CropConfig) -> list[InputImage]:
    """Reads a picture, or the pages of a TIFF file.

    Args:
        path: the file.
        name: of the results.
        crop: which pages.

    Raises:
        ValueError: the file is damaged, or holds no such page.
    """
    try:
        most = min(MAX_VALUES, _VALUES_PER_BYTE * path.stat().st_size)
        with files.BoundedReader(path) as file:
            pages = _pages(PIL.Image.open(file, formats=_FORMATS), most)
    except PIL.UnidentifiedImageError as error:
        raise ValueError(f"{path}: expected a PNG, TIFF or JPEG picture") from error
    except damage.PICTURE as error:
        raise ValueError(
            f"{path}: cannot read the picture ({damage.reason(error)})"
        ) from error
    return _images(path, name, "picture", pages, crop)


def read_array(path: pathlib.Path, name: str, crop: CropConfig) -> list[InputImage]:
    """Reads an array [H, W], [H, W, C], [N, H, W] or [N, H, W, C].

    Of three axes the last one holds channels if it has at most four entries.

    Args:
        path: the NPY file.
        name: of the results.
        crop: which images.

    Raises:
        ValueError: the file is damaged, or holds something else.
    """
    array = arrays.read_npy(path)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{path}: expected an NPY file of numbers")
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(
            f"{path}: an array of shape {list(array.shape)}, expected [H, W], "
            "[H, W, C], [N, H, W] or [N, H, W, C]"
        )
    is_stack = array.ndim == 4 or (array.ndim == 3 and array.shape[2] > _MAX_CHANNELS)
    return _images(path, name, "array", list(array) if is_stack else [array], crop)


def _pages(opened: PIL.Image.Image, most: int) -> list[np.ndarray]:
    pages, values = [], 0
    for page in PIL.ImageSequence.Iterator(opened):
        values += page.width * page.height * len(page.getbands())
        if values > most:
            raise ValueError(f"{values} values announced, expected at most {most}")
        pages.append(_array(page))
    return pages


def _array(page: PIL.Image.Image) -> np.ndarray:
    if page.mode in _CONVERSIONS:
        page = page.convert(_CONVERSIONS[page.mode])
    array = np.array(page)
    # Where nothing is transparent, alpha says nothing.
    if page.mode in ("LA", "RGBA") and (array[..., -1] == 255).all():
        array = array[..., :-1]
    return array


def _images(
    path: pathlib.Path,
    name: str,
    kind: str,
    images: list[np.ndarray],
    crop: CropConfig,
) -> list[InputImage]:
    number = len(images)
    return [
        InputImage(
            name=name if number == 1 else f"{name}_{i:03d}",
            source=str(path),
            kind=kind,
            pixels=images[i].astype(np.float32).reshape(images[i].shape[:2] + (-1,)),
            values=_values(images[i].dtype),
            slice_index=None if number == 1 else i,
        )
        for i in crop.choose(number, about=str(path), what="images")
    ]


def _values(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "float"
    if dtype in (np.uint8, np.uint16):
        return str(dtype)
    return "hu"
