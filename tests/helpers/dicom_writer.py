"""Writes small CT series and annotation files with the habits of real ones."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, RLELossless

UID_ROOT = "1.2.826.0.1.3680043.8.498."
CT_IMAGE_STORAGE = "1.2.840.10008.5.1.4.1.1.2"
DEFAULT_SERIES = UID_ROOT + "1.1"
DEFAULT_STUDY = UID_ROOT + "1"

_SYNTAXES = {
    "explicit": ExplicitVRLittleEndian,
    "implicit": ImplicitVRLittleEndian,
    "rle": RLELossless,
}


def sop_uid(index: int, series_uid: str = DEFAULT_SERIES) -> str:
    """Returns the SOPInstanceUID of a series' slice."""
    return f"{series_uid}.{index + 1}"


def write_slice(
    path,
    hounsfield: np.ndarray,
    *,
    z_mm: float,
    uid: str,
    patient: str = "LIDC-IDRI-0001",
    series_uid: str = DEFAULT_SERIES,
    study_uid: str = DEFAULT_STUDY,
    slice_location: float | None = None,
    spacing_mm: tuple[float, float] = (0.5, 0.5),
    signed: bool = True,
    slope: float = 1.0,
    intercept: float = -1024.0,
    syntax: str = "explicit",
    modality: str = "CT",
    instance_number: int | None = 1,
) -> pathlib.Path:
    """Writes one slice; `slice_location=None` leaves the tag out.

    Args:
        hounsfield: [rows, columns] values that the reader should give back.
    """
    stored = np.rint((np.asarray(hounsfield, float) - intercept) / slope)
    dtype = np.int16 if signed else np.uint16
    assert np.iinfo(dtype).min <= stored.min() <= stored.max() <= np.iinfo(dtype).max
    dataset = Dataset()
    dataset.SOPClassUID = CT_IMAGE_STORAGE
    dataset.SOPInstanceUID = uid
    dataset.Modality = modality
    dataset.PatientID = patient
    dataset.StudyInstanceUID = study_uid
    dataset.SeriesInstanceUID = series_uid
    if instance_number is not None:
        dataset.InstanceNumber = instance_number
    dataset.ImagePositionPatient = [-166, -171.7, z_mm]
    dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    if slice_location is not None:
        dataset.SliceLocation = slice_location
    dataset.PixelSpacing = list(spacing_mm)
    dataset.Rows, dataset.Columns = stored.shape
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 16
    dataset.HighBit = 15
    dataset.PixelRepresentation = int(signed)
    dataset.RescaleSlope = slope
    dataset.RescaleIntercept = intercept
    dataset.PixelData = stored.astype(dtype).tobytes()
    dataset["PixelData"].VR = "OW"
    return _save(pathlib.Path(path), dataset, syntax)


def write_series(
    folder, slices: Sequence[np.ndarray], *, first_z_mm: float = -100.0, **kwargs
) -> list[pathlib.Path]:
    """Writes slices 2 mm apart; `kwargs` go to `write_slice`."""
    paths = []
    for index, hounsfield in enumerate(slices):
        z_mm = first_z_mm + 2 * index
        series_uid = kwargs.get("series_uid", DEFAULT_SERIES)
        paths.append(
            write_slice(
                pathlib.Path(folder, f"{index:06d}.dcm"),
                hounsfield,
                z_mm=z_mm,
                uid=sop_uid(index, series_uid),
                instance_number=index + 1,
                **{"slice_location": z_mm, **kwargs},
            )
        )
    return paths


def square(top: int, left: int, size: int) -> list[tuple[int, int]]:
    """Returns the (column, row) corners of an outline around size x size pixels.

    The lesion's pixels are rows `top` to `top + size - 1` and likewise the columns.
    """
    low_x, low_y, high_x, high_y = left - 1, top - 1, left + size, top + size
    return [(low_x, low_y), (high_x, low_y), (high_x, high_y), (low_x, high_y)]


def region(uid: str, z_mm, points: Sequence[tuple[int, int]], inclusion="TRUE") -> str:
    """Returns the XML of one outline; like real files, with a blank behind z."""
    edges = "".join(
        f"<edgeMap><xCoord>{x}</xCoord><yCoord>{y}</yCoord></edgeMap>"
        for x, y in points
    )
    return (
        f"<roi><imageZposition>{z_mm} </imageZposition>"
        f"<imageSOP_UID>{uid}</imageSOP_UID>"
        f"<inclusion>{inclusion}</inclusion>{edges}</roi>"
    )


def nodule(name: str, *regions: str) -> str:
    """Returns the XML of a lesion; like some real ones without characteristics."""
    return (
        f"<unblindedReadNodule><noduleID>{name}</noduleID>{''.join(regions)}"
        "</unblindedReadNodule>"
    )


def non_nodule(uid: str, z_mm: float) -> str:
    """Returns the XML of a non-nodule."""
    return (
        f"<nonNodule><nonNoduleID>x</nonNoduleID>"
        f"<imageZposition>{z_mm} </imageZposition><imageSOP_UID>{uid}</imageSOP_UID>"
        f"<locus><xCoord>3</xCoord><yCoord>4</yCoord></locus></nonNodule>"
    )


def ct_message(
    readings: Sequence[Sequence[str]],
    series_uid: str = DEFAULT_SERIES,
    study_uid: str = DEFAULT_STUDY,
) -> str:
    """Returns an annotation file of a CT scan: lesions of each radiologist as XML."""
    sessions = "".join(
        f"<readingSession><servicingRadiologistID>anonymous</servicingRadiologistID>"
        f"{''.join(lesions)}</readingSession>"
        for lesions in readings
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<LidcReadMessage uid="1.3" xmlns="http://www.nih.gov">'
        f"<ResponseHeader><TaskDescription>Second unblinded read</TaskDescription>"
        f"<SeriesInstanceUid>{series_uid}</SeriesInstanceUid>"
        f"<StudyInstanceUID>{study_uid}</StudyInstanceUID></ResponseHeader>"
        f"{sessions}</LidcReadMessage>"
    )


def xray_message(series_uid: str = DEFAULT_SERIES) -> str:
    """Returns an annotation file of a chest X-ray."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<IdriReadMessage uid="1.3" xmlns="http://www.nih.gov/idri"><ResponseHeader>'
        f"<CTSeriesInstanceUid>{series_uid}</CTSeriesInstanceUid>"
        f"<SeriesInstanceUID>{series_uid}.9</SeriesInstanceUID></ResponseHeader>"
        "<CXRreadingSession/></IdriReadMessage>"
    )


def _save(path: pathlib.Path, dataset: Dataset, syntax: str) -> pathlib.Path:
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.file_meta.TransferSyntaxUID = _SYNTAXES[
        "explicit" if syntax == "rle" else syntax
    ]
    dataset.preamble = b"\0" * 128
    if int(pydicom.__version__.split(".")[0]) < 3:
        dataset.is_little_endian = True
        dataset.is_implicit_VR = syntax == "implicit"
    if syntax == "rle":
        dataset.compress(RLELossless, generate_instance_uid=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    pydicom.dcmwrite(path, dataset)
    return path
