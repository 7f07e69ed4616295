"""The curves are the logged numbers, in the order of the steps."""

import pytest

from tf_probunet.figures import training_curves

LOG = {
    "validation/ged": {200: 0.4, 100: 0.6},
    "validation/cross_entropy": {100: 90.0, 200: 80.0},
    "validation/kl": {100: 3.0, 200: 2.0},
}


def test_curves_and_floor():
    figure = training_curves.draw({"a": LOG, "b": {"validation/ged": {1: 0.5}}}, 0.2)
    distance, entropy, divergence = figure.axes[:3]
    first, second, floor = distance.lines
    assert list(first.get_xdata()) == [100, 200]
    assert list(first.get_ydata()) == [0.6, 0.4]
    assert list(second.get_ydata()) == [0.5]
    assert list(floor.get_ydata()) == [0.2, 0.2]
    assert list(entropy.lines[0].get_ydata()) == [90.0, 80.0]
    assert not len(entropy.lines[1].get_xdata())  # A model without this term.
    assert list(divergence.lines[0].get_ydata()) == [3.0, 2.0]
    names = [text.get_text() for text in distance.get_legend().get_texts()]
    assert names == ["a", "b"]


def test_one_run_needs_no_legend():
    figure = training_curves.draw({"a": LOG})
    assert figure.axes[0].get_legend() is None
    assert len(figure.axes[0].lines) == 1


def test_a_run_without_validation_is_refused():
    with pytest.raises(ValueError, match="b: no validation/ged in its log"):
        training_curves.draw({"a": LOG, "b": {}})


def test_panels_without_numbers_are_left_out():
    log = {"validation/ged": {1: 0.5}, "training/energy_distance": {5: 0.2, 6: 0.1}}
    figure = training_curves.draw({"a": log})
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "energy distance",
        "energy distance, in training",
    ]
    assert list(figure.axes[1].lines[0].get_ydata()) == [0.2, 0.1]
