"""Segments your own images (DICOM, NIfTI, PNG, TIFF, JPEG, NumPy)."""

from _start import command

command("predict")
