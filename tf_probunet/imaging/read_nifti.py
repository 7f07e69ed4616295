"""Reads the slices of NIfTI volumes, oriented as CT slices are shown."""

from __future__ import annotations

import gzip
import math
import pathlib
import struct
import zlib
from typing import Any

import numpy as np

from tf_probunet import limits
from tf_probunet.damage import reason
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import Geometry, InputImage

SUFFIXES = (".nii", ".nii.gz")

# As in DICOM: columns run to the patient's left, rows to the back, slices upwards.
AXES = ("L", "P", "S")
# Where columns, rows and slices run to, for each way to cut a volume.
CUTS = {"axial": AXES, "coronal": ("L", "I", "P"), "sagittal": ("P", "I", "L")}

# The axis of the world (right, front, up) that each cut is across; axial comes first.
_NORMALS = {"axial": 2, "coronal": 1, "sagittal": 0}
# Where headers of 348 bytes (NIfTI-1) and 540 bytes (NIfTI-2) store the first voxel's
# position in the file.
_STARTS = {348: (108, "f"), 540: (168, "q")}
_HEADER_BYTES = 540
# Other programs may store notes before the voxels.
_MAX_START = 2**24
# Voxels that are read and scaled at once.
_PIECE_VOXELS = 2**22
# nibabel raises all of these for damaged files, besides its own errors.
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


def read_volume(
    path: pathlib.Path,
    name: str,
    crop: CropConfig,
    cut: str = "axial",
    affine: np.ndarray | None = None,
) -> list[InputImage]:
    """Reads slices of a NIfTI file, from the lowest to the highest if they are axial.

    The stored scaling is applied. Values are taken as Hounsfield units, but unscaled
    8-bit values as the grey values of a picture.

    Args:
        path: the file.
        name: of the results.
        crop: selects slices.
        cut: one of `CUTS`, or "auto": axial, unless the volume is a single slice of
            another direction.
        affine: [4, 4], replaces the file's own.

    Raises:
        ValueError: nibabel is missing, or the file is damaged or not a grey volume.
    """
    volume, affine, axes, is_uint8 = _read(path, cut, affine)
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


def read_labels(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads a label map of three dimensions.

    Returns:
        labels: [columns, rows, slices] int32.
        affine: takes (column, row, slice, 1) to millimetres.

    Raises:
        ValueError: nibabel is missing, or the file is damaged or holds something else.
    """
    values, affine, _, _ = _read(path, "axial", None)
    labels = np.rint(values)
    if not (np.abs(labels) < 2**24).all() or (labels != values).any():
        raise ValueError(f"{path}: values between labels, expected whole numbers")
    return labels.astype(np.int32), affine


def stored_affine(path: pathlib.Path) -> np.ndarray:
    """Returns the affine [4, 4] of a NIfTI file that can be read."""
    return np.array(nibabel().load(path).affine)


def _read(
    path: pathlib.Path, cut: str, other: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, tuple, bool]:
    """Returns [columns, rows, slices] float32, affine, file's axes, 8 bit or not."""
    nib = nibabel()
    damaged = (
        *_DAMAGED,
        nib.filebasedimages.ImageFileError,
        nib.spatialimages.HeaderDataError,
        nib.spatialimages.HeaderTypeError,
    )
    try:
        _check_start(path)
        # Kept open, so that a packed file is unpacked once and not for each piece.
        image = nib.load(path, keep_file_open=True)
        _check_size(image, path)
        data, is_uint8 = _values(image)
    except damaged as error:
        raise ValueError(
            f"{path}: cannot read the NIfTI file ({reason(error)})"
        ) from error
    shape = data.shape
    while data.ndim > 3 and data.shape[-1] == 1:
        data = data[..., 0]
    if data.ndim == 2:
        data = data[..., None]
    if data.ndim != 3 or not data.size:
        raise ValueError(
            f"{path}: values of shape {list(shape)}, expected numbers of shape [x, y] "
            "or [x, y, z]"
        )
    placed = image.affine if other is None else other
    if not np.isfinite(placed).all():
        raise ValueError(f"{path}: the affine has values that are not finite")
    orientations = nib.orientations
    stored = orientations.io_orientation(placed)
    if np.isnan(stored).any():
        raise ValueError(f"{path}: the affine leaves out an axis")
    if cut == "auto":
        cut = _only_slice(data.shape, stored)
    target = orientations.axcodes2ornt(CUTS[cut])
    turn = orientations.ornt_transform(stored, target)
    affine = placed @ orientations.inv_ornt_aff(turn, data.shape)
    turned = orientations.apply_orientation(data, turn)
    axes = orientations.ornt2axcodes(stored)
    return turned, affine, axes, is_uint8


def _only_slice(shape: tuple[int, ...], orientation: np.ndarray) -> str:
    """Returns the cut in which a volume is a single slice; axial if there is none."""
    lengths = {int(world): shape[axis] for axis, (world, _) in enumerate(orientation)}
    single = [cut for cut, world in _NORMALS.items() if lengths[world] == 1]
    return single[0] if single else "axial"


def _check_start(path: pathlib.Path) -> None:
    """Checks where the voxels begin: nibabel reads everything before them."""
    opened = gzip.open(path) if _is_packed(path) else open(path, "rb")
    with opened as stream:
        head = stream.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
    for order in "<>":
        layout = _STARTS.get(struct.unpack_from(order + "i", head)[0])
        if layout is not None:
            place, kind = layout
            (start,) = struct.unpack_from(order + kind, head, place)
            if not 0 <= start <= _MAX_START:
                raise ValueError(
                    f"voxels begin at byte {start:g}, expected at most {_MAX_START}"
                )


def _is_packed(path: pathlib.Path) -> bool:
    return path.name.lower().endswith(".gz")


def _check_size(image: Any, path: pathlib.Path) -> None:
    """Checks the announced size before memory is allocated for it."""
    voxels = math.prod(int(length) for length in image.shape)
    announced = voxels * image.get_data_dtype().itemsize
    length = path.stat().st_size
    if _is_packed(path):
        limits.check_packed(announced, length)
    elif announced > length:
        raise ValueError(f"announces {announced} bytes in a file of {length}")
    limits.check(4 * voxels, f"a volume of {list(image.shape)} voxels")


def _values(image: Any) -> tuple[np.ndarray, bool]:
    """Returns the scaled values as float32, and whether they are 8-bit values.

    nibabel scales in float64. Doing so piece by piece needs little memory.
    """
    proxy, values = image.dataobj, np.zeros(image.shape, np.float32, order="F")
    dtype = np.asanyarray(proxy[..., :1]).dtype
    if dtype.kind not in "iuf":
        raise ValueError(f"{dtype} values, expected numbers")
    step = max(1, _PIECE_VOXELS * values.shape[-1] // max(1, values.size))
    for start in range(0, values.shape[-1], step):
        values[..., start : start + step] = proxy[..., start : start + step]
    return values, dtype == np.uint8
