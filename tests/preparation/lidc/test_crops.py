import numpy as np
import pytest
import tensorflow as tf

from tf_probunet.imaging.resampling import crop_weights
from tf_probunet.preparation.lidc.crops import crop


def mask_at(shape, rows, columns):
    masks = np.zeros((4, *shape), bool)
    masks[0, rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = True
    return masks


def test_without_resampling_the_crop_is_a_cut():
    image = np.arange(400 * 300, dtype=np.int32).reshape(400, 300) % 3000
    image = image.astype(np.int16)
    # Box rows 200..203, columns 150..151: its centre lies on pixel edges 202 and 151.
    masks = mask_at(image.shape, (200, 203), (150, 151))
    found, found_masks = crop(image, masks, (0.5, 0.5))
    np.testing.assert_array_equal(found, image[112:292, 61:241])
    np.testing.assert_array_equal(found_masks, masks[:, 112:292, 61:241])
    assert found_masks[0, 88:92, 89:91].all() and found_masks.sum() == 8


def test_centre_of_an_odd_box_is_rounded_to_a_pixel_edge():
    image = np.zeros((400, 400), np.int16)
    masks = mask_at(image.shape, (200, 202), (200, 200))
    _, found = crop(image, masks, (0.5, 0.5))
    rows, columns = np.nonzero(found[0])
    assert (rows.min(), rows.max()) == (88, 90)
    assert (columns.min(), columns.max()) == (89, 89)


def test_centre_is_that_of_all_graders_on_the_slice():
    image = np.zeros((400, 400), np.int16)
    masks = np.zeros((4, 400, 400), bool)
    masks[1, 100:102, 150:152] = True
    masks[3, 198:200, 248:250] = True  # box of both: rows 100..199, columns 150..249
    _, found = crop(image, masks, (0.5, 0.5))
    assert np.argwhere(found[1])[0].tolist() == [40, 40]
    assert np.argwhere(found[3])[-1].tolist() == [139, 139]


@pytest.mark.parametrize("spacing", [(0.75, 0.75), (0.461, 0.977), (0.7, 0.5)])
def test_linear_pattern_is_reproduced_at_half_a_millimetre(spacing):
    rows_mm = (np.arange(512) + 0.5) * spacing[0]
    columns_mm = (np.arange(512) + 0.5) * spacing[1]
    image = np.rint(10 * rows_mm[:, None] - 5 * columns_mm).astype(np.int16)
    masks = mask_at(image.shape, (250, 259), (240, 251))
    found, _ = crop(image, masks, spacing)
    # Centre of the box in mm, then the target grid's edge next to it.
    centre_mm = np.array([255.0 * spacing[0], 246.0 * spacing[1]])
    start = np.floor(centre_mm / 0.5 - 90 + 0.5)
    target_mm = (start[:, None] + np.arange(180) + 0.5) * 0.5
    expected = 10 * target_mm[0][:, None] - 5 * target_mm[1]
    # Both roundings to whole numbers, and the anti-aliasing of them.
    np.testing.assert_allclose(found, expected, atol=1.01)


@pytest.mark.parametrize(("spacing", "size"), [(0.75, 96), (0.25, 32), (0.625, 80)])
def test_crop_is_a_cut_from_the_resampled_slice(spacing, size):
    # 64 pixels of `spacing` are `size` pixels of 0.5 mm.
    rng = np.random.default_rng(0)
    image = rng.integers(-1000, 1000, (64, 64)).astype(np.int16)
    masks = mask_at(image.shape, (28, 35), (24, 31))
    found, found_masks = crop(image, masks, (spacing, spacing), size=20)
    whole = tf.image.resize(
        np.stack([image, 1000.0 * masks[0]], axis=-1), (size, size), antialias=True
    ).numpy()
    top = round(32 * spacing / 0.5) - 10
    left = round(28 * spacing / 0.5) - 10
    cut = whole[top : top + 20, left : left + 20]
    np.testing.assert_allclose(found, cut[..., 0], atol=0.51)
    np.testing.assert_array_equal(found_masks[0], cut[..., 1] >= 500 - 0.01)


def test_crop_over_the_edge_is_air():
    image = np.full((200, 200), 40, np.int16)
    # Box at the corner: its centre is the edge of pixel 1, 89 pixels are outside.
    found, masks = crop(image, mask_at(image.shape, (0, 1), (198, 199)), (0.5, 0.5))
    assert (found[:89] == -1024).all() and (found[:, 91:] == -1024).all()
    assert (found[89:, :91] == 40).all()
    assert masks[0].sum() == 4 and masks[0, 89:91, 89:91].all()


def test_mask_keeps_its_area_in_square_millimetres():
    rows, columns = np.mgrid[:512, :512]
    disc = (rows - 250.3) ** 2 + (columns - 255.8) ** 2 < 20**2
    masks = np.stack([disc] + [np.zeros_like(disc)] * 3)
    _, found = crop(np.zeros((512, 512), np.int16), masks, (0.7, 0.7))
    assert found[0].sum() * 0.25 == pytest.approx(disc.sum() * 0.49, rel=0.01)
    assert not found[1:].any()


@pytest.mark.parametrize("column", range(250, 260))
@pytest.mark.parametrize("spacing", [0.461, 0.5, 0.703125, 0.977])
def test_mask_of_one_pixel_does_not_vanish(spacing, column):
    masks = mask_at((512, 512), (256, 256), (column, column))
    _, found = crop(np.zeros((512, 512), np.int16), masks, (spacing, spacing))
    assert 1 <= found[0].sum() <= 9
    assert not found[1:].any()


def dense_crop(image, masks, spacing_mm):
    """The products over the whole slice that `crop` cuts to the weights' window."""
    weights, inside = [], []
    for axis, marked in enumerate(np.nonzero(masks.any(axis=0))):
        scale = 0.5 / spacing_mm[axis]
        centre = ((marked.min() + marked.max()) / 2 + 0.5) / scale
        start = int(np.floor(centre - 90 + 0.5))
        found = crop_weights(start, 180, scale, image.shape[axis])
        weights.append(found[0])
        inside.append(found[1])
    values = weights[0] @ image.astype(np.float64) @ weights[1].T
    values = np.where(np.logical_and.outer(*inside), values, -1024)
    shares = weights[0] @ masks.astype(np.float64) @ weights[1].T
    cropped = shares >= 0.5 - 1e-9
    for share, mask in zip(shares, cropped):
        if share.any() and not mask.any():
            mask[np.unravel_index(share.argmax(), share.shape)] = True
    return np.rint(values).astype(np.int16), cropped


@pytest.mark.parametrize("spacing", [0.461, 0.5, 0.625, 0.703125, 0.820312, 0.977])
def test_window_of_the_weights_changes_no_byte(spacing):
    rng = np.random.default_rng(int(spacing * 1000))
    for row, column in [(0, 0), (250, 260), (505, 3), (120, 500)]:
        image = rng.integers(-1024, 3000, (512, 512)).astype(np.int16)
        masks = np.zeros((4, 512, 512), bool)
        box = masks[:3, row : row + 30, column : column + 20]
        box[...] = rng.random(box.shape) < 0.6
        found = crop(image, masks, (spacing, spacing))
        expected = dense_crop(image, masks, (spacing, spacing))
        assert found[0].tobytes() == expected[0].tobytes()
        assert found[1].tobytes() == expected[1].tobytes()
