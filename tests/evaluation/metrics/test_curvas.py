import math

import numpy as np
import pytest
from helpers.masks import EMPTY, draw, random_masks
from scipy import integrate, stats

from tf_probunet.evaluation.metrics import curvas

# All graders mark cells 0 and 1, and none 4 to 7; they disagree on 2 and 3.
GRADERS = np.stack([draw(0, 1), draw(0, 1, 2), draw(0, 1, 2, 3)])


def test_consensus_dice_hand_worked():
    # Cells 2 and 3 do not count: {0, 1} against {1, 7} remains, 2 * 1 / (2 + 2).
    assert curvas.consensus_dice(draw(1, 2, 3, 7)[None], GRADERS) == 1 / 2
    # Half of the samples is not more than half: cell 7 is not predicted.
    samples = np.stack([draw(0, 1), draw(0, 1, 7)])
    assert curvas.consensus_dice(samples, GRADERS) == 1
    assert curvas.consensus_dice(EMPTY[None], GRADERS) == 0


def test_consensus_dice_needs_a_consensus():
    graders = np.stack([draw(0), draw(1)])
    assert math.isnan(curvas.consensus_dice(draw(0)[None], graders))
    assert math.isnan(curvas.consensus_dice(EMPTY[None], EMPTY[None]))


def test_ece_hand_worked():
    # Shares of foreground: cell 0 has 1, cell 1 has 3/4, the other six have 0.
    samples = np.stack([draw(0), draw(0, 1), draw(0, 1), draw(0, 1)])
    graders = np.stack([draw(0, 1), draw(0), EMPTY])
    # Confidences: seven cells 1, one cell 3/4. The first grader agrees with all of
    # them; the second not with cell 1; the third with neither cell 0 nor 1.
    expected = [1 / 4 / 8, 3 / 4 / 8, (3 / 4 + 1) / 8]
    np.testing.assert_allclose(curvas.multirater_ece(samples, graders), expected)


def test_ece_averages_within_bins():
    # Two cells of confidence 3/4, one right and one wrong: |3/4 - 1/2| for both.
    samples = np.stack([draw(0, 1), draw(0, 1), draw(0, 1), EMPTY])
    expected = [2 / 8 * (3 / 4 - 1 / 2)]
    np.testing.assert_allclose(
        curvas.multirater_ece(samples, draw(0)[None]), expected, atol=1e-12
    )
    # In one bin with the six sure and right cells: |(6 + 3/2) / 8 - 7 / 8|.
    wide = curvas.multirater_ece(samples, draw(0)[None], num_bins=1)
    np.testing.assert_allclose(wide, [7.5 / 8 - 7 / 8], atol=1e-12)


def test_ece_of_several_classes():
    samples = np.array([[[0, 1, 2, 2]], [[0, 1, 2, 1]], [[0, 1, 1, 0]]])
    graders = np.array([[[0, 1, 2, 0]], [[0, 2, 2, 1]]])
    # Confidences 1, 1, 2/3, 1/3 of the classes 0, 1, 2, 0 (the lowest of three).
    expected = [(1 / 3 + 2 / 3) / 4, (1 + 1 / 3 + 1 / 3) / 4]
    found = curvas.multirater_ece(samples, graders, num_classes=3)
    # The two sure pixels share a bin, in which one of two is right for the second.
    np.testing.assert_allclose(found, expected)


def test_two_classes_as_label_maps_are_the_same():
    samples, graders = random_masks(0, 5, 4, 4), random_masks(1, 3, 4, 4)
    np.testing.assert_allclose(
        curvas.multirater_ece(samples, graders),
        curvas.multirater_ece(samples, graders, num_classes=3),
    )


@pytest.mark.parametrize("deviations", [math.inf, curvas.CODE_DEVIATIONS])
@pytest.mark.parametrize("area", [0, 3, 4, 8])
def test_crps_is_the_integral(deviations, area):
    graders = np.stack([draw(0, 1), draw(0, 1, 2), draw(*range(7))])  # 2, 3 and 7
    volumes = stats.norm(4, np.std([2, 3, 7]))
    low, high = (4 + sign * min(deviations, 9) * volumes.std() for sign in (-1, 1))
    integral, _ = integrate.quad(
        lambda y: (volumes.cdf(y) - (y >= area)) ** 2, low, high, points=[area]
    )
    found = curvas.curvas_crps(draw(*range(area))[None], graders, deviations=deviations)
    assert found == pytest.approx(integral, rel=1e-6)


def test_crps_hand_worked():
    graders = np.stack([draw(0), draw(0, 1, 2)])  # 2 +- 1
    # At the mean the score is (sqrt(2) - 1) / sqrt(pi) deviations.
    best = (math.sqrt(2) - 1) / math.sqrt(math.pi)
    assert curvas.curvas_crps(draw(5, 6)[None], graders) == pytest.approx(best)
    # The volume is a sum of probabilities: two samples of 1 and 3 pixels.
    samples = np.stack([draw(7), draw(4, 5, 6)])
    assert curvas.curvas_crps(samples, graders) == pytest.approx(best)
    scaled = curvas.curvas_crps(samples, graders, pixel_size=0.5)
    assert scaled == pytest.approx(best / 2)
    # Far from the graders it grows with the distance, but not beyond the code's limit.
    far = np.ones((1, 10, 10))
    wide = np.zeros((2, 10, 10))
    wide[0, 0, :1] = wide[1, 0, :3] = 1
    assert curvas.curvas_crps(far, wide) == pytest.approx(98 - 1 / math.sqrt(math.pi))
    capped = curvas.curvas_crps(far, wide, deviations=curvas.CODE_DEVIATIONS)
    assert capped == pytest.approx(3 - 1 / math.sqrt(math.pi), abs=1e-3)


def test_crps_of_one_volume():
    graders = np.stack([draw(0, 1), draw(6, 7)])
    assert curvas.curvas_crps(draw(0)[None], graders) == 1
    assert curvas.curvas_crps(EMPTY[None], EMPTY[None]) == 0
    assert math.isnan(curvas.curvas_crps(draw(0)[None], graders, deviations=3))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="deviations is 0 and pixel_size 1.0; expect"):
        curvas.curvas_crps(GRADERS, GRADERS, deviations=0)
    with pytest.raises(ValueError, match="samples hold 3; expected labels 0 to 2"):
        curvas.multirater_ece(3 * GRADERS, GRADERS, num_classes=3)
    with pytest.raises(ValueError, match="expected one image's"):
        curvas.consensus_dice(GRADERS[None], GRADERS[None])
