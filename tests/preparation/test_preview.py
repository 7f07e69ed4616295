import numpy as np
import PIL.Image
import pytest
from helpers import datasets

from tf_probunet.preparation import preview

SIDE = 32


def _sheet(tmp_path, labels, **changes):
    """Returns the colours on the sheet of one image with these label maps."""
    spec = datasets.spec(
        num_graders=len(labels), image_shape=(SIDE, SIDE, 1), **changes
    )
    image = np.full((SIDE, SIDE, 1), 50, np.uint8)
    example = datasets.example(0, image=image, labels=labels)
    datasets.write(tmp_path, {"train": [example]}, spec)
    preview.write(tmp_path, tmp_path / preview.NAME, 1)
    sheet = np.asarray(PIL.Image.open(tmp_path / preview.NAME))
    return {tuple(colour.tolist()) for colour in sheet.reshape(-1, 3)}


def test_outline_is_drawn_on_the_masks_own_pixels():
    masks = np.zeros((4, 8, 8), bool)
    masks[1, 2:6, 3:7] = True
    found = preview.draw_outlines(np.full((8, 8), 50, np.uint8), masks, zoom=1)
    expected = np.full((8, 8, 3), 50)
    expected[2:6, 3:7] = preview.COLOURS[1]
    expected[3:5, 4:6] = 50
    np.testing.assert_array_equal(found, expected)


def test_coinciding_outlines_take_turns():
    masks = np.zeros((4, 40, 40), bool)
    masks[:, 5:35, 5:35] = True
    found = preview.draw_outlines(np.zeros((40, 40), np.uint8), masks, zoom=1)
    shares = [(found == colour).all(axis=-1).sum() for colour in preview.COLOURS]
    assert sum(shares) == 4 * 29 and min(shares) > 20


def test_zoom_enlarges():
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found = preview.draw_outlines(grey, np.zeros((4, 2, 3)), zoom=2)
    assert found.shape == (4, 6, 3)
    np.testing.assert_array_equal(found[::2, ::2, 0], grey)
    np.testing.assert_array_equal(found[1::2, 1::2, 2], grey)


def test_mask_at_the_edge_is_not_closed_there():
    masks = np.zeros((1, 4, 4), bool)
    masks[0, :, :2] = True
    found = preview.draw_outlines(np.zeros((4, 4), np.uint8), masks, zoom=1)
    assert (found[:, 1] == preview.COLOURS[0]).all()
    assert (found[:, 0] == 0).all()


def test_contact_sheet_places_tiles_in_rows():
    tiles = [np.full((2, 3, 3), value, np.uint8) for value in range(1, 6)]
    sheet = preview.contact_sheet(tiles)
    assert sheet.shape == (4, 9, 3)
    assert sheet[::2, ::3, 0].tolist() == [[1, 2, 3], [4, 5, 0]]


def test_tiles_of_different_sizes():
    tiles = [np.full((2, 3, 3), 1, np.uint8), np.full((4, 1, 3), 2, np.uint8)]
    sheet = preview.contact_sheet(tiles)
    assert sheet[..., 0].tolist() == [
        [1, 1, 1, 2, 0, 0],
        [1, 1, 1, 2, 0, 0],
        [0, 0, 0, 2, 0, 0],
        [0, 0, 0, 2, 0, 0],
    ]


def test_colour_images_keep_their_colours():
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    found = preview.draw_outlines(picture, np.zeros((1, 4, 4)), zoom=1)
    np.testing.assert_array_equal(found, picture)


@pytest.mark.parametrize("graders", [1, 6, 32])
def test_binary_masks_have_a_colour_for_each_grader(tmp_path, graders):
    labels = np.zeros((graders, SIDE, SIDE), np.uint8)
    for i in range(graders):
        top, left = i // 8 * 8, i % 8 * 4
        labels[i, top : top + 4, left : left + 3] = 1
    seen = _sheet(tmp_path, labels, class_names=("nothing", "lesion"))
    colours = {tuple(colour.tolist()) for colour in preview.colours(graders)}
    assert len(colours) == graders and colours <= seen


def test_several_classes_have_a_colour_each(tmp_path):
    labels = np.zeros((2, SIDE, SIDE), np.uint8)
    labels[:, 2:19, 2:19] = 1
    labels[0, 8:12, 8:12] = 2
    seen = _sheet(
        tmp_path,
        labels,
        class_names=("nothing", "disc", "c\N{LATIN SMALL LETTER U WITH DIAERESIS}p"),
    )
    first, second, third = (tuple(c.tolist()) for c in preview.COLOURS[:3])
    assert {first, second} <= seen and third not in seen
