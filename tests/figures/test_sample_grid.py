"""Grids: what is drawn in which cell, and how street scenes get their truths."""

import numpy as np
import pytest
from helpers import results_writer

from tf_probunet.dataset import cityscapes_labels
from tf_probunet.figures import sample_grid, style


@pytest.fixture(scope="module")
def lesions():
    images, graders, samples = results_writer.lesions(3, size=24)
    return images, graders, samples[:, :5]


def cells(figure, columns):
    """The axes by row and column; they are added image by image."""
    return [figure.axes[i : i + columns] for i in range(0, len(figure.axes), columns)]


def test_outlines_where_something_is_marked_and_nowhere_else(lesions):
    images, graders, samples = lesions
    figure = sample_grid.draw(images=images, graders=graders, samples=samples)
    marked = np.concatenate([graders, samples], axis=1).any(axis=(2, 3))
    assert marked.any() and not marked.all()
    for image, row in enumerate(cells(figure, 1 + 4 + 5)):
        assert not row[0].collections
        assert [bool(axis.collections) for axis in row[1:]] == marked[image].tolist()


def test_columns_layout_is_the_rows_layout_turned(lesions):
    images, graders, samples = lesions
    boxes = {}
    for layout in ("rows", "columns"):
        figure = sample_grid.draw(
            images=images, graders=graders, samples=samples, layout=layout, title="t"
        )
        width, height = figure.get_size_inches()
        assert width < style.PAGE_WIDTH + 1e-6 and height < style.PAGE_HEIGHT + 1e-6
        boxes[layout] = [axis.get_position() for axis in figure.axes]
    first, second = boxes["rows"][:2]
    assert second.x0 > first.x1 and second.y0 == pytest.approx(first.y0)
    first, second = boxes["columns"][:2]
    assert second.y1 < first.y0 and second.x0 == pytest.approx(first.x0)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_cells_do_not_overlap_and_stay_on_the_page(lesions, layout):
    images, graders, samples = lesions
    figure = sample_grid.draw(
        images=images,
        graders=graders,
        samples=samples,
        layout=layout,
        keys=["a", "b", "c"],
    )
    boxes = [axis.get_position() for axis in figure.axes]
    for i, box in enumerate(boxes):
        assert 0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1
        for other in boxes[:i]:
            apart = (box.x0 - other.x1, other.x0 - box.x1)
            apart += (box.y0 - other.y1, other.y0 - box.y1)
            assert max(apart) > 0
    texts = [text.get_text() for text in figure.texts]
    assert any("2\u00a0=\u00a0b" in text for text in texts)


def test_street_scenes_are_painted_with_ignored_pixels_black():
    labels = results_writer.street_scene(0)
    samples = cityscapes_labels.switch_table(31)[labels]
    figure = sample_grid.draw(
        images=np.zeros((1, *labels.shape, 3)),
        graders=labels[None, None],
        samples=samples[None, None],
    )
    shown = [axis.images[0].get_array() for axis in figure.axes]
    np.testing.assert_array_equal(shown[1], cityscapes_labels.colorize(labels))
    np.testing.assert_array_equal(shown[2], cityscapes_labels.colorize(samples))
    assert (np.asarray(shown[1])[labels == 255] == 0).all()
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"road", "road 2", "ignored"} <= names and "bus" not in names


def test_comparison_has_a_row_for_the_truth_and_one_per_model(lesions):
    images, graders, samples = lesions
    figure = sample_grid.compare(
        image=images[0],
        graders=graders[0],
        samples={"one": samples[0], "two": samples[0][::-1]},
    )
    assert len(figure.axes) == (1 + 4) + 5 + 5
    rows = sorted({round(axis.get_position().y0, 6) for axis in figure.axes})
    assert len(rows) == 3
    marked = [*graders[0], *samples[0], *samples[0][::-1]]
    outlined = [bool(axis.collections) for axis in figure.axes[1:]]
    assert outlined == [bool(mask.any()) for mask in marked]
    assert {"one", "two", "ground truth"} <= {t.get_text() for t in figure.texts}


def test_unknown_layout_and_shapes_that_do_not_fit(lesions):
    images, graders, samples = lesions
    with pytest.raises(ValueError, match="layout is 'diagonal'"):
        sample_grid.draw(
            images=images, graders=graders, samples=samples, layout="diagonal"
        )
    with pytest.raises(ValueError, match="samples have the shapes"):
        sample_grid.draw(images=images, graders=graders, samples=samples[:2])


def test_all_modes_of_a_scene_with_all_classes():
    truth = sample_grid.likely_modes(results_writer.street_scene(1), 32)
    assert len(truth.maps) == 32
    assert truth.names[0] == "mode 0: 10.9 %" and truth.names[-1] == "mode 31: 0.5 %"
    np.testing.assert_array_equal(truth.maps[0], results_writer.street_scene(1))


def test_modes_of_missing_classes_are_one():
    # Only road: it stays with probability 13/17 and flips with 4/17.
    truth = sample_grid.likely_modes(np.zeros((4, 4), np.uint8), 5)
    assert truth.names == ["mode 0: 76.5 %", "mode 16: 23.5 %"]
    assert (truth.maps[1] == 23).all()
    with pytest.raises(ValueError, match="labels go up to 23"):
        sample_grid.likely_modes(truth.maps[1], 5)


def test_ground_truth_is_the_graders_or_the_modes():
    graders = np.arange(3, dtype=np.uint8)[:, None, None] * np.ones((3, 2, 2), np.uint8)
    truth = sample_grid.ground_truth(graders, is_switched=False)
    assert truth.names == ["grader 1", "grader 2", "grader 3"]
    np.testing.assert_array_equal(truth.maps, graders)
    street = np.full((1, 2, 2), 13)  # A car flips with probability 6/17.
    truth = sample_grid.ground_truth(street, is_switched=True)
    assert truth.maps[:, 0, 0].tolist() == [13, 21]
    assert sample_grid.ground_truth(street, True, 1).maps[:, 0, 0].tolist() == [13]
