"""Segments your own images (DICOM, NIfTI, PNG, TIFF, JPEG, NumPy)."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("predict")
