"""Images, outlines and legends inside figures."""

import numpy as np
import pytest

from tf_probunet.dataset.cityscapes_labels import colorize
from tf_probunet.figures import palette, pictures, style

LESION = np.zeros((6, 8), np.uint8)
LESION[2:4, 3:6] = 1
STREET = np.array([[0, 13], [21, 255]], np.uint8)
IMAGE = np.linspace(0, 1, 48).reshape(6, 8, 1)


@pytest.fixture
def axis():
    return style.new_figure(2, 2).subplots()


def test_binary_maps_hold_0_1_and_ignored_pixels():
    assert pictures.is_binary(LESION, np.array([0, 1, 255]))
    assert not pictures.is_binary(LESION, STREET)
    expected = [[False, True], [True, False]]
    np.testing.assert_array_equal(pictures.foreground(STREET), expected)


def test_a_lesion_is_an_outline_over_the_image(axis):
    pictures.show_labels(axis, IMAGE, LESION, binary=True, colour="red")
    np.testing.assert_allclose(axis.images[0].get_array(), IMAGE[..., 0])
    vertices = np.concatenate(
        [path.vertices for lines in axis.collections for path in lines.get_paths()]
    )
    # Half-way between the pixels inside and those outside.
    assert vertices.min(axis=0).tolist() == [2.5, 1.5]
    assert vertices.max(axis=0).tolist() == [5.5, 3.5]


def test_outline_closes_at_the_border_and_keeps_the_picture():
    page = style.Page(1, 1)
    axis = page.axes(0, 0, 1, 1)
    pictures.show_array(axis, np.zeros((6, 8)))
    pictures.outline(axis, np.ones((6, 8), bool), "red")
    (path,) = [p for c in axis.collections for p in c.get_paths()]
    # Half a pixel outside the outermost pixels' centres: the border of the image.
    low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
    assert low == pytest.approx([-0.5, -0.5]) and high == pytest.approx([7.5, 5.5])
    assert axis.get_xlim() == (-0.5, 7.5) and axis.get_ylim() == (5.5, -0.5)


def test_an_empty_mask_has_no_outline(axis):
    pictures.show_labels(axis, IMAGE, 0 * LESION, binary=True, colour="red")
    assert len(axis.images) == 1 and not axis.collections


def test_classes_are_colours(axis):
    labels = np.tile(STREET, (3, 4))
    pictures.show_labels(axis, IMAGE, labels, binary=False, colour="red")
    np.testing.assert_array_equal(axis.images[0].get_array(), colorize(labels))
    assert not axis.collections


def test_colour_images_keep_their_colours(axis):
    image = np.random.default_rng(0).random((4, 4, 3))
    pictures.show_image(axis, 2 * image)
    np.testing.assert_allclose(axis.images[0].get_array(), np.minimum(2 * image, 1))


def test_the_legend_names_the_classes_that_occur():
    page = style.Page(3, 2)
    pictures.class_legend(page, [STREET])
    (legend,) = page.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["road", "car", "car 2", "ignored"]
    # Two entries fit side by side into 3 inches, four into 5.
    narrow, wide = (pictures.class_legend_height([STREET], w) for w in (3, 5))
    assert narrow - wide == pytest.approx(pictures.note_height(["a"]) - 0.05)


def test_notes_are_wrapped():
    lines = pictures.wrapped("one two three four", 0.5, fontsize=6)
    assert lines == ["one two", "three four"]
    assert pictures.note_height([]) == 0
    assert pictures.note_height(lines) > pictures.note_height(lines[:1]) > 0


def test_classes_have_outlines_in_their_colours_over_the_image(axis):
    names = ("background", "disc", "cup")
    labels = np.where(LESION, 2, 0)  # A cup inside a disc.
    labels[1:5, 2:7][labels[1:5, 2:7] == 0] = 1
    pictures.show_labels(
        axis, IMAGE, labels, binary=False, colour="red", class_names=names
    )
    np.testing.assert_allclose(axis.images[0].get_array(), IMAGE[..., 0])
    drawn = [tuple(lines.get_edgecolor()[0][:3]) for lines in axis.collections]
    assert drawn == [pytest.approx(tuple(c)) for c in palette.colors(names)[1:] / 255]
    lows = [
        np.concatenate([path.vertices for path in lines.get_paths()]).min(axis=0)
        for lines in axis.collections
    ]
    np.testing.assert_allclose(lows, [[1.5, 0.5], [2.5, 1.5]])


def test_the_legend_names_the_classes_of_the_data():
    page = style.Page(4, 1)
    names = ("background", "disc", "cup", "vessel")
    pictures.class_legend(page, [np.array([[0, 2, 3]])], names)
    (legend,) = page.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cup", "vessel"]
