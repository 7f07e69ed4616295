"""Reads masks as they are stored: values, or colours, not yet labels."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import PIL.Image

from tf_probunet import damage
from tf_probunet.imaging import read_file, read_nifti, read_picture
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import Geometry

# More different values than this are a picture, not a map of classes.
MAX_VALUES = 64
_LARGEST = 2**16 - 1
# Pillow stretches greys of few bits to 0..255.
_STRETCHED = {"L;2": 85, "L;4": 17}
_PLAIN_MODES = ("1", "L", "P", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclasses.dataclass(frozen=True)
class RawMask:
    """One slice of a mask.

    Attributes:
        values: [H, W] int32, or None for a mask of colours.
        colors: [H, W, 3] uint8, or None for a mask of grey values. A picture with a
            palette of colours has both, and so has a picture in RGB that is grey.
        starts_black: whether the first colour of the palette is black, so that value 0
            may be the background.
        transparent: [H, W] bool, None if nothing is.
        geometry: None if not known.
    """

    values: np.ndarray | None = None
    colors: np.ndarray | None = None
    starts_black: bool = True
    transparent: np.ndarray | None = None
    geometry: Geometry | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        array = self.colors if self.values is None else self.values
        assert array is not None
        return array.shape[0], array.shape[1]


def read(
    path: pathlib.Path,
    *,
    cut: str = "auto",
    threshold: float | None = None,
    affine: np.ndarray | None = None,
) -> list[RawMask]:
    """Reads the slices of a mask.

    Args:
        path: the file.
        cut: of volumes, see `read_nifti.read_volume`.
        threshold: values of at least this become 1 and others 0.
        affine: [4, 4], replaces that of a NIfTI file.

    Raises:
        OSError: it can't be opened.
        ValueError: it can't be read, or does not hold whole numbers or colours.
    """
    kind = read_file.kind(path)
    if kind == "picture":
        return [
            _grey(page, path, threshold)
            if isinstance(page, RawMask)
            else _whole(page, path, threshold)
            for page in read_picture.read_pages(path, _page)
        ]
    if kind == "array":
        stack = read_picture.read_stack(path, "biuf")
        return [_from_array(array, path, threshold) for array in stack]
    if kind == "nifti":
        images = read_nifti.read_volume(path, "mask", CropConfig(), cut, affine)
    else:
        images = read_file.read(path, "mask", CropConfig(), cut)
    return [
        dataclasses.replace(
            _whole(image.pixels[..., 0], path, threshold), geometry=image.geometry
        )
        for image in images
    ]


def _from_array(
    array: np.ndarray, path: pathlib.Path, threshold: float | None
) -> RawMask:
    if array.ndim == 2 or array.shape[2] == 1:
        return _whole(array.reshape(array.shape[:2]), path, threshold)
    if array.shape[2] == 3 and array.dtype == np.uint8:
        return _grey(RawMask(colors=array), path, threshold)
    raise ValueError(
        f"{path}: {array.dtype} values of shape {list(array.shape)}, expected a mask "
        "of shape [H, W], or 8-bit colours"
    )


def _page(page: PIL.Image.Image) -> RawMask | np.ndarray:
    """Returns a page as it is stored: whole numbers, colours, or any numbers."""
    stretch = _STRETCHED.get(damage.stored_mode(page), 1)
    if page.mode == "P":
        return _with_palette(page)
    if page.mode in _PLAIN_MODES:
        array = np.array(page)
        return array // stretch if stretch > 1 else array
    if page.mode in ("LA", "RGBA", "PA"):
        array = np.array(page.convert("RGBA"))
        alpha = array[..., 3]
        if ((alpha != 0) & (alpha != 255)).any():
            raise ValueError(
                "pixels that are half transparent, expected all or nothing"
            )
        transparent = alpha == 0 if (alpha == 0).any() else None
        return RawMask(colors=array[..., :3], transparent=transparent)
    if page.mode == "RGB":
        return RawMask(colors=np.array(page))
    raise ValueError(f"a picture of mode {page.mode!r}, expected grey values or RGB")


def _with_palette(page: PIL.Image.Image) -> RawMask:
    """Reads a picture with a palette: by its greys, or its numbers and its colours."""
    values, colors = np.array(page).astype(np.int32), np.array(page.convert("RGB"))
    palette = np.array(page.getpalette("RGB") or [0, 0, 0]).reshape(-1, 3)
    # All of it counts, as not every mask has every class.
    if (palette == palette[:, :1]).all():
        return RawMask(values=colors[..., 0].astype(np.int32))
    return RawMask(values=values, colors=colors, starts_black=not palette[0].any())


def _grey(mask: RawMask, path: pathlib.Path, threshold: float | None) -> RawMask:
    """Gives colours that are all grey their values; transparent pixels become 0."""
    values, colors = mask.values, mask.colors
    # A threshold is one of greys, also where a palette gives them numbers.
    if colors is not None and (values is None or threshold is not None):
        opaque = colors if mask.transparent is None else colors[~mask.transparent]
        if (opaque == opaque[..., :1]).all():
            values = colors[..., 0].astype(np.int32)
            if mask.transparent is not None:
                values = np.where(mask.transparent, 0, values)
            mask = dataclasses.replace(mask, values=values)
    if threshold is None:
        return mask
    if values is None:
        raise ValueError(f"{path}: colours, expected grey values with --mask_threshold")
    return _whole(values, path, threshold)


def _whole(values: np.ndarray, path: pathlib.Path, threshold: float | None) -> RawMask:
    """Returns values as whole numbers from 0 to 65535; true and false are 1 and 0."""
    if values.dtype.kind == "b":
        return RawMask(values=values.astype(np.int32))
    finite = np.isfinite(values) if values.dtype.kind == "f" else np.array(True)
    if not finite.all():
        raise ValueError(f"{path}: a mask with values that are NaN or infinite")
    if threshold is not None:
        return RawMask(values=(values >= threshold).astype(np.int32))
    if values.dtype.kind == "f" and not (values == np.rint(values)).all():
        odd = float(values[values != np.rint(values)][0])
        raise ValueError(
            f"{path}: a mask with fractions such as {odd:g}, expected whole numbers; "
            "--mask_threshold=0.5 makes it binary"
        )
    low, high = values.min(), values.max()
    if low < 0 or high > _LARGEST:
        raise ValueError(
            f"{path}: a mask with values from {low:g} to {high:g}, expected 0 to "
            f"{_LARGEST}"
        )
    return RawMask(values=values.astype(np.int32))
