"""Frequencies of modes and pixels, as drawn."""

import numpy as np
import pytest
from helpers import results_writer

from tf_probunet.artifacts import results_dir
from tf_probunet.dataset.cityscapes_labels import MODE_PROBABILITIES, SWITCHES
from tf_probunet.figures import mode_calibration


def offsets(axis, label):
    (found,) = [c for c in axis.collections if c.get_label() == label]
    return np.asarray(found.get_offsets())


def test_a_calibrated_model_lies_on_the_bisector():
    (axis,) = mode_calibration.draw({"model": 8000 * MODE_PROBABILITIES}).axes
    points = offsets(axis, "modes")
    np.testing.assert_allclose(points[:, 0], MODE_PROBABILITIES)
    np.testing.assert_allclose(points[:, 1], MODE_PROBABILITIES)
    (line,) = axis.lines
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    assert axis.get_xscale() == axis.get_yscale() == "log"
    assert len(offsets(axis, "modes never sampled")) == 0
    assert "KL 0.000 nats" in axis.get_title()


def test_modes_never_sampled_stand_at_the_bottom():
    counts = np.zeros(32)
    counts[[0, 5]] = [30, 10]
    (axis,) = mode_calibration.draw({"model": counts}).axes
    assert offsets(axis, "modes")[:, 1] == pytest.approx([0.75, 0.25])
    never = offsets(axis, "modes never sampled")
    assert len(never) == 30
    low, _ = axis.get_ylim()
    assert (never[:, 1] > low).all() and (never[:, 1] < 1.5 * low).all()
    assert "30 modes never sampled" in axis.get_title()


def test_samples_that_fit_several_modes_are_mentioned(tmp_path):
    counts = {"a": 8000 * MODE_PROBABILITIES, "b": 8000 * MODE_PROBABILITIES}
    first, second = mode_calibration.draw(counts, {"a": 0.25, "b": 0.0}).axes
    assert first.get_title().endswith("\n25% of samples fit several modes")
    assert "fit" not in second.get_title()
    path = results_writer.write_street_results(tmp_path / "street")
    found = results_dir.read(path)
    assert mode_calibration.undecided_share(found) == 0
    stored = dict(np.load(path / "per_image.npz"))
    np.savez(path / "per_image.npz", **{**stored, "undecided": stored["undecided"] + 4})
    found = results_dir.read(path)
    assert mode_calibration.undecided_share(found) == pytest.approx(4 / 16)
    del stored["undecided"]  # As in results of earlier versions.
    np.savez(path / "per_image.npz", **stored)
    old = results_dir.read(path)
    assert np.isnan(mode_calibration.undecided_share(old))


def test_a_panel_per_model():
    counts = {name: 100 * MODE_PROBABILITIES for name in "abcd"}
    axes = mode_calibration.draw(counts).axes
    assert [axis.get_title()[0] for axis in axes] == list("abcd")


def test_histograms_show_the_frequencies():
    counts = np.arange(32.0)
    pixels = np.zeros((24, 19))
    for place, switch in enumerate(SWITCHES):
        pixels[switch.class_id, switch.class_id] = 70 - place
        pixels[switch.new_class_id, switch.class_id] = 20 + place
        pixels[2, switch.class_id] = 10
    bars, flips, shares = mode_calibration.draw_histograms("m", counts, pixels).axes
    order = np.argsort(-MODE_PROBABILITIES)
    heights = [bar.get_height() for bar in bars.patches]
    np.testing.assert_allclose(heights, counts[order] / counts.sum())
    ticks = bars.collections[0].get_segments()
    assert [t[0][1] for t in ticks] == pytest.approx(list(MODE_PROBABILITIES[order]))
    assert [int(t.get_text()) for t in flips.get_xticklabels()] == order.tolist()
    # A black square where bit i of the mode in this column is set.
    black = offsets_of_colour(flips, (0, 0, 0, 1))
    expected = {(x, i) for x, m in enumerate(order) for i in range(5) if m >> i & 1}
    assert {tuple(map(int, point)) for point in black} == expected
    widths = [bar.get_width() for bar in shares.patches]
    assert widths[:5] == pytest.approx([0.20, 0.21, 0.22, 0.23, 0.24])
    assert widths[5:] == pytest.approx([0.70, 0.69, 0.68, 0.67, 0.66])
    truth = [segment[0][0] for segment in shares.collections[0].get_segments()]
    assert truth == pytest.approx([8 / 17, 7 / 17, 6 / 17, 5 / 17, 4 / 17])


def offsets_of_colour(axis, colour):
    (found,) = [c for c in axis.collections if tuple(c.get_facecolor()[0]) == colour]
    return found.get_offsets()
