"""Tests of tf_probunet.dataset.augmentation."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.ndimage
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet import seeds
from tf_probunet.config import AugmentationConfig
from tf_probunet.dataset import augmentation

_OFF = AugmentationConfig.off()
_RNG = np.random.default_rng(8)
_IMAGE = _RNG.uniform(size=(12, 12, 1)).astype(np.float32)
_LABELS = _RNG.integers(0, 4, size=(2, 12, 12)).astype(np.int32)


def _augment(
    seed: int = 0,
    config: AugmentationConfig = _OFF,
    *,
    image: np.ndarray = _IMAGE,
    labels: np.ndarray = _LABELS,
    crop_size: int = 0,
    outside_label: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    image, labels = augmentation.augment(
        image=tf.constant(image),
        labels=tf.constant(labels),
        seed=seeds.root(seed),
        config=config,
        crop_size=crop_size,
        outside_label=outside_label,
    )
    return image.numpy(), labels.numpy()


def _only(**changes) -> AugmentationConfig:
    return dataclasses.replace(_OFF, **changes)


@pytest.fixture
def forced(monkeypatch):
    """Makes every uniform draw from -1..1 the given number."""
    original = tf.random.stateless_uniform

    def force(value: float) -> None:
        def draw(shape, seed, minval=0.0, maxval=1.0):
            if minval == 0.0:
                return original(shape, seed)
            return tf.fill(shape, tf.constant(value, tf.float32))

        monkeypatch.setattr(tf.random, "stateless_uniform", draw)

    return force


def test_switched_off_is_the_identity():
    for crop_size in (0, 12):
        image, labels = _augment(3, crop_size=crop_size)
        np.testing.assert_array_equal(image, _IMAGE)
        np.testing.assert_array_equal(labels, _LABELS)


def test_warp_of_nothing_is_the_identity(monkeypatch):
    # The same through the sampling grid instead of the shortcut.
    monkeypatch.setattr(augmentation, "_affine", lambda *_: tf.eye(2))
    image, labels = _augment(config=_only(flip=True))
    np.testing.assert_array_equal(image, _IMAGE)
    np.testing.assert_array_equal(labels, _LABELS)


def test_crops_come_from_everywhere_and_keep_image_and_labels_together():
    found = set()
    for seed in range(120):
        image, labels = _augment(seed, crop_size=10)
        (offset,) = [
            (row, col)
            for row in range(3)
            for col in range(3)
            if np.array_equal(_IMAGE[row : row + 10, col : col + 10], image)
        ]
        row, col = offset
        np.testing.assert_array_equal(
            _LABELS[:, row : row + 10, col : col + 10], labels
        )
        found.add(offset)
    assert len(found) == 9


@pytest.mark.parametrize("size", [(9, 12), (12, 9)])
def test_crop_larger_than_the_image_is_refused(size):
    message = f"a crop of 10x10 does not fit into images of {size[0]}x{size[1]}"
    with pytest.raises(ValueError, match=message):
        augmentation.crop_shape(size, 10)
    assert augmentation.crop_shape(size, 9) == (9, 9)
    assert augmentation.crop_shape(size, 0) == size


def test_rotation_by_a_right_angle(forced):
    forced(1.0)
    image, labels = _augment(config=_only(rotation_degrees=90))
    np.testing.assert_allclose(image, np.rot90(_IMAGE, -1), atol=1e-5)
    np.testing.assert_array_equal(labels, np.rot90(_LABELS, -1, axes=(1, 2)))


def test_rotation_is_about_the_centre_of_the_crop(forced):
    forced(-1.0)
    source = augmentation.source_positions(
        seeds.root(0), _only(rotation_degrees=180), tf.constant([2, 3]), (5, 7)
    ).numpy()
    rows, cols = np.mgrid[2:7, 3:10]
    np.testing.assert_allclose(source[..., 0], rows[::-1], atol=1e-5)
    np.testing.assert_allclose(source[..., 1], cols[:, ::-1], atol=1e-5)


def test_enlarging_by_two(forced):
    forced(1.0)
    image = np.zeros((12, 12, 1), np.float32)
    image[4:8, 4:8] = 1
    _, labels = _augment(
        config=_only(scale=1.0), labels=image[None, ..., 0].astype(np.int32)
    )
    expected = np.zeros((12, 12), np.int32)
    expected[2:10, 2:10] = 1
    np.testing.assert_array_equal(labels[0], expected)


def test_shrinking_by_two_shows_what_is_outside(forced):
    forced(-1.0)
    image = np.full((12, 12, 1), 0.25, np.float32)
    source = augmentation.source_positions(
        seeds.root(0), _only(scale=1.0), tf.constant([0, 0]), (12, 12)
    )
    labels = augmentation.sample_labels(
        tf.ones([1, 12, 12], tf.int32), source, 255
    ).numpy()[0]
    expected = np.full((12, 12), 255)
    expected[3:9, 3:9] = 1
    np.testing.assert_array_equal(labels, expected)
    sampled = augmentation.sample_image(tf.constant(image), source).numpy()
    np.testing.assert_array_equal(sampled, image)  # the edge goes on


def _matrix(seed: int, **changes) -> np.ndarray:
    return augmentation._affine(seeds.root(seed), _only(**changes)).numpy()


def test_affine_map_rotates():
    angles = []
    for seed in range(60):
        matrix = _matrix(seed, rotation_degrees=30)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(2), atol=1e-6)
        assert np.linalg.det(matrix) == pytest.approx(1, abs=1e-6)
        angles.append(math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])))
    assert -30 <= min(angles) < -20 and 20 < max(angles) <= 30


def test_affine_map_scales():
    scales = []
    for seed in range(60):
        matrix = _matrix(seed, scale=0.25)
        np.testing.assert_allclose(matrix, matrix[0, 0] * np.eye(2), atol=1e-6)
        scales.append(matrix[0, 0])
    assert 1 / 1.25 <= min(scales) < 0.85 and 1.15 < max(scales) <= 1.25


def test_affine_map_shears():
    shears = []
    for seed in range(60):
        matrix = _matrix(seed, shear_degrees=20)
        np.testing.assert_allclose(matrix[[0, 1, 1], [0, 0, 1]], [1, 0, 1])
        shears.append(math.degrees(math.atan(matrix[0, 1])))
    assert -20 <= min(shears) < -13 and 13 < max(shears) <= 20


def test_affine_map_mirrors_half_of_the_time():
    flips = [_matrix(seed, flip=True)[1, 1] for seed in range(100)]
    assert set(flips) == {-1.0, 1.0}
    assert 25 <= flips.count(1.0) <= 75


def test_quarter_turns_and_mirroring_give_the_eight_symmetries_of_the_image():
    expected = [
        np.rot90(side, turns)
        for side in (_IMAGE, _IMAGE[:, ::-1])
        for turns in range(4)
    ]
    maps = [
        np.rot90(side, turns, axes=(1, 2))
        for side in (_LABELS, _LABELS[:, :, ::-1])
        for turns in range(4)
    ]
    found = []
    for seed in range(80):
        image, labels = _augment(seed, config=_only(quarter_turns=True, flip=True))
        errors = [np.abs(image - one).max() for one in expected]
        found.append(int(np.argmin(errors)))
        assert min(errors) < 1e-5
        np.testing.assert_array_equal(labels, maps[found[-1]])
    assert np.bincount(found, minlength=8).min() >= 2


@pytest.mark.parametrize("draw", [-1.0, 0.0, 0.5])
def test_affine_map_can_always_be_inverted(forced, draw):
    forced(draw)
    matrix = _matrix(0, flip=True, rotation_degrees=50, scale=0.5, shear_degrees=30)
    area = (1.5**-draw) ** 2
    assert abs(np.linalg.det(matrix)) == pytest.approx(area, rel=1e-5)


def test_mirroring_is_exact(forced):
    forced(-1.0)
    image = augmentation.sample_image(
        tf.constant(_IMAGE),
        augmentation.source_positions(
            seeds.root(0), _only(flip=True), tf.constant([0, 0]), (12, 12)
        ),
    )
    np.testing.assert_array_equal(image, _IMAGE[:, ::-1])


@pytest.mark.parametrize("seed", range(4))
def test_sampling_is_that_of_scipy(seed):
    config = AugmentationConfig(flip=True, scale=0.5)
    source = augmentation.source_positions(
        seeds.root(seed), config, tf.constant([1, 2]), (9, 8)
    )
    coordinates = np.moveaxis(source.numpy(), -1, 0)
    image = augmentation.sample_image(tf.constant(_IMAGE), source).numpy()
    expected = scipy.ndimage.map_coordinates(
        _IMAGE[..., 0], coordinates, order=1, mode="nearest"
    )
    np.testing.assert_allclose(image[..., 0], expected, atol=1e-5)
    labels = augmentation.sample_labels(tf.constant(_LABELS), source, 9).numpy()
    nearest = np.round(coordinates)
    for one, stored in zip(labels, _LABELS):
        expected = scipy.ndimage.map_coordinates(
            stored, nearest, order=0, mode="constant", cval=9
        )
        np.testing.assert_array_equal(one, expected)


def _blob() -> np.ndarray:
    """An asymmetric shape in the middle of 64x64."""
    rows, cols = np.mgrid[:64, :64]
    disc = (rows - 34) ** 2 + (cols - 30) ** 2 < 14**2
    tail = (abs(rows - 24) < 5) & (abs(cols - 42) < 12)
    return disc | tail


def _iou(one: np.ndarray, other: np.ndarray) -> float:
    return (one & other).sum() / (one | other).sum()


@pytest.mark.parametrize("seed", range(5))
def test_a_label_drawn_into_the_image_moves_with_it(seed):
    blob = _blob()
    config = AugmentationConfig(flip=True, shear_degrees=15, elastic_spacing_px=16)
    image, labels = _augment(
        seed,
        config,
        image=blob[..., None].astype(np.float32),
        labels=blob[None].astype(np.int32),
        crop_size=56,
    )
    assert image.shape == (56, 56, 1) and labels.shape == (1, 56, 56)
    assert _iou(image[..., 0] > 0.5, labels[0] == 1) > 0.97
    assert _iou(labels[0] == 1, blob[4:60, 4:60]) < 0.9
    assert set(np.unique(labels)) == {0, 1}


@settings(max_examples=15)
@given(st.integers(-(2**63), 2**63 - 1))
def test_labels_remain_labels_and_images_in_range(seed):
    labels = np.where(_LABELS == 1, 17, _LABELS).astype(np.int32)
    config = AugmentationConfig(flip=True, scale=0.5, gamma=0.5, contrast=1)
    image, moved = _augment(seed, config, labels=labels, outside_label=255)
    assert set(np.unique(moved)) <= {0, 2, 3, 17, 255}
    assert 0 <= image.min() and image.max() <= 1


def test_graders_move_alike():
    labels = np.stack([_LABELS[0], 3 - _LABELS[0]])
    _, moved = _augment(1, AugmentationConfig(), labels=labels, outside_label=9)
    inside = moved[0] != 9
    assert inside.any()
    np.testing.assert_array_equal(moved[0][inside] + moved[1][inside], 3)
    np.testing.assert_array_equal(moved[0] == 9, moved[1] == 9)


def test_same_seed_same_result_another_seed_another():
    config = AugmentationConfig(brightness=0.2)
    first, again, other = (_augment(seed, config, crop_size=8) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert np.abs(first[0] - other[0]).max() > 0.01
    assert (first[1] != other[1]).any()


def test_elastic_deformation_is_smooth_and_of_the_size_asked_for():
    config = _only(elastic_std_px=3.0, elastic_spacing_px=16)
    fields = np.stack(
        [augmentation._elastic(seeds.root(i), config, (64, 48)) for i in range(30)]
    )
    assert fields.shape == (30, 64, 48, 2)
    # Between the random vectors the interpolation is a mean: a little smaller.
    assert 0.6 * 3 < fields.std() < 1.05 * 3
    assert abs(fields.mean()) < 0.5
    steps = (
        np.abs(np.diff(fields, axis=1)).mean(),
        np.abs(np.diff(fields, axis=2)).mean(),
    )
    assert max(steps) < 3 / 16 * 2
    rows, cols = fields[..., 0].ravel(), fields[..., 1].ravel()
    assert abs(np.corrcoef(rows, cols)[0, 1]) < 0.2


@pytest.mark.parametrize(
    "config, draw, expected",
    [
        (_only(brightness=0.3), 1.0, lambda x: np.clip(x + 0.3, 0, 1)),
        (_only(brightness=0.3), -0.5, lambda x: np.clip(x - 0.15, 0, 1)),
        (_only(gamma=1.0), 1.0, lambda x: x**2),
        (_only(gamma=1.0), -1.0, np.sqrt),
        (
            _only(contrast=0.5),
            1.0,
            lambda x: np.clip((x - x.mean()) * 1.5 + x.mean(), 0, 1),
        ),
        (
            _only(contrast=0.5),
            -1.0,
            lambda x: (x - x.mean()) / 1.5 + x.mean(),
        ),
        (_only(saturation=1.0), 1.0, lambda x: x),  # no colour to saturate
    ],
)
def test_colour_changes(forced, config, draw, expected):
    forced(draw)
    changed = augmentation._recolour(tf.constant(_IMAGE), seeds.root(0), config)
    np.testing.assert_allclose(changed, expected(_IMAGE), atol=1e-5)


def test_saturation_of_colour_images(forced):
    forced(-1.0)
    image = _RNG.uniform(0.2, 0.8, size=(4, 4, 3)).astype(np.float32)
    changed = augmentation._recolour(
        tf.constant(image), seeds.root(0), _only(saturation=1.0)
    ).numpy()
    # In HSV the value is the maximum; half the saturation halves the way to it.
    top = image.max(axis=-1, keepdims=True)
    np.testing.assert_allclose(changed, top - (top - image) / 2, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_colours_stay_in_range(seed):
    image = _RNG.uniform(size=(12, 12, 3)).astype(np.float32)
    config = _only(brightness=0.9, contrast=3, saturation=3, gamma=3)
    changed, labels = _augment(seed, config, image=image)
    assert 0 <= changed.min() and changed.max() <= 1
    assert np.isfinite(changed).all()
    np.testing.assert_array_equal(labels, _LABELS)


@pytest.mark.parametrize("channels", [1, 3])
def test_own_bilinear_sampling_is_that_of_tensorflow_addons(channels):
    addons = pytest.importorskip(
        "tensorflow_addons", reason="needs tensorflow-addons, as in the legacy lane"
    )
    images = _RNG.normal(size=(2, 9, 7, channels)).astype(np.float32)
    # Also beyond the edges, and on the pixels.
    points = _RNG.uniform(-4, 13, size=(2, 500, 2)).astype(np.float32)
    points[:, :100] = np.rint(points[:, :100])
    expected = addons.image.interpolate_bilinear(images, points)
    found = augmentation.bilinear(tf.constant(images), tf.constant(points))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_own_bilinear_sampling_is_that_of_scipy():
    image = _RNG.normal(size=(9, 7)).astype(np.float32)
    points = _RNG.uniform(-4, 13, size=(500, 2)).astype(np.float32)
    expected = scipy.ndimage.map_coordinates(image, points.T, order=1, mode="nearest")
    found = augmentation.bilinear(
        tf.constant(image[None, :, :, None]), tf.constant(points[None])
    )
    np.testing.assert_allclose(found[0, :, 0], expected, rtol=0, atol=1e-5)


def test_the_notice_of_tensorflow_addons_is_not_shown():
    pytest.importorskip(
        "tensorflow_addons", reason="needs tensorflow-addons, as in the legacy lane"
    )
    code = (
        "import sys, numpy as np\n"
        "from tf_probunet.dataset import augmentation\n"
        "assert 'tensorflow_addons' not in sys.modules\n"
        "grid = np.zeros((2, 2, 2), np.float32)\n"
        "augmentation.sample_image(np.zeros((4, 4, 1), np.float32), grid)\n"
        "assert 'tensorflow_addons' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default::UserWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Addons" not in done.stderr + done.stdout


def test_crop_centres_stay_within_the_jitter() -> None:
    size, jitter = 12, 2
    rows = np.broadcast_to(np.arange(size)[:, None, None] / size, (size, size, 1))
    corners = set()
    for seed in range(60):
        image, _ = augmentation.augment(
            image=tf.constant(rows, tf.float32),
            labels=tf.zeros([1, size, size], tf.int32),
            seed=seeds.root(seed),
            config=_OFF,
            crop_size=4,
            crop_jitter_px=jitter,
            outside_label=0,
        )
        corners.add(round(float(image[0, 0, 0]) * size))
    # The central crop starts at row 4.
    assert corners == {2, 3, 4, 5, 6}


def test_translation_shifts_image_and_labels_by_the_same_amount() -> None:
    image = np.zeros((24, 24, 1), np.float32)
    image[10:14, 9:15] = 1.0
    labels = (image[None, ..., 0] > 0.5).astype(np.int32)
    places = set()
    for seed in range(8):
        moved, moved_labels = _augment(
            seed, _only(translation_px=5.0), image=image, labels=labels
        )
        centre = scipy.ndimage.center_of_mass(moved[..., 0])
        label_centre = scipy.ndimage.center_of_mass(moved_labels[0])
        np.testing.assert_allclose(centre, label_centre, atol=0.51)
        np.testing.assert_allclose(centre, [11.5, 11.5], atol=5.01)
        places.add(tuple(np.round(centre, 2)))
    assert len(places) == 8
