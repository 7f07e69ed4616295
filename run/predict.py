"""Segments your own images: DICOM, NIfTI, PNG, TIFF, JPEG, NumPy in, hypotheses out."""

from _start import command

command("predict")
