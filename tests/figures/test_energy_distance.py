"""The points are the values, the symbols their means, the lines the floors."""

import numpy as np
import pytest

from tf_probunet.figures import energy_distance
from tf_probunet.figures.energy_distance import Scores


@pytest.fixture
def models():
    rng = np.random.default_rng(3)
    floor = np.tile([0.5, 0.2], (30, 1))
    return [
        Scores(
            "first",
            np.array([1, 4]),
            rng.random((30, 2)),
            floor,
            low=np.array([0.4, 0.3]),
            high=np.array([0.6, 0.5]),
        ),
        Scores("second", np.array([4, 16]), rng.random((30, 2)), None),
    ]


def lines(axis, label):
    return [line for line in axis.lines if line.get_label() == label]


def test_points_means_and_floors(models):
    (axis,) = energy_distance.draw(models).axes
    clouds = [c.get_offsets() for c in axis.collections]
    columns = [values for model in models for values in model.values.T]
    assert len(clouds) == 4
    for cloud, values in zip(clouds, columns):
        np.testing.assert_array_equal(cloud[:, 1], values)
    means = [line.get_ydata()[0] for line in lines(axis, "mean")]
    np.testing.assert_allclose(means, [values.mean() for values in columns])
    floors = [list(line.get_ydata()) for line in lines(axis, "floor")]
    np.testing.assert_allclose(floors, [[0.5, 0.5], [0.2, 0.2]])


def test_columns_of_a_group_lie_side_by_side(models):
    (axis,) = energy_distance.draw(models).axes
    x = [line.get_xdata()[0] for line in lines(axis, "mean")]
    # First model at 1 and 4 samples, second at 4 and 16; a group is 1 wide.
    assert x == pytest.approx([-0.21, 0.79, 1.21, 2.21])
    spans = [np.ptp(c.get_offsets()[:, 0]) for c in axis.collections]
    assert max(spans) < 0.42  # The distance between two columns.
    for cloud, centre in zip(axis.collections, x):
        assert np.abs(cloud.get_offsets()[:, 0] - centre).max() < 0.21
    labels = [tick.get_text() for tick in axis.get_xticklabels()]
    assert labels == ["1\nfloor .500", "4\nfloor .200", "16"]


def test_chosen_samples_have_a_floor_of_their_own(models):
    chosen = models[0]._replace(name="b", floor=np.full((30, 2), 0.1), is_chosen=True)
    figure = energy_distance.draw([models[0], chosen])
    floors = [line.get_ydata()[0] for line in lines(figure.axes[0], "floor")]
    np.testing.assert_allclose(floors, [0.5, 0.2, 0.1, 0.1])
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert labels == ["1\nfloor .500 / .100", "4\nfloor .200 / .100"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[2:] == [
        "floor: a perfect model",
        "floor: a perfect model, chosen samples",
    ]


def test_intervals_and_written_means(models):
    (axis,) = energy_distance.draw(models).axes
    intervals = [
        tuple(line.get_ydata()) for line in axis.lines if line.get_color() == "black"
    ]
    assert (0.4, 0.6) in intervals and (0.3, 0.5) in intervals
    texts = [text.get_text() for text in axis.texts]
    assert f"{models[0].values[:, 0].mean():.3f}"[1:] in texts


def test_undefined_values_are_left_out_and_counted():
    values = np.array([[0.2], [np.nan], [0.4]])
    model = Scores("model", np.array([4]), values)
    figure = energy_distance.draw([model])
    (axis,) = figure.axes
    assert len(axis.collections[0].get_offsets()) == 2
    assert lines(axis, "mean")[0].get_ydata()[0] == pytest.approx(0.3)
    assert lines(axis, "floor") == []
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["model (1 of 3 undefined)"]


def test_a_column_without_any_value_stays_empty():
    model = Scores("model", np.array([1]), np.full((3, 1), np.nan))
    (axis,) = energy_distance.draw([model]).axes
    assert not axis.collections and not lines(axis, "mean")
