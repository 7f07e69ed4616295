"""Reads an image file of any kind, which its name or its first bytes tell."""

from __future__ import annotations

import pathlib

from tf_probunet.imaging import read_dicom, read_nifti, read_picture
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage

EXPECTED = "DICOM, NIfTI (.nii, .nii.gz), PNG, TIFF, JPEG, BMP or NumPy (.npy)"

_SUFFIXES = {
    "nifti": read_nifti.SUFFIXES,
    "picture": read_picture.PICTURE_SUFFIXES,
    "array": read_picture.ARRAY_SUFFIXES,
}


def kind(path: pathlib.Path) -> str | None:
    """Returns "nifti", "picture", "array" or "dicom"; None for any other file."""
    name = path.name.lower()
    for found, suffixes in _SUFFIXES.items():
        if name.endswith(suffixes):
            return found
    return "dicom" if read_dicom.is_dicom(path) else None


def stem(path: pathlib.Path) -> str:
    """Returns the name of a file without its suffix, or of a directory.

    It is fit for a directory: never "." or "..".
    """
    name = path.name
    for suffix in (".nii.gz", path.suffix):
        if suffix and name.lower().endswith(suffix.lower()) and not path.is_dir():
            name = name[: -len(suffix)] or name
            break
    # "..dcm" must not become the directory "." and "...dcm" not the one above.
    return name if name.strip(".") else "image"


def read(
    path: pathlib.Path, name: str, crop: CropConfig, cut: str = "axial"
) -> list[InputImage]:
    """Reads the slices, pages or images of a file, or the DICOM series of a directory.

    Args:
        path: the file or directory.
        name: of the results.
        crop: selects slices.
        cut: of volumes, see `read_nifti.read_volume`.

    Raises:
        OSError: it can't be opened.
        ValueError: it is damaged, or of another kind.
    """
    if path.is_dir():
        paths = sorted(file for file in path.iterdir() if kind(file) == "dicom")
        if not paths:
            raise ValueError(f"{path}: a directory, expected DICOM files in it")
        return read_dicom.read_series(paths, name, crop, path)
    found = kind(path)
    if found == "nifti":
        return read_nifti.read_volume(path, name, crop, cut)
    if found == "picture":
        return read_picture.read_picture(path, name, crop)
    if found == "array":
        return read_picture.read_array(path, name, crop)
    if found == "dicom":
        return read_dicom.read_series([path], name, crop)
    raise ValueError(f"{path}: unknown kind of file, expected {EXPECTED}")
