"""Pictures of an image with samples and graders."""

from __future__ import annotations

import numpy as np
import pytest

import tf_probunet as pu
from tf_probunet.api.drawing import to_unit_range


def _masks(number: int) -> np.ndarray:
    masks = np.zeros([number, 16, 16], bool)
    masks[1:, 4:9, 4:9] = True
    return masks


def test_image_graders_and_samples_are_drawn_in_a_row():
    figure = pu.plot_samples(np.zeros([16, 16]), _masks(3), _masks(2), title="one")
    assert len(figure.axes) == 1 + 2 + 3
    outlined = [bool(axis.collections) for axis in figure.axes]
    assert outlined == [False, False, True, False, True, True]
    assert "one" in [text.get_text() for text in figure.texts]


def test_without_graders():
    figure = pu.plot_samples(np.zeros([16, 16, 1]), _masks(2))
    assert len(figure.axes) == 3
    assert not any("grader" in text.get_text() for text in figure.texts)


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        (np.array([[0, 51]], np.uint8), [0, 0.2]),
        (np.array([[0.1, 0.2]]), [0.1, 0.2]),
        (np.array([[-1000.0, 1000.0]]), [0, 1]),
        (np.array([[7, 7]]), [0, 0]),
    ],
)
def test_values_are_brought_to_the_range_of_a_screen(image, shown):
    np.testing.assert_allclose(to_unit_range(image)[0, :, 0], shown, rtol=1e-6)


def test_shapes_that_do_not_fit_are_refused():
    image = np.zeros([16, 16])
    with pytest.raises(ValueError, match=r"\(16, 16\); expected \[number, 16, 16\]"):
        pu.plot_samples(image, np.zeros([16, 16], int))
    with pytest.raises(ValueError, match=r"graders have shape \(2, 8, 8\)"):
        pu.plot_samples(image, _masks(2), np.zeros([2, 8, 8], int))
    with pytest.raises(ValueError, match=r"image has shape \(16,\)"):
        pu.plot_samples(image[0], _masks(2))
