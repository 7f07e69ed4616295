"""The values of masks in all kinds of files, exactly as they are stored."""

from __future__ import annotations

import nibabel
import numpy as np
import PIL.Image
import pytest
from helpers import folders, png

from tf_probunet.preparation.folder import masks

LABELS = np.array([[0, 1, 2, 0], [3, 0, 1, 2]], np.uint8)


def _read(path, **options):
    (found,) = masks.read(path, **options)
    return found


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp", "a.npy", "a.nii"])
def test_labels_survive(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, LABELS)
    elif name.endswith(".nii"):
        # Columns and rows as stored: to the left and to the back.
        affine = np.diag([-1.0, -1.0, 1.0, 1.0])
        # As many programs write them: real numbers.
        nibabel.save(nibabel.Nifti1Image(LABELS.T.astype(np.float64), affine), path)
    else:
        folders.save(path, LABELS)
    np.testing.assert_array_equal(_read(path).values, LABELS)


def test_boolean_arrays_and_one_bit_pictures(tmp_path):
    binary = LABELS > 0
    np.save(tmp_path / "a.npy", binary)
    PIL.Image.fromarray(binary).save(tmp_path / "a.png")
    for name in ("a.npy", "a.png"):
        np.testing.assert_array_equal(_read(tmp_path / name).values, binary)


def test_four_bit_greys_are_not_stretched(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png.encode(LABELS[..., None], bits=4, color_type=0))
    np.testing.assert_array_equal(_read(path).values, LABELS)


def test_sixteen_bits(tmp_path):
    large = LABELS.astype(np.uint16) * 300
    folders.save(tmp_path / "a.png", large)
    np.testing.assert_array_equal(_read(tmp_path / "a.png").values, large)


def test_grey_stored_as_rgb_or_with_alpha(tmp_path):
    rgb = np.repeat(LABELS[..., None], 3, axis=2)
    folders.save(tmp_path / "rgb.png", rgb)
    alpha = np.full_like(LABELS, 255)
    folders.save(tmp_path / "rgba.png", np.dstack([rgb, alpha]))
    for name in ("rgb.png", "rgba.png"):
        found = _read(tmp_path / name)
        np.testing.assert_array_equal(found.values, LABELS)
        np.testing.assert_array_equal(found.colors, rgb)


def test_transparent_pixels_are_background(tmp_path):
    alpha = np.where(LABELS == 1, 255, 0).astype(np.uint8)
    white = np.full((2, 4, 3), 255, np.uint8)
    folders.save(tmp_path / "a.png", np.dstack([white, alpha]))
    np.testing.assert_array_equal(_read(tmp_path / "a.png").values, alpha)
    alpha[0, 0] = 99
    folders.save(tmp_path / "a.png", np.dstack([white, alpha]))
    with pytest.raises(ValueError, match="half transparent"):
        _read(tmp_path / "a.png")


def _with_palette(path, colors):
    picture = PIL.Image.fromarray(LABELS).convert("P")
    picture.putpalette(bytes(np.array(colors, np.uint8)))
    picture.save(path)


def test_palettes(tmp_path):
    path = tmp_path / "a.png"
    colors = [(0, 0, 0), (255, 0, 0), (0, 255, 0), (9, 9, 200)]
    _with_palette(path, colors)
    found = _read(path)
    np.testing.assert_array_equal(found.values, LABELS)
    np.testing.assert_array_equal(found.colors, np.array(colors)[LABELS])
    assert found.starts_black
    _with_palette(path, colors[::-1])
    assert not _read(path).starts_black


def test_a_palette_with_colours_that_are_not_used(tmp_path):
    colors = [(0, 0, 0), (9, 9, 9), (8, 8, 8), (7, 7, 7), (9, 0, 0)]
    _with_palette(tmp_path / "a.png", colors)
    np.testing.assert_array_equal(_read(tmp_path / "a.png").values, LABELS)


def test_palettes_of_greys_are_greys(tmp_path):
    # Number 0 is white here: the numbers mean nothing.
    _with_palette(tmp_path / "a.png", [(255,) * 3, (0,) * 3, (7,) * 3, (8,) * 3])
    found = _read(tmp_path / "a.png")
    np.testing.assert_array_equal(found.values, np.array([255, 0, 7, 8])[LABELS])


def test_colours(tmp_path):
    colors = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (9, 9, 200)], np.uint8)
    folders.save(tmp_path / "a.png", colors[LABELS])
    found = _read(tmp_path / "a.png")
    assert found.values is None
    np.testing.assert_array_equal(found.colors, colors[LABELS])


def test_thresholds(tmp_path):
    soft = np.array([[0.0, 0.49, 0.5, 1.0]])
    np.save(tmp_path / "a.npy", soft)
    found = _read(tmp_path / "a.npy", threshold=0.5)
    assert found.values.tolist() == [[0, 0, 1, 1]]
    folders.save(tmp_path / "a.png", np.array([[0, 127, 128, 255]], np.uint8))
    found = _read(tmp_path / "a.png", threshold=128)
    assert found.values.tolist() == [[0, 0, 1, 1]]
    # By the greys that it shows, whatever their numbers in the palette are.
    grey = [(0, 0, 0), (127,) * 3, (128,) * 3, (255,) * 3, (255, 0, 0)]
    _with_palette(tmp_path / "p.png", grey)
    found = _read(tmp_path / "p.png", threshold=128)
    np.testing.assert_array_equal(found.values, LABELS >= 2)
    # A picture of one bit is a mask already.
    folders.save(tmp_path / "b.png", np.array([[False, True]]))
    assert _read(tmp_path / "b.png", threshold=128).values.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.0, 0.37]], r"a\.npy: a mask with fractions such as 0.37, expected whole"),
        ([[0.0, np.nan]], "NaN or infinite"),
        ([[-1, 0]], "values from -1 to 0, expected 0 to 65535"),
        ([[0, 70000]], "values from 0 to 70000, expected 0 to 65535"),
        (np.zeros((4, 4, 2)), r"float64 values of shape \[4, 4, 2\], expected a mask"),
    ],
)
def test_values_that_are_no_labels(tmp_path, values, message):
    np.save(tmp_path / "a.npy", np.array(values))
    with pytest.raises(ValueError, match=message):
        masks.read(tmp_path / "a.npy")


def test_stacks(tmp_path):
    np.save(tmp_path / "a.npy", np.stack([np.full((8, 8), i) for i in range(5)]))
    found = masks.read(tmp_path / "a.npy")
    assert [int(mask.values.mean()) for mask in found] == [0, 1, 2, 3, 4]
