"""The scores of challenges: binary masks, and the mean over classes."""

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, random_masks

from tf_probunet.evaluation import challenges
from tf_probunet.evaluation.metrics import curvas, mean_maps
from tf_probunet.evaluation.metrics.distances import LabelSet

NAMES = tuple(challenges.SCORES)


def test_hand_worked_scores_of_binary_masks():
    # Means of the graders: cell 0 has 1, cell 1 has 1/2. All samples mark both.
    samples = np.stack([draw(0, 1)] * 2)
    graders = np.stack([draw(0), draw(0, 1)])
    expected = {
        "qubiq_dice": (4 * 1 + 5 * 2 / 3) / 9,  # At 0.5 the graders have one cell.
        "soft_dice": 2 * 1.5 / (2 + 1.25),
        "d_persona_dice_soft": (2 * 1 + 3 * 2 / 3) / 5,
        "dice_max": 1,
        "dice_match": (1 + 2 / 3) / 2,
        "consensus_dice": 1,  # Cell 1 is in doubt, and does not count.
        "multirater_ece": (1 / 8 + 0) / 2,
        # Volumes 1.5 +- 0.5, predicted 2: one deviation off.
        "curvas_crps": 0.5 * (0.6826895 + 2 * 0.2419707 - 0.5641896),
    }
    found = challenges.score(NAMES, samples, graders)
    assert set(found) == set(NAMES)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_staple_outvotes_a_grader_who_misses_everything():
    graders = np.stack([draw(0, 1), draw(0, 1), EMPTY])
    assert challenges.staple_dice(draw(0, 1)[None], graders) == 1
    assert challenges.staple_dice(draw(0)[None], graders) == pytest.approx(2 / 3)


def test_several_classes_are_averaged():
    samples = np.stack([draw(0, 1) + 2 * draw(2, 3)])
    graders = np.stack([draw(0, 1) + 2 * draw(3)])
    labels = LabelSet.of_foreground(4, None)
    found = challenges.score(NAMES, samples, graders, labels)
    # Class 1 is right, class 2 has Dice 2/3, class 3 is absent from both.
    assert found["qubiq_dice"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    # The absent class has no consensus, and is left out of the mean.
    assert found["consensus_dice"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["multirater_ece"] == pytest.approx(1 / 8)


def test_ignored_pixels_are_left_out():
    samples, graders = random_masks(0, 3, 2, 4), random_masks(1, 2, 2, 4, empty=0)
    labels = LabelSet.of_foreground(2, 255)
    full = challenges.score(NAMES, samples[..., :3], graders[..., :3], labels)
    graders[1, :, 3] = 255
    found = challenges.score(NAMES, samples, graders, labels)
    assert found == pytest.approx(full, nan_ok=True)
    nothing = challenges.score(NAMES, samples, np.full_like(graders, 255), labels)
    assert np.isnan([*nothing.values()]).all()


def test_one_class_is_the_binary_score():
    samples, graders = random_masks(2, 5, 4, 4), random_masks(3, 3, 4, 4)
    labels = LabelSet.of_foreground(2, None)
    assert challenges.score(NAMES, samples, graders, labels) == pytest.approx(
        challenges.score(NAMES, samples, graders), nan_ok=True
    )
    found = challenges.score(NAMES, samples, graders)
    assert found["qubiq_dice"] == mean_maps.threshold_dice(samples, graders)
    assert found["curvas_crps_code"] == curvas.curvas_crps(
        samples, graders, deviations=3
    )
