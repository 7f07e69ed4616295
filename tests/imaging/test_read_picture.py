"""Tests of reading pictures and arrays: values, pages, and bad files."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
from helpers import png
from helpers.inputs import read


def test_pictures(tmp_path):
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    PIL.Image.fromarray(values).save(tmp_path / "grey.png")
    PIL.Image.fromarray(np.stack([values] * 3, -1)).save(tmp_path / "rgb.tiff")
    PIL.Image.fromarray(values.astype(np.uint16) * 300).save(tmp_path / "deep.png")
    PIL.Image.fromarray(values.astype(np.float32) - 5).save(tmp_path / "real.tif")
    deep, grey, real, rgb = read(tmp_path)
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
    (image,) = read(tmp_path / name)
    assert image.values == "uint8" and image.name == name.partition(".")[0]
    np.testing.assert_allclose(image.pixels[..., 0], values, atol=3)


def test_opaque_pictures_lose_their_alpha(tmp_path):
    grey = PIL.Image.effect_noise((8, 8), 50)
    for mode, channels in (("LA", 1), ("RGBA", 3)):
        grey.convert(mode).save(tmp_path / "a.png")
        (image,) = read(tmp_path / "a.png")
        assert image.pixels.shape == (8, 8, channels)
        np.testing.assert_array_equal(image.pixels[..., 0], np.array(grey))


def test_pages_of_a_tiff(tmp_path):
    pages = [PIL.Image.new("L", (4, 4), value) for value in (10, 20)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    images = read(tmp_path / "a.tif")
    assert [i.name for i in images] == ["a_000", "a_001"]
    assert [i.pixels.mean() for i in images] == [10, 20]


@pytest.mark.parametrize("color_type, bands", [(2, 3), (6, 4), (4, 2)])
def test_colours_of_16_bits_are_not_cut_to_8(tmp_path, color_type, bands):
    values = np.full((4, 6, bands), 300)
    path = tmp_path / "a.png"
    path.write_bytes(png.encode(values, bits=16, color_type=color_type))
    with pytest.raises(ValueError, match=r"a.png.*colours of 16 bits \(.*;16B\) would"):
        read(path)


def test_damaged_picture(tmp_path):
    PIL.Image.effect_noise((64, 64), 50).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a\.png: cannot read the picture \("):
        read(tmp_path / "a.png")


def test_arrays(tmp_path):
    np.save(tmp_path / "flat.npy", np.full((3, 4), -7, np.int16))
    np.save(tmp_path / "stack.npy", np.zeros((2, 3, 4, 1), np.float32))
    flat, *stack = read(tmp_path)
    assert flat.pixels.shape == (3, 4, 1) and flat.values == "hu"
    assert [i.name for i in stack] == ["stack_000", "stack_001"]
    assert stack[0].values == "float"


def test_a_stack_of_grey_arrays(tmp_path):
    """Channels are few: a long last axis is the width of slices."""
    volume = np.arange(3 * 6 * 8, dtype=np.int16).reshape(3, 6, 8)
    np.save(tmp_path / "vol.npy", volume)
    images = read(tmp_path / "vol.npy")
    assert [i.name for i in images] == ["vol_000", "vol_001", "vol_002"]
    np.testing.assert_array_equal(images[1].pixels[..., 0], volume[1])
    (image,) = read(tmp_path / "vol.npy", slice="2")
    np.testing.assert_array_equal(image.pixels[..., 0], volume[2])
    np.save(tmp_path / "rgb.npy", np.zeros((6, 8, 3), np.uint8))
    assert read(tmp_path / "rgb.npy")[0].pixels.shape == (6, 8, 3)


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((2, 0)), np.array([["a"]]), np.zeros((1,) * 5)]
)
def test_arrays_that_are_no_images(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy: .*expected"):
        read(tmp_path / "a.npy")


def test_damaged_array(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'")
    with pytest.raises(ValueError, match=r"a\.npy: damaged NPY file \("):
        read(tmp_path / "a.npy")


def test_objects_are_not_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy: .* array of Python objects"):
        read(tmp_path / "a.npy")
