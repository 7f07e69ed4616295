"""Learning rates, step by step."""

import numpy as np
import pytest

from tf_probunet.config import TrainingConfig
from tf_probunet.training import schedules


def _values(schedule, steps):
    return np.array([float(schedule(step)) for step in steps])


def test_lidc_rate_falls_from_1e4_to_1e6_in_five_equal_ratios():
    schedule = schedules.learning_rate(TrainingConfig())
    middles = [20_000 + 40_000 * k for k in range(6)]
    expected = 1e-4 * 10 ** (-0.4 * np.arange(6))
    np.testing.assert_allclose(_values(schedule, middles), expected, rtol=1e-5)


def test_cityscapes_rate_falls_in_three_ratios():
    schedule = schedules.falling_in_steps(1e-4, 1e-5, 3, 240_000)
    expected = [1e-4, 10 ** (-4 - 1 / 3), 10 ** (-4 - 2 / 3), 1e-5]
    values = _values(schedule, [0, 60_000, 120_000, 239_999])
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_stretches_are_equally_long():
    schedule = schedules.falling_in_steps(1.0, 0.25, 2, 9)
    expected = [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    np.testing.assert_allclose(_values(schedule, range(9)), expected, rtol=1e-6)


def test_no_steps_stand_for_a_cosine():
    config = TrainingConfig(
        learning_rate=1.0, final_learning_rate=0.2, learning_rate_steps=0, steps=100
    )
    schedule = schedules.learning_rate(config)
    values = _values(schedule, [0, 50, 100])
    np.testing.assert_allclose(values, [1.0, 0.6, 0.2], rtol=1e-5)


def test_a_rate_of_zero_stays_zero():
    config = TrainingConfig(learning_rate=0.0, final_learning_rate=0.0)
    assert float(schedules.learning_rate(config)(1)) == pytest.approx(0.0)
