"""Writes label maps, mean and entropy as NIfTI, at the input's position in space."""

from __future__ import annotations

import pathlib

import numpy as np

from tf_probunet.imaging.input_image import Geometry, InputImage
from tf_probunet.imaging.read_nifti import AXES, nibabel
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


def _write(path: pathlib.Path, maps: np.ndarray, image: InputImage) -> None:
    """Writes [N, H, W] with the axes of the file that the image came from."""
    nib = nibabel()
    orientations = nib.orientations
    geometry = image.geometry or _assumed(image)
    slices = maps.transpose(2, 1, 0)[:, :, None]  # [columns, rows, 1, N]
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


def _assumed(image: InputImage) -> Geometry:
    """Puts an image of unknown position at the origin."""
    row_mm, col_mm = image.spacing_mm or (1.0, 1.0)
    return Geometry(np.diag([-col_mm, -row_mm, 1.0, 1.0]))
