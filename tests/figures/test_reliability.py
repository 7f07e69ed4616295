"""The curve of a case worked by hand."""

import numpy as np
import pytest

from tf_probunet.evaluation.metrics.calibration import Reliability
from tf_probunet.figures import reliability


def test_curve_and_bins():
    sums = Reliability(
        number=np.array([10, 0, 4]),
        predicted=np.array([1.0, 0.0, 3.6]),
        observed=np.array([2.0, 0.0, 3.0]),
    )
    curve, bars = reliability.draw({"model": sums}, "anything").axes
    assert bars.get_xlabel() == "share of samples that mark anything"
    diagonal, line = curve.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert line.get_xdata() == pytest.approx([0.1, 0.9])  # The empty bin is left out.
    assert line.get_ydata() == pytest.approx([0.2, 0.75])
    assert [bar.get_height() for bar in bars.patches] == [10, 0, 4]
    # (1.0 + 0.6) / 14
    assert curve.get_legend().get_texts()[0].get_text() == "model: ECE 0.1143"


def test_bars_of_two_models_stand_side_by_side():
    sums = Reliability(*np.ones((3, 2)))
    _, bars = reliability.draw({"a": sums, "b": sums}).axes
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars.patches)
    for (_, end), (start, _) in zip(edges, edges[1:]):
        assert start >= end - 1e-12
