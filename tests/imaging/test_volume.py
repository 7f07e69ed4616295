"""Slices as volumes: geometry by hand, gaps, and everything that is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tf_probunet.imaging.input_image import Geometry, InputImage
from tf_probunet.imaging.volume import volumes_of


def _slices(heights, *, along=(-0.5, 0, 0), down=(0, -0.8, 0), shear=0.0, shape=(6, 4)):
    images = []
    for i, z in enumerate(heights):
        affine = np.eye(4)
        affine[:3, 0], affine[:3, 1] = along, down
        affine[:3, 3] = 10, 20 + shear * z, z
        images.append(
            InputImage(
                f"scan_{i:03d}",
                f"scan/{i}.dcm",
                "dicom",
                np.zeros((*shape, 1)),
                "hu",
                spacing_mm=(0.8, 0.5),
                slice_index=i,
                geometry=Geometry(affine),
            )  # fmt: skip
        )
    return images


def test_steps_and_voxels():
    (volume,) = volumes_of(_slices([-5, -3, -1]))
    assert volume.shape == (3, 6, 4)
    assert volume.step_mm == pytest.approx(2)
    assert volume.spacing_mm == pytest.approx((0.8, 0.5))
    assert volume.voxel_mm3 == pytest.approx(0.5 * 0.8 * 2)
    # Slice 1, row 3 and column 2 lie at x = 10 - 2 * 0.5 and y = 20 - 3 * 0.8.
    assert volume.voxel_of((9.0, 17.6, -3)) == (1, 3, 2)
    assert volume.voxel_of((9.0, 17.6, -3.9)) == (1, 3, 2)
    assert volume.voxel_of((9.0, 17.6, 0.5)) is None
    assert volume.voxel_of((10.3, 17.6, -3)) is None


def test_slices_of_a_tilted_gantry_are_sheared():
    (volume,) = volumes_of(_slices([0, 2, 4], shear=0.2))
    np.testing.assert_allclose(volume.affine[:3, 2], [0, 0.4, 2])
    assert volume.voxel_mm3 == pytest.approx(0.5 * 0.8 * 2)
    assert volume.voxel_of((10, 20.8, 4)) == (2, 0, 0)


def test_tilted_planes_are_as_far_apart_as_their_normals_say():
    tilt = np.radians(20)
    down = (0, -0.8 * np.cos(tilt), -0.8 * np.sin(tilt))
    (volume,) = volumes_of(_slices([0, 2, 4], down=down))
    assert volume.step_mm == pytest.approx(2 * np.cos(tilt))


def test_scans_are_cut_where_slices_are_missing():
    first, second = volumes_of(_slices([0, 2, 4, 10, 16, 18]))
    assert (first.first, len(first.images)) == (0, 3)
    assert (second.first, len(second.images)) == (4, 2)
    assert first.ends_in_gap == (False, True) and second.ends_in_gap == (True, False)
    np.testing.assert_allclose(second.affine[:3, 3], [10, 20, 16])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (_slices([1]), "scan/0.dcm: a single slice, expected a series"),
        (
            _slices([0, 2, 2, 4]),
            "scan/2.dcm: lies at the same height as scan/1.dcm",
        ),
        (
            _slices([0, 2], along=(0, 0.5, 0), down=(0, 0, 0.8)),
            "scan: an oblique series, its slices are tilted by 90 degrees",
        ),
        (
            [*_slices([0, 2]), *_slices([4, 6], shape=(5, 4))],
            "scan/0.dcm: 5x4 pixels, but scan/0.dcm has 6x4",
        ),
        (
            [*_slices([0, 2]), *_slices([4], along=(-0.6, 0, 0))],
            "scan/0.dcm: pixels of another size or direction",
        ),
        (
            [dataclasses.replace(one, geometry=None) for one in _slices([0, 2])],
            "scan: the position of its slices is not known",
        ),
    ],
)
def test_what_is_no_volume_is_refused(images, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        volumes_of(images)
