"""Tests of reading DICOM, pictures and arrays: values, order, and bad files."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pydicom
import pytest
from helpers import dicom_writer, png

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.read_inputs import read_inputs


def _read(*paths, **crop):
    return read_inputs([str(path) for path in paths], CropConfig(**crop))


def _slices(number=3, shape=(6, 8)):
    return [np.full(shape, 100.0 * i - 500) for i in range(number)]


def test_series_in_the_order_of_its_positions(tmp_path):
    paths = dicom_writer.write_series(tmp_path / "scan", _slices())
    paths[0].rename(paths[0].with_name("zzz.dcm"))
    (tmp_path / "scan" / "annotation.xml").write_text("<x/>")
    images = _read(tmp_path / "scan")
    assert [image.name for image in images] == ["scan_000", "scan_001", "scan_002"]
    assert [image.slice_index for image in images] == [0, 1, 2]
    assert [image.pixels[0, 0, 0] for image in images] == [-500, -400, -300]
    assert images[0].shape == (6, 8)
    assert images[0].values == "hu"


def test_slices_are_chosen(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", _slices(4))
    (only,) = _read(tmp_path / "scan", slice="2")
    assert only.name == "scan_002" and only.pixels[0, 0, 0] == -300
    assert len(_read(tmp_path / "scan", slice="1:4")) == 3
    with pytest.raises(ValueError, match="has 4 slices, so that slice 4 is none"):
        _read(tmp_path / "scan", slice="4")


def test_files_given_together_are_a_series(tmp_path):
    paths = dicom_writer.write_series(tmp_path / "scan", _slices())
    assert [i.name for i in _read(*paths[:2])] == ["scan_000", "scan_001"]
    assert [i.name for i in _read(paths[1])] == ["000001"]


def test_dicom_spacing_and_place(tmp_path):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((4, 4)), z_mm=5, uid="1.2", spacing_mm=(0.6, 0.8)
    )
    (image,) = _read(path)
    assert image.spacing_mm == (0.6, 0.8)
    # Column 2, row 1: x and y grow by 2 * 0.8 and 0.6 from the corner; NIfTI's axes
    # point the other way.
    place = image.geometry.affine @ [2, 1, 0, 1]
    np.testing.assert_allclose(place, [166 - 1.6, 171.7 - 0.6, 5, 1])


def test_a_series_of_two_sizes(tmp_path):
    dicom_writer.write_series(tmp_path, [np.zeros((6, 8)), np.zeros((6, 9))])
    with pytest.raises(ValueError, match=r"6x9 pixels, but .* has 6x8, expected one"):
        _read(tmp_path)


def _write_two_series(folder):
    for i in (1, 2):
        dicom_writer.write_series(
            folder / "study" / f"{i}",
            _slices(i),
            series_uid=f"{dicom_writer.UID_ROOT}{i}",
        )
    return folder


def test_a_folder_of_two_series_asks_for_one(tmp_path):
    _write_two_series(tmp_path)
    with pytest.raises(ValueError) as caught:
        _read(tmp_path)
    first, second = (f"{dicom_writer.UID_ROOT}{i}" for i in (1, 2))
    assert str(caught.value) == (
        f"{tmp_path}: holds 2 CT series, expected one: {first} (1 slices in "
        f"{tmp_path}/study/1); {second} (2 slices in {tmp_path}/study/2); give "
        "--series=UID, or the folder of one"
    )
    assert len(_read(tmp_path, series=second)) == 2
    assert len(_read(tmp_path, series=".1")) == 1
    with pytest.raises(ValueError, match="2 CT series, 0 of them with the end '.7'"):
        _read(tmp_path, series=".7")


def test_files_of_two_series(tmp_path):
    _write_two_series(tmp_path)
    files = [tmp_path / "study" / f"{i}" / "000000.dcm" for i in (1, 2)]
    with pytest.raises(ValueError, match="holds 2 CT series, expected one"):
        _read(*files)


def test_a_patient_folder_is_searched(tmp_path):
    """As LIDC-IDRI has them: patient, study, series; an X-ray in another study."""
    patient = tmp_path / "LIDC-IDRI-0001"
    dicom_writer.write_series(patient / "study-1" / "series", _slices())
    dicom_writer.write_slice(
        patient / "study-2" / "x.dcm", np.zeros((4, 4)), z_mm=0, uid="1", modality="DX"
    )
    (patient / "study-1" / "series" / "072.xml").write_text("<x/>")
    (patient / "study-1" / "back").symlink_to(patient)  # Must not go round.
    names = [image.name for image in _read(patient)]
    assert names == [f"LIDC-IDRI-0001_00{i}" for i in range(3)]
    with pytest.raises(ValueError, match=r"x\.dcm: not a DICOM file of a CT slice"):
        _read(patient / "study-2")


def test_pictures_in_several_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        PIL.Image.new("L", (4, 4)).save(tmp_path / "in" / name / "x.png")
    assert len(_read(tmp_path / "in" / "a")) == 1
    with pytest.raises(ValueError, match=r"images in 2 folders, .* such as .*in/a"):
        _read(tmp_path)


def test_a_slice_by_its_instance_number(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", _slices(4))  # Numbered from 1.
    (image,) = _read(tmp_path / "scan", instance_number=3)
    assert image.name == "scan_002" and image.pixels[0, 0, 0] == -300
    with pytest.raises(
        ValueError, match="0 slices have the instance_number 9, .* they are 1 to 4"
    ):
        _read(tmp_path / "scan", instance_number=9)
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"a\.npy: no DICOM series, which alone"):
        _read(tmp_path / "a.npy", instance_number=1)


def test_a_slice_by_its_height(tmp_path):
    dicom_writer.write_series(tmp_path / "scan", _slices(4))  # -100, -98, -96, -94 mm
    (image,) = _read(tmp_path / "scan", z_mm=-95.7)
    assert image.slice_index == 2
    with pytest.raises(
        ValueError, match="no slice within 5 mm of z_mm 95.7, expected -100 to -94"
    ):
        _read(tmp_path / "scan", z_mm=95.7)
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"a\.npy: its heights are not known"):
        _read(tmp_path / "a.npy", z_mm=1)


def test_how_far_slices_are_apart(tmp_path):
    """Two slices of four are missing, and heights are rounded."""
    for i, z_mm in enumerate((0, 2.5, 5.1, 12.5, 15, 22.5)):
        dicom_writer.write_slice(
            tmp_path / "scan" / f"{i}.dcm", np.zeros((4, 4)), z_mm=z_mm, uid=f"1.{i}"
        )
    image = _read(tmp_path / "scan", slice="2")[0]
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
    (image,) = _read(path)
    np.testing.assert_allclose(image.geometry.affine[:3, 2], [0, 0, expected])


@pytest.mark.parametrize("size", [100, 300, -20])
def test_truncated_dicom(tmp_path, size):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((9, 9)), z_mm=0, uid="1"
    )
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"a\.dcm: ") as caught:
        _read(path)
    assert "\n" not in str(caught.value)


def test_not_ct(tmp_path):
    path = dicom_writer.write_slice(
        tmp_path / "a.dcm", np.zeros((4, 4)), z_mm=0, uid="1", modality="MR"
    )
    with pytest.raises(ValueError, match="not a DICOM file of a CT slice"):
        _read(path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        _read(tmp_path / "absent")
    with pytest.raises(ValueError, match="holds no image, expected DICOM"):
        _read(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds no image \(among others notes.txt\)"):
        _read(tmp_path)
    with pytest.raises(ValueError, match=r"notes\.txt: of an unknown kind"):
        _read(tmp_path / "notes.txt")


def test_a_folder_of_several_kinds(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    PIL.Image.new("L", (4, 4)).save(tmp_path / "b.png")
    with pytest.raises(ValueError, match=r"several kinds \(array, picture\)"):
        _read(tmp_path)


def test_pictures(tmp_path):
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    PIL.Image.fromarray(values).save(tmp_path / "grey.png")
    PIL.Image.fromarray(np.stack([values] * 3, -1)).save(tmp_path / "rgb.tiff")
    PIL.Image.fromarray(values.astype(np.uint16) * 300).save(tmp_path / "deep.png")
    PIL.Image.fromarray(values.astype(np.float32) - 5).save(tmp_path / "real.tif")
    deep, grey, real, rgb = _read(tmp_path)
    assert [i.values for i in (deep, grey, real, rgb)] == [
        "uint16",
        "uint8",
        "float",
        "uint8",
    ]
    np.testing.assert_array_equal(grey.pixels[..., 0], values)
    np.testing.assert_array_equal(deep.pixels[..., 0], values * 300.0)
    np.testing.assert_array_equal(real.pixels[..., 0], values - 5.0)
    assert rgb.pixels.shape == (3, 4, 3)
    assert grey.spacing_mm is None


@pytest.mark.parametrize("name", ["a.jpg", "b.JPEG"])
def test_jpeg(tmp_path, name):
    values = np.repeat(np.arange(0, 256, 4, dtype=np.uint8)[None], 64, 0)
    PIL.Image.fromarray(values).save(tmp_path / name, quality=95)
    (image,) = _read(tmp_path / name)
    assert image.values == "uint8" and image.name == name.partition(".")[0]
    np.testing.assert_allclose(image.pixels[..., 0], values, atol=3)


def test_opaque_pictures_lose_their_alpha(tmp_path):
    grey = PIL.Image.effect_noise((8, 8), 50)
    for mode, channels in (("LA", 1), ("RGBA", 3)):
        grey.convert(mode).save(tmp_path / "a.png")
        (image,) = _read(tmp_path / "a.png")
        assert image.pixels.shape == (8, 8, channels)
        np.testing.assert_array_equal(image.pixels[..., 0], np.array(grey))


def test_pages_of_a_tiff(tmp_path):
    pages = [PIL.Image.new("L", (4, 4), value) for value in (10, 20)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    images = _read(tmp_path / "a.tif")
    assert [i.name for i in images] == ["a_000", "a_001"]
    assert [i.pixels.mean() for i in images] == [10, 20]


@pytest.mark.parametrize("color_type, bands", [(2, 3), (6, 4), (4, 2)])
def test_colours_of_16_bits_are_not_cut_to_8(tmp_path, color_type, bands):
    values = np.full((4, 6, bands), 300)
    path = tmp_path / "a.png"
    path.write_bytes(png.encode(values, bits=16, color_type=color_type))
    with pytest.raises(ValueError, match=r"a.png.*colours of 16 bits \(.*;16B\) would"):
        _read(path)


def test_damaged_picture(tmp_path):
    PIL.Image.effect_noise((64, 64), 50).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a\.png: cannot read the picture \("):
        _read(tmp_path / "a.png")


def test_arrays(tmp_path):
    np.save(tmp_path / "flat.npy", np.full((3, 4), -7, np.int16))
    np.save(tmp_path / "stack.npy", np.zeros((2, 3, 4, 1), np.float32))
    flat, *stack = _read(tmp_path)
    assert flat.pixels.shape == (3, 4, 1) and flat.values == "hu"
    assert [i.name for i in stack] == ["stack_000", "stack_001"]
    assert stack[0].values == "float"


def test_a_stack_of_grey_arrays(tmp_path):
    """Channels are few: a long last axis is the width of slices."""
    volume = np.arange(3 * 6 * 8, dtype=np.int16).reshape(3, 6, 8)
    np.save(tmp_path / "vol.npy", volume)
    images = _read(tmp_path / "vol.npy")
    assert [i.name for i in images] == ["vol_000", "vol_001", "vol_002"]
    np.testing.assert_array_equal(images[1].pixels[..., 0], volume[1])
    (image,) = _read(tmp_path / "vol.npy", slice="2")
    np.testing.assert_array_equal(image.pixels[..., 0], volume[2])
    np.save(tmp_path / "rgb.npy", np.zeros((6, 8, 3), np.uint8))
    assert _read(tmp_path / "rgb.npy")[0].pixels.shape == (6, 8, 3)


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((2, 0)), np.array([["a"]]), np.zeros((1,) * 5)]
)
def test_arrays_that_are_no_images(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy: .*expected"):
        _read(tmp_path / "a.npy")


def test_damaged_array(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'")
    with pytest.raises(ValueError, match=r"a\.npy: damaged NPY file \("):
        _read(tmp_path / "a.npy")


def test_objects_are_not_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy: .* array of Python objects"):
        _read(tmp_path / "a.npy")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers(tmp_path, value):
    array = np.zeros((4, 4))
    array[1, 2:] = value
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy: 2 values are NaN or infinite"):
        _read(tmp_path / "a.npy")


def test_spacing_where_the_file_does_not_say(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    (image,) = _read(tmp_path / "a.npy", spacing_mm="0.6,0.7")
    assert image.spacing_mm == (0.6, 0.7)
    path = dicom_writer.write_slice(
        tmp_path / "b.dcm", np.zeros((4, 4)), z_mm=0, uid="1"
    )
    with pytest.raises(
        ValueError, match="says itself that its pixels have 0.5 x 0.5 mm"
    ):
        _read(path, spacing_mm="0.6,0.7")


def test_names_are_unique(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "x.npy", np.zeros((4, 4)))
    images = _read(tmp_path / "a" / "x.npy", tmp_path / "b" / "x.npy")
    assert [image.name for image in images] == ["x", "x-2"]
