"""Images as people have them: DICOM, NIfTI, pictures; resampling and windows."""
