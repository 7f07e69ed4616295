"""Tests of reading DICOM, pictures and arrays: values, order, and bad files."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
from helpers import dicom_writer, png

from tf_probunet.predict.config import CropConfig
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


def test_two_series(tmp_path):
    for i in (1, 2):
        dicom_writer.write_series(
            tmp_path / f"{i}", _slices(1), series_uid=f"{dicom_writer.UID_ROOT}{i}"
        )
        (tmp_path / f"{i}" / "000000.dcm").rename(tmp_path / f"{i}.dcm")
        (tmp_path / f"{i}").rmdir()
    with pytest.raises(ValueError, match="lies among 2 series"):
        _read(tmp_path)


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
