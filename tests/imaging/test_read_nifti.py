"""Tests of reading NIfTI volumes: place, scaling, and bad files."""

from __future__ import annotations

import builtins
import struct

import numpy as np
import pytest
from helpers.inputs import read


@pytest.fixture
def nibabel():
    return pytest.importorskip("nibabel", reason="nibabel (an extra) is not installed")


def test_clear_message_without_nibabel(tmp_path, monkeypatch):
    true_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "nibabel":
            raise ImportError(name)
        return true_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "a.nii.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"pip install 'tf_probunet\[nifti\]'"):
        read(tmp_path / "a.nii.gz")


# Stored towards right, front and top, and with all axes in another order.
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, -1, 1), (1, -1, -1)])
def test_slices_lie_where_the_file_says(nibabel, tmp_path, order, signs):
    rng = np.random.default_rng(0)
    shape = tuple(np.array([5, 6, 4])[list(order)])
    data = rng.integers(-1000, 400, size=shape).astype(np.int16)
    affine = np.zeros((4, 4))
    for stored_axis, world_axis in enumerate(order):
        spacing = (0.7, 0.8, 2.0)[world_axis]
        affine[world_axis, stored_axis] = signs[world_axis] * spacing
    affine[:, 3] = [10, 20, 30, 1]
    nibabel.save(nibabel.Nifti1Image(data, affine), tmp_path / "v.nii.gz")
    images = read(tmp_path / "v.nii.gz")
    assert len(images) == 4
    inverse = np.linalg.inv(affine)
    heights = []
    for image in images:
        assert image.spacing_mm == pytest.approx((0.8, 0.7))
        assert image.shape == (6, 5)
        for row, col in [(0, 0), (3, 4), (5, 2)]:
            place = image.geometry.affine @ [col, row, 0, 1]
            stored = np.rint(inverse @ place).astype(int)[:3]
            assert image.pixels[row, col, 0] == data[tuple(stored)]
        heights.append((image.geometry.affine @ [0, 0, 0, 1])[2])
        # Columns run to the patient's left (-x), rows to the back (-y).
        assert image.geometry.affine[0, 0] < 0 and image.geometry.affine[1, 1] < 0
    assert heights == sorted(heights)


def test_stored_scaling_is_applied(nibabel, tmp_path):
    image = nibabel.Nifti1Image(np.full((4, 4), 550, np.int16), np.eye(4))
    nibabel.save(image, tmp_path / "v.nii")
    content = bytearray((tmp_path / "v.nii").read_bytes())
    content[112:120] = struct.pack("<ff", 2, -1000)  # Slope and intercept.
    (tmp_path / "v.nii").write_bytes(content)
    (found,) = read(tmp_path / "v.nii")
    assert (found.pixels == 100).all()
    assert found.values == "hu"


def test_8_bit_volumes_are_pictures(nibabel, tmp_path):
    image = nibabel.Nifti1Image(np.zeros((4, 4, 1), np.uint8), np.eye(4))
    nibabel.save(image, tmp_path / "v.nii")
    assert read(tmp_path / "v.nii")[0].values == "uint8"


def test_a_slice_by_its_height(nibabel, tmp_path):
    affine = np.diag([-0.7, -0.7, 2.0, 1.0])
    affine[2, 3] = -50
    data = np.arange(4, dtype=np.int16) * np.ones((4, 4, 1), np.int16)
    nibabel.save(nibabel.Nifti1Image(data, affine), tmp_path / "v.nii")
    (image,) = read(tmp_path / "v.nii", z_mm=-45.8)
    assert image.slice_index == 2 and (image.pixels == 2).all()


def test_damaged_file(nibabel, tmp_path):
    image = nibabel.Nifti1Image(np.random.rand(32, 32, 4).astype(np.float32), np.eye(4))
    nibabel.save(image, tmp_path / "v.nii.gz")
    whole = (tmp_path / "v.nii.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"nothing", b""):
        (tmp_path / "v.nii.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"v\.nii\.gz: "):
            read(tmp_path / "v.nii.gz")


def test_too_many_dimensions(nibabel, tmp_path):
    nibabel.save(
        nibabel.Nifti1Image(np.zeros((4, 4, 2, 3), np.int16), np.eye(4)),
        tmp_path / "v.nii",
    )
    with pytest.raises(ValueError, match=r"shape \[4, 4, 2, 3\], expected numbers"):
        read(tmp_path / "v.nii")
