"""Histograms of presences against counts by hand."""

import numpy as np
import pytest

from tf_probunet.evaluation.metrics.ambiguity import Rule
from tf_probunet.figures import ambiguity

COUNTS = np.array([0, 1, 1, 3, 4, 4, 4])
AMBIGUOUS = np.array([0, 1, 1, 1, 0, 0, 1], bool)


def bars(axis, label):
    (found,) = [c for c in axis.containers if c.get_label() == label]
    return [bar.get_height() for bar in found]


def test_bars_threshold_and_accuracy():
    model = ambiguity.Presences("m", COUNTS, AMBIGUOUS, 4, Rule(4, "below"))
    (axis,) = ambiguity.draw([model]).axes
    assert bars(axis, "ambiguous") == [0, 2, 0, 1, 1]
    assert bars(axis, "unambiguous") == [1, 0, 0, 0, 2]
    assert axis.lines[0].get_xdata() == [3.5, 3.5]
    arrow = axis.texts[0]
    assert arrow.xy[0] < arrow.xyann[0] == 3.5
    # Below 4: 0, 1, 1, 3 are called ambiguous; wrong are the first and the last.
    assert "accuracy 0.714 (always “ambiguous”: 0.571)" in axis.get_title()
    assert "chosen" not in axis.get_title()


def test_arrow_points_the_other_way_for_the_other_direction():
    model = ambiguity.Presences("m", COUNTS, AMBIGUOUS, 4, Rule(1, "from"))
    (axis,) = ambiguity.draw([model]).axes
    assert axis.texts[0].xy[0] > axis.texts[0].xyann[0] == 0.5


def test_without_a_rule_the_best_for_these_images_is_drawn_and_said():
    models = [ambiguity.Presences(n, COUNTS, AMBIGUOUS, 4) for n in ("a", "b", "c")]
    axes = ambiguity.draw(models).axes
    assert len(axes) == 3
    for axis in axes:
        assert "threshold chosen on these images" in axis.get_title()
        assert axis.lines[0].get_xdata() == [3.5, 3.5]


def test_counts_out_of_range_are_refused():
    model = ambiguity.Presences("m", COUNTS, AMBIGUOUS, 3)
    with pytest.raises(ValueError, match="expected integers from 0 to 3"):
        ambiguity.draw([model])
