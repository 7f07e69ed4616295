"""Tests of finding out what was given: files, folders, names and values."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
from helpers import dicom_writer
from helpers.inputs import read, slices


def test_files_given_together_are_a_series(tmp_path):
    paths = dicom_writer.write_series(tmp_path / "scan", slices())
    assert [i.name for i in read(*paths[:2])] == ["scan_000", "scan_001"]
    assert [i.name for i in read(paths[1])] == ["000001"]


def test_a_patient_folder_is_searched(tmp_path):
    """As LIDC-IDRI has them: patient, study, series; an X-ray in another study."""
    patient = tmp_path / "LIDC-IDRI-0001"
    dicom_writer.write_series(patient / "study-1" / "series", slices())
    dicom_writer.write_slice(
        patient / "study-2" / "x.dcm", np.zeros((4, 4)), z_mm=0, uid="1", modality="DX"
    )
    (patient / "study-1" / "series" / "072.xml").write_text("<x/>")
    (patient / "study-1" / "back").symlink_to(patient)  # Must not go round.
    names = [image.name for image in read(patient)]
    assert names == [f"LIDC-IDRI-0001_00{i}" for i in range(3)]
    with pytest.raises(ValueError, match=r"x\.dcm: not a DICOM file of a CT slice"):
        read(patient / "study-2")


def test_pictures_in_several_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        PIL.Image.new("L", (4, 4)).save(tmp_path / "in" / name / "x.png")
    assert len(read(tmp_path / "in" / "a")) == 1
    with pytest.raises(ValueError, match=r"images in 2 folders, .* such as .*in/a"):
        read(tmp_path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        read(tmp_path / "absent")
    with pytest.raises(ValueError, match="holds no image, expected DICOM"):
        read(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds no image \(among others notes.txt\)"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"notes\.txt: unknown kind of file"):
        read(tmp_path / "notes.txt")


def test_a_folder_of_several_kinds(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    PIL.Image.new("L", (4, 4)).save(tmp_path / "b.png")
    with pytest.raises(ValueError, match=r"several kinds \(array, picture\)"):
        read(tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers(tmp_path, value):
    array = np.zeros((4, 4))
    array[1, 2:] = value
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy: 2 values are NaN or infinite"):
        read(tmp_path / "a.npy")


def test_spacing_where_the_file_does_not_say(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    (image,) = read(tmp_path / "a.npy", spacing_mm="0.6,0.7")
    assert image.spacing_mm == (0.6, 0.7)
    path = dicom_writer.write_slice(
        tmp_path / "b.dcm", np.zeros((4, 4)), z_mm=0, uid="1"
    )
    with pytest.raises(ValueError, match="the file has a pixel size of 0.5 x 0.5 mm"):
        read(path, spacing_mm="0.6,0.7")


def test_names_are_unique(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "x.npy", np.zeros((4, 4)))
    images = read(tmp_path / "a" / "x.npy", tmp_path / "b" / "x.npy")
    assert [image.name for image in images] == ["x", "x-2"]
