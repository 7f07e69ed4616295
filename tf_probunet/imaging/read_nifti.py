"""Reads NIfTI volumes slice by slice, turned as CT slices are looked at."""

from __future__ import annotations

import math
import pathlib
import struct
import zlib
from typing import Any

import numpy as np

from tf_probunet.damage import reason
from tf_probunet.imaging.input_image import Geometry, InputImage
from tf_probunet.predict.config import CropConfig

SUFFIXES = (".nii", ".nii.gz")
# Voxels of a volume: 1024 slices of 1024 x 1024.
MAX_VOXELS = 2**30

# Columns towards the patient's left, rows towards the back, slices upwards: as DICOM.
AXES = ("L", "P", "S")

# gzip cannot pack tighter.
_GZIP_RATIO = 1032
# nibabel raises all of these for damaged files, beside its own.
_DAMAGED = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
    struct.error,
    zlib.error,
)


def nibabel() -> Any:
    """Imports nibabel.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import nibabel
    except ImportError as error:
        raise ValueError(
            "NIfTI files need the package nibabel: pip install 'tf_probunet[nifti]'"
        ) from error
    return nibabel


def read_volume(path: pathlib.Path, name: str, crop: CropConfig) -> list[InputImage]:
    """Reads axial slices of a NIfTI file, from the lowest to the highest.

    The stored scaling is applied. Values are taken for Hounsfield units, unscaled 8-bit
    ones for grey values of a picture.

    Args:
        path: the file.
        name: of the results.
        crop: which slices.

    Raises:
        ValueError: nibabel is missing, or the file is damaged or no grey volume.
    """
    volume, affine, axes, is_uint8 = _read(path)
    number = volume.shape[2]
    heights = affine[2, 3] + affine[2, 2] * np.arange(number)
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    images = []
    for i in crop.choose(number, about=str(path), heights_mm=heights):
        slice_affine = affine.copy()
        slice_affine[:3, 3] += i * affine[:3, 2]
        images.append(
            InputImage(
                name=name if number == 1 else f"{name}_{i:03d}",
                source=str(path),
                kind="nifti",
                pixels=volume[:, :, i].T[..., None],
                values="uint8" if is_uint8 else "hu",
                spacing_mm=(float(spacing[1]), float(spacing[0])),
                slice_index=None if number == 1 else i,
                geometry=Geometry(slice_affine, axes),
            )
        )
    return images


def _read(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray, tuple, bool]:
    """Returns [columns, rows, slices] float32, affine, file's axes, 8 bit or not."""
    nib = nibabel()
    damaged = (
        *_DAMAGED,
        nib.filebasedimages.ImageFileError,
        nib.spatialimages.HeaderDataError,
        nib.spatialimages.HeaderTypeError,
    )
    try:
        image = nib.load(path)
        _check_size(image, path.stat().st_size)
        data = np.asanyarray(image.dataobj)
    except damaged as error:
        raise ValueError(
            f"{path}: cannot read the NIfTI file ({reason(error)})"
        ) from error
    shape = data.shape
    while data.ndim > 3 and data.shape[-1] == 1:
        data = data[..., 0]
    if data.ndim == 2:
        data = data[..., None]
    if data.ndim != 3 or data.dtype.kind not in "iuf" or not data.size:
        raise ValueError(
            f"{path}: {data.dtype} values of shape {list(shape)}, expected numbers of "
            "shape [x, y] or [x, y, z]"
        )
    if not np.isfinite(image.affine).all():
        raise ValueError(f"{path}: an affine that holds other things than numbers")
    orientations = nib.orientations
    stored = orientations.io_orientation(image.affine)
    if np.isnan(stored).any():
        raise ValueError(f"{path}: an affine that leaves an axis out")
    turn = orientations.ornt_transform(stored, orientations.axcodes2ornt(AXES))
    affine = image.affine @ orientations.inv_ornt_aff(turn, data.shape)
    turned = orientations.apply_orientation(data, turn).astype(np.float32)
    axes = orientations.ornt2axcodes(stored)
    return turned, affine, axes, data.dtype == np.uint8


def _check_size(image: Any, file_bytes: int) -> None:
    """Checks what the header announces, before room is made for it."""
    voxels = math.prod(int(length) for length in image.shape)
    announced = voxels * image.get_data_dtype().itemsize
    if voxels > MAX_VOXELS or announced > _GZIP_RATIO * file_bytes:
        raise ValueError(
            f"a header that announces {list(image.shape)} voxels in {file_bytes} "
            f"bytes; expected at most {MAX_VOXELS}"
        )
