"""Where the cells of a grid lie, and what is written around them."""

import numpy as np
import pytest

from tf_probunet.figures import grid, style

GROUPS = [grid.Group("image", 1), grid.Group("grader", 2), grid.Group("sample", 3)]


def make(layout, num_images=2, **settings):
    return grid.Grid(
        num_images=num_images, groups=GROUPS, aspect=0.5, layout=layout, **settings
    )


def boxes(page_grid, num_images=2):
    """The cells as [image, place, (left, bottom, right, top)] in inches."""
    figure = page_grid.page.figure
    cells = [
        [page_grid.axes(i, place).get_position().extents for place in range(6)]
        for i in range(num_images)
    ]
    return np.array(cells) * np.tile(figure.get_size_inches(), 2)


def texts(page_grid):
    return [text.get_text() for text in page_grid.page.figure.texts]


def test_rows_have_an_image_each():
    rows = make("rows")
    cells = boxes(rows)
    left, bottom, right, top = np.moveaxis(cells, -1, 0)
    np.testing.assert_allclose(top - bottom, 0.5 * (right - left))
    np.testing.assert_allclose(left[0], left[1])
    assert (bottom[0] > top[1]).all()
    gaps = left[0, 1:] - right[0, :-1]
    # Wider between image, graders and samples than among them.
    assert gaps[[0, 2]].min() > gaps[[1, 3, 4]].max() > 0
    assert sorted(texts(rows)) == sorted(
        ["image", "graders", "samples", "1", "2", "1", "2", "3", "1", "2"]
    )


def test_columns_have_an_image_each():
    columns = make("columns", title="a title", note="a note")
    left, bottom, right, top = np.moveaxis(boxes(columns), -1, 0)
    np.testing.assert_allclose(bottom[0], bottom[1])
    assert (right[0] < left[1]).all()
    assert (bottom[0, :-1] > top[0, 1:]).all()
    found = texts(columns)
    assert {"a title", "a note", "image", "grader 2", "sample 3"} <= set(found)


def test_many_images_still_fit_on_the_page():
    for layout in grid.LAYOUTS:
        width, height = make(layout, num_images=30).page.figure.get_size_inches()
        assert width <= style.PAGE_WIDTH + 1e-6
        assert height <= style.PAGE_HEIGHT + 1e-6


def test_unknown_layouts_are_refused():
    with pytest.raises(ValueError, match="layout is 'heap'; expected one of rows, col"):
        make("heap")
