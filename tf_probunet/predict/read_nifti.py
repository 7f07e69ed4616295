"""Reads NIfTI volumes slice by slice, turned as CT slices are looked at."""

from __future__ import annotations

import pathlib
import zlib
from typing import Any

import numpy as np

from tf_probunet.predict.input_image import Geometry, InputImage

SUFFIXES = (".nii", ".nii.gz")

# Columns towards the patient's left, rows towards the back, slices upwards: as DICOM.
AXES = ("L", "P", "S")


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


def read_volume(
    path: pathlib.Path, name: str, slices: tuple[int, int] | None
) -> list[InputImage]:
    """Reads axial slices of a NIfTI file, from the lowest to the highest.

    The stored scaling is applied. Values are taken for Hounsfield units, unscaled 8-bit
    ones for grey values of a picture.

    Args:
        path: the file.
        name: of the results.
        slices: the first slice and the one behind the last; None for all.

    Raises:
        ValueError: nibabel is missing, or the file is damaged or no grey volume.
    """
    volume, affine, axes, is_uint8 = _read(path)
    number = volume.shape[2]
    first, behind = slices or (0, number)
    if behind > number:
        raise ValueError(
            f"{path}: has {number} slices, so that slice {behind - 1} is none of them; "
            f"expected 0 to {number - 1}"
        )
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    images = []
    for i in range(first, behind):
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
    try:
        image = nib.load(path)
        data = np.asanyarray(image.dataobj)
    except (nib.filebasedimages.ImageFileError, OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: cannot read the NIfTI file ({error})") from error
    except zlib.error as error:
        raise ValueError(f"{path}: damaged NIfTI file ({error})") from error
    shape = data.shape
    while data.ndim > 3 and data.shape[-1] == 1:
        data = data[..., 0]
    if data.ndim == 2:
        data = data[..., None]
    if data.ndim != 3 or data.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: {data.dtype} values of shape {list(shape)}, expected numbers of "
            "shape [x, y] or [x, y, z]"
        )
    orientations = nib.orientations
    stored = orientations.io_orientation(image.affine)
    if np.isnan(stored).any():
        raise ValueError(f"{path}: an affine that leaves an axis out")
    turn = orientations.ornt_transform(stored, orientations.axcodes2ornt(AXES))
    affine = image.affine @ orientations.inv_ornt_aff(turn, data.shape)
    turned = orientations.apply_orientation(data, turn).astype(np.float32)
    axes = orientations.ornt2axcodes(stored)
    return turned, affine, axes, data.dtype == np.uint8
