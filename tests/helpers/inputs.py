"""Files as a user gives them to a prediction, and reading them."""

from __future__ import annotations

import pathlib

import numpy as np
from helpers import dicom_writer

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict.read_inputs import read_inputs


def read(*paths: pathlib.Path, **crop) -> list[InputImage]:
    """Reads files and folders with the settings of a `CropConfig`."""
    return read_inputs([str(path) for path in paths], CropConfig(**crop))


def slices(number: int = 3, shape: tuple[int, int] = (6, 8)) -> list[np.ndarray]:
    """Returns slices of -500, -400, ... Hounsfield units."""
    return [np.full(shape, 100.0 * i - 500) for i in range(number)]


def write_two_series(folder: pathlib.Path) -> pathlib.Path:
    """Writes a study with a series of one slice and a series of two."""
    for i in (1, 2):
        dicom_writer.write_series(
            folder / "study" / f"{i}",
            slices(i),
            series_uid=f"{dicom_writer.UID_ROOT}{i}",
        )
    return folder
