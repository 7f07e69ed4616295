"""Segments your own images: DICOM, NIfTI, PNG, TIFF, JPEG, NumPy in, hypotheses out."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("predict")
