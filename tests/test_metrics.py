"""The stable names of the metrics."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tf_probunet import metrics


def test_names_are_the_functions_that_the_evaluation_uses():
    masks = np.zeros((2, 1, 4), np.uint8)
    masks[0, 0, :2] = masks[1, 0, :1] = 1  # d = 1/2
    assert metrics.energy_distance(masks[:1], masks[1:]) == pytest.approx(1.0)
    assert metrics.hungarian_iou(masks[:1], masks[1:]) == pytest.approx(0.5)
    assert metrics.best_dice(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.dice_max(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.dice_match(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.threshold_dice(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.soft_dice(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.consensus_dice(masks[:1], masks[1:]) == pytest.approx(2 / 3)
    assert metrics.multirater_ece(masks[:1], masks[1:]) == pytest.approx(1 / 4)
    assert metrics.curvas_crps(masks[:1], masks[1:]) == pytest.approx(1)
    assert metrics.staple(masks[[0, 0]]).probability[0, 0] == pytest.approx(1)
    found = metrics.representatives(masks, 2)
    np.testing.assert_allclose(found.weights, [0.5, 0.5])
    road = np.zeros((4, 4), np.uint8)  # Class 0, which switch 4 turns into class 23.
    counts = metrics.switched_mode_counts(road[None], road)
    assert counts.shape == (32,) and counts.sum() == pytest.approx(1)
    assert counts[16:].sum() == 0
    assert metrics.switched_energy_distance(road[None], road) >= 0


def test_importing_them_does_not_import_tensorflow():
    code = "import sys, tf_probunet.metrics; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
