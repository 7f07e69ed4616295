import numpy as np
import pytest
from helpers.masks import EMPTY, draw, stacks
from hypothesis import given

from tf_probunet.evaluation.metrics import mean_maps

# Means: cell 0 has 1, cell 1 has 2/3, cell 2 has 1/3.
GRADERS = np.stack([draw(0), draw(0, 1), draw(0, 1, 2)])


def test_qubiq_hand_worked():
    # The samples mark cells 0 and 1 always, so at every threshold. The graders mark
    # three cells up to 0.3 (Dice 4/5), two up to 0.6 (1), one up to 0.9 (2/3).
    samples = np.stack([draw(0, 1)] * 2)
    expected = (4 / 5 + 1 + 2 / 3) / 3
    assert mean_maps.threshold_dice(samples, GRADERS) == pytest.approx(expected)
    # D-Persona's five thresholds: 0.1 and 0.3, 0.5, 0.7 and 0.9.
    expected = (2 * 4 / 5 + 1 + 2 * 2 / 3) / 5
    value = mean_maps.threshold_dice(
        samples, GRADERS, thresholds=mean_maps.D_PERSONA_THRESHOLDS
    )
    assert value == pytest.approx(expected)


def test_a_share_equal_to_the_threshold_is_background():
    # 3 of 10 samples: 0.3 is a share that binary numbers get wrong.
    samples = np.stack([draw(0)] * 3 + [EMPTY] * 7)
    graders = np.stack([draw(0)])
    assert mean_maps.threshold_dice(samples, graders, thresholds=[0.2]) == 1
    assert mean_maps.threshold_dice(samples, graders, thresholds=[0.3]) == 0
    for tenths in range(1, 10):
        samples = np.stack([draw(0)] * tenths + [EMPTY] * (10 - tenths))
        cut = mean_maps.QUBIQ_THRESHOLDS[tenths - 1]
        assert mean_maps.threshold_dice(samples, graders, thresholds=[cut]) == 0


def test_empty_masks():
    nothing, lesion = EMPTY[None], draw(0, 1)[None]
    for score in (mean_maps.threshold_dice, mean_maps.soft_dice):
        assert score(nothing, nothing) == 1
        assert score(lesion, nothing) == score(nothing, lesion) == 0


def test_soft_dice_hand_worked():
    # p = (1/2, 1, 0), q = (1, 2/3, 1/3): pq sums to 7/6, squares to 5/4 + 14/9.
    samples = np.stack([draw(0, 1), draw(1)])
    expected = 2 * (7 / 6) / (5 / 4 + 14 / 9)
    assert mean_maps.soft_dice(samples, GRADERS) == pytest.approx(expected)
    assert mean_maps.soft_dice(GRADERS, GRADERS) == 1


def test_probabilities_stand_for_masks():
    soft = GRADERS.mean(axis=0, keepdims=True)
    assert mean_maps.threshold_dice(soft, GRADERS) == 1
    assert mean_maps.soft_dice(soft, GRADERS) == pytest.approx(1)


@given(stacks(), stacks())
def test_both_are_symmetric_and_bounded(first, second):
    for score in (mean_maps.threshold_dice, mean_maps.soft_dice):
        value = score(first, second)
        assert value == pytest.approx(score(second, first)) and 0 <= value <= 1 + 1e-12


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"thresholds are \[0.5, 1.0\]; expected"):
        mean_maps.threshold_dice(GRADERS, GRADERS, thresholds=[0.5, 1.0])
    with pytest.raises(ValueError, match=r"thresholds are \[\]"):
        mean_maps.threshold_dice(GRADERS, GRADERS, thresholds=[])
    with pytest.raises(ValueError, match="graders hold 2; expected only 0 and 1"):
        mean_maps.soft_dice(GRADERS, 2 * GRADERS)
    with pytest.raises(ValueError, match="expected one image's"):
        mean_maps.soft_dice(GRADERS[None], GRADERS[None])
