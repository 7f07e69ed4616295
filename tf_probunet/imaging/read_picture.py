"""Reads PNG, TIFF, JPEG and BMP pictures and NumPy arrays."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import PIL.Image
import PIL.ImageSequence

from tf_probunet import arrays, damage, files, limits
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage

PICTURE_SUFFIXES = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp")
_FORMATS = ["PNG", "TIFF", "JPEG", "BMP"]
ARRAY_SUFFIXES = (".npy",)

# A value is held in Pillow's picture, in an array, and as float32.
_BYTES_PER_VALUE = 12
# A byte of a picture holds at most eight values, of one bit each.
_VALUES_PER_BYTE = 8

# Grey, RGB and RGBA have up to 4 channels. A longer last axis belongs to slices.
_MAX_CHANNELS = 4

# Pillow's modes whose values are not those of the pixels, and what to convert them to.
_CONVERSIONS = {"1": "L", "P": "RGB", "I;16B": "I;16"}

_T = TypeVar("_T")


def read_picture(path: pathlib.Path, name: str, crop: CropConfig) -> list[InputImage]:
    """Reads a picture, or the pages of a TIFF file.

    Args:
        path: the file.
        name: of the results.
        crop: selects pages.

    Raises:
        ValueError: the file is damaged, or has no such page.
    """
    return _images(path, name, "picture", read_pages(path, _array), crop)


def read_pages(
    path: pathlib.Path, convert: Callable[[PIL.Image.Image], _T]
) -> list[_T]:
    """Reads the pages of a picture; most have one.

    Args:
        path: the file.
        convert: is called with each page, before it is loaded.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged or too large, or `convert` refuses it.
    """
    try:
        length = path.stat().st_size
        with files.BoundedReader(path) as file:
            return _pages(PIL.Image.open(file, formats=_FORMATS), length, convert)
    except FileNotFoundError:
        raise
    except PIL.UnidentifiedImageError as error:
        raise ValueError(
            f"{path}: expected a PNG, TIFF, JPEG or BMP picture"
        ) from error
    except damage.PICTURE as error:
        raise ValueError(
            f"{path}: cannot read the picture ({damage.reason(error)})"
        ) from error


def read_array(path: pathlib.Path, name: str, crop: CropConfig) -> list[InputImage]:
    """Reads an array [H, W], [H, W, C], [N, H, W] or [N, H, W, C].

    The last of three axes holds channels if it has at most four entries.

    Args:
        path: the NPY file.
        name: of the results.
        crop: selects images.

    Raises:
        ValueError: the file is damaged, or holds something else.
    """
    return _images(path, name, "array", read_stack(path), crop)


def read_stack(path: pathlib.Path, kinds: str = "iuf") -> list[np.ndarray]:
    """Reads the images of an NPY file, see `read_array`.

    Args:
        path: the file.
        kinds: NumPy's letters for the types that it may hold.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or holds something else.
    """
    array = arrays.read_npy(path)
    limits.check(array.nbytes + 4 * array.size, f"{path}: {array.size} values")
    if array.dtype.kind not in kinds:
        raise ValueError(f"{path}: expected an NPY file of numbers")
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(
            f"{path}: an array of shape {list(array.shape)}, expected [H, W], "
            "[H, W, C], [N, H, W] or [N, H, W, C]"
        )
    is_stack = array.ndim == 4 or (array.ndim == 3 and array.shape[2] > _MAX_CHANNELS)
    return list(array) if is_stack else [array]


def _pages(
    opened: PIL.Image.Image, length: int, convert: Callable[[PIL.Image.Image], _T]
) -> list[_T]:
    pages, stored, values = [], 0, 0
    for page in PIL.ImageSequence.Iterator(opened):
        mode = _CONVERSIONS.get(page.mode, page.mode)
        pixels = page.width * page.height
        stored += pixels * len(page.getbands())
        values += pixels * PIL.Image.getmodebands(mode)
        limits.check_packed(stored // _VALUES_PER_BYTE, length)
        limits.check(values * _BYTES_PER_VALUE, f"{values} values")
        raw_mode = damage.stored_mode(page)
        if ";16" in raw_mode and not page.mode.startswith("I"):
            raise ValueError(
                f"colours of 16 bits ({raw_mode}) would be cut to 8, expected colours "
                "of 8 bits or grey"
            )
        pages.append(convert(page))
    return pages


def _array(page: PIL.Image.Image) -> np.ndarray:
    if page.mode in _CONVERSIONS:
        page = page.convert(_CONVERSIONS[page.mode])
    array = np.array(page)
    # If nothing is transparent, alpha says nothing.
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
