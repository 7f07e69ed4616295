"""Tests of reading CT slices and series: values, order, place, and bad files."""

from __future__ import annotations

import numpy as np
import pydicom
import pytest
from helpers import dicom_writer
from helpers.inputs import read, slices, write_two_series


def test_series_in_the_order_of_its_positions(tmp_path):
    paths = dicom_writer.write_series(tmp_path / "scan", slices())
    paths[0].rename(paths[0].with_name("zzz.dcm"))
    (tmp_path / "scan" / "annotation.xml").write_text("<x/>")
    images = read(tmp_path / "scan")
    assert [image.name for image in images] == ["scan_000", "scan_001", "scan_002"]
    assert [image.slice_index for image in images] == [0, 1, 2]
    assert [image.pixels[0, 0, 0] for image in images] == [-500, -400, -300]
    assert images[0].shape == (6, 8)
    assert images[0].values == "hu"


def test_slices_are_chosen(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", slices(4))
    (only,) = read(tmp_path / "scan", slice="2")
    assert only.name == "scan_002" and only.pixels[0, 0, 0] == -300
    assert len(read(tmp_path / "scan", slice="1:4")) == 3
    with pytest.raises(
        ValueError, match="has 4 slices and no slice 4; expected 0 to 3"
    ):
        read(tmp_path / "scan", slice="4")


def test_dicom_spacing_and_place(tmp_path):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((4, 4)), z_mm=5, uid="1.2", spacing_mm=(0.6, 0.8)
    )
    (image,) = read(path)
    assert image.spacing_mm == (0.6, 0.8)
    # Column 2, row 1: x and y grow by 2 * 0.8 and 0.6 from the corner; NIfTI's axes
    # point the other way.
    place = image.geometry.affine @ [2, 1, 0, 1]
    np.testing.assert_allclose(place, [166 - 1.6, 171.7 - 0.6, 5, 1])


def test_a_series_of_two_sizes(tmp_path):
    dicom_writer.write_series(tmp_path, [np.zeros((6, 8)), np.zeros((6, 9))])
    with pytest.raises(ValueError, match=r"6x9 pixels, but .* has 6x8, expected one"):
        read(tmp_path)


def test_a_folder_of_two_series_asks_for_one(tmp_path):
    write_two_series(tmp_path)
    with pytest.raises(ValueError) as caught:
        read(tmp_path)
    first, second = (f"{dicom_writer.UID_ROOT}{i}" for i in (1, 2))
    assert str(caught.value) == (
        f"{tmp_path}: holds 2 CT series, expected one: {first} (1 slices in "
        f"{tmp_path}/study/1); {second} (2 slices in {tmp_path}/study/2); give "
        "--series=UID, or the folder of one"
    )
    assert len(read(tmp_path, series=second)) == 2
    assert len(read(tmp_path, series=".1")) == 1
    with pytest.raises(ValueError, match="2 CT series, 0 of them with the end '.7'"):
        read(tmp_path, series=".7")


def test_files_of_two_series(tmp_path):
    write_two_series(tmp_path)
    files = [tmp_path / "study" / f"{i}" / "000000.dcm" for i in (1, 2)]
    with pytest.raises(ValueError, match="holds 2 CT series, expected one"):
        read(*files)


def test_a_slice_by_its_instance_number(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", slices(4))  # Numbered from 1.
    (image,) = read(tmp_path / "scan", instance_number=3)
    assert image.name == "scan_002" and image.pixels[0, 0, 0] == -300
    with pytest.raises(
        ValueError, match="0 slices have the instance_number 9, .* they are 1 to 4"
    ):
        read(tmp_path / "scan", instance_number=9)
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    with pytest.raises(
        ValueError, match=r"a\.npy: not a DICOM series; only those have an inst"
    ):
        read(tmp_path / "a.npy", instance_number=1)


def test_a_slice_by_its_height(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", slices(4))  # -100, -98, -96, -94 mm
    (image,) = read(tmp_path / "scan", z_mm=-95.7)
    assert image.slice_index == 2
    with pytest.raises(
        ValueError, match="no slice within 5 mm of z_mm 95.7, expected -100 to -94"
    ):
        read(tmp_path / "scan", z_mm=95.7)
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    with pytest.raises(
        ValueError, match=r"a\.npy: the heights of its slices are not known"
    ):
        read(tmp_path / "a.npy", z_mm=1)


def test_how_far_slices_are_apart(tmp_path):
    """Two slices of four are missing, and heights are rounded."""
    for i, z_mm in enumerate((0, 2.5, 5.1, 12.5, 15, 22.5)):
        dicom_writer.write_slice(
            tmp_path / "scan" / f"{i}.dcm", np.zeros((4, 4)), z_mm=z_mm, uid=f"1.{i}"
        )
    image = read(tmp_path / "scan", slice="2")[0]
    np.testing.assert_allclose(image.geometry.affine[:3, 2], [0, 0, 2.5])


@pytest.mark.parametrize(
    "tags, expected",
    [
        ({}, 1.0),
        ({"SliceThickness": 2.5}, 2.5),
        ({"SliceThickness": 2.5, "SpacingBetweenSlices": 1.25}, 1.25),
        ({"SliceThickness": 0}, 1.0),
    ],
)
def test_the_thickness_of_a_single_slice(tmp_path, tags, expected):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((4, 4)), z_mm=0, uid="1"
    )
    dataset = pydicom.dcmread(path)
    for name, value in tags.items():
        setattr(dataset, name, value)
    dataset.save_as(path)
    (image,) = read(path)
    np.testing.assert_allclose(image.geometry.affine[:3, 2], [0, 0, expected])


@pytest.mark.parametrize("size", [100, 300, -20])
def test_truncated_dicom(tmp_path, size):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((9, 9)), z_mm=0, uid="1"
    )
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"a\.dcm: ") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_not_ct(tmp_path):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((4, 4)), z_mm=0, uid="1", modality="MR"
    )
    with pytest.raises(ValueError, match="not a DICOM file of a CT slice"):
        read(path)
