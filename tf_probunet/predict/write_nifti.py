"""Writes label maps, mean and entropy as NIfTI, at the input's position in space."""

from __future__ import annotations

import pathlib

import numpy as np

from tf_probunet.imaging.input_image import Geometry, InputImage
from tf_probunet.imaging.read_nifti import AXES, nibabel
from tf_probunet.predict.lesion import Lesion
from tf_probunet.predict.prediction import Prediction


def write_labels(folder: pathlib.Path, prediction: Prediction) -> None:
    """Writes `samples.nii.gz`: one slice, with the samples along the fourth axis."""
    _write(folder / "samples.nii.gz", prediction.labels, prediction.image)


def write_maps(folder: pathlib.Path, prediction: Prediction) -> None:
    """Writes `mean.nii.gz` and `entropy.nii.gz`.

    The mean holds the probability of each class but the first along the fourth axis.
    """
    mean = np.moveaxis(prediction.mean[..., 1:], -1, 0)
    _write(folder / "mean.nii.gz", mean, prediction.image)
    _write(folder / "entropy.nii.gz", prediction.entropy[None], prediction.image)


def write_lesion(folder: pathlib.Path, lesion: Lesion) -> None:
    """Writes `samples.nii.gz`, with the samples along the fourth axis, and the mean.

    Both cover the box around the lesion, on the scan's own grid of voxels.
    """
    geometry = Geometry(lesion.affine, _geometry(lesion.volume.images[0]).axes)
    _save(folder / "samples.nii.gz", lesion.labels, geometry)
    _save(folder / "mean.nii.gz", lesion.mean[None], geometry)


def _write(path: pathlib.Path, maps: np.ndarray, image: InputImage) -> None:
    """Writes [N, H, W] with the axes of the file that the image came from."""
    _save(path, maps[:, None], _geometry(image))


def _save(path: pathlib.Path, maps: np.ndarray, geometry: Geometry) -> None:
    """Writes [N, Z, H, W]."""
    nib = nibabel()
    orientations = nib.orientations
    slices = maps.transpose(3, 2, 1, 0)  # [columns, rows, slices, N]
    turn = orientations.ornt_transform(
        orientations.axcodes2ornt(AXES), orientations.axcodes2ornt(geometry.axes)
    )
    affine = geometry.affine @ orientations.inv_ornt_aff(turn, slices.shape[:3])
    turned = orientations.apply_orientation(slices, turn)
    if turned.shape[3] == 1:
        turned = turned[..., 0]
    written = nib.Nifti1Image(turned, affine)
    written.header.set_xyzt_units("mm")
    nib.save(written, path)


def _geometry(image: InputImage) -> Geometry:
    """Returns the image's position; one of unknown position is at the origin."""
    if image.geometry is not None:
        return image.geometry
    row_mm, col_mm = image.spacing_mm or (1.0, 1.0)
    return Geometry(np.diag([-col_mm, -row_mm, 1.0, 1.0]))
