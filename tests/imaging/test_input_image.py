"""Tests of how an image names itself."""

import numpy as np

from tf_probunet.imaging.input_image import InputImage


def _image(kind, index):
    pixels = np.zeros((2, 3, 1), np.float32)
    return InputImage("a", "a.x", kind, pixels, "hu", slice_index=index)


def test_height_and_width():
    assert _image("array", None).shape == (2, 3)


def test_slices_of_one_file_are_numbered():
    assert _image("nifti", 4).describe() == "a.x (slice 4)"
    assert _image("nifti", None).describe() == "a.x"
    # Each slice of a DICOM series has a file of its own.
    assert _image("dicom", 4).describe() == "a.x"
