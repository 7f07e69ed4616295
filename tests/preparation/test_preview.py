import numpy as np

from tf_probunet.preparation import preview


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
