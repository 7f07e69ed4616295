"""Learning rates over the course of a run."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet.config import TrainingConfig


def learning_rate(
    config: TrainingConfig,
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """Returns the schedule of a configuration."""
    if config.learning_rate_steps:
        return falling_in_steps(
            config.learning_rate,
            config.final_learning_rate,
            config.learning_rate_steps,
            config.steps,
        )
    share = config.final_learning_rate / max(config.learning_rate, 1e-12)
    return tf.keras.optimizers.schedules.CosineDecay(
        config.learning_rate, config.steps, alpha=share
    )


def falling_in_steps(
    initial: float, final: float, num_steps: int, total: int
) -> tf.keras.optimizers.schedules.PiecewiseConstantDecay:
    """Returns a rate that falls from `initial` to `final` by `num_steps` equal ratios.

    The run is cut into num_steps + 1 equal stretches. The rate in stretch k is
    initial (final / initial)^(k / num_steps). The paper says "lowered to 1e-6 in 5
    steps" and does not say where these steps are.

    Args:
        initial: the rate of the first stretch.
        final: the rate of the last stretch.
        num_steps: how often the rate falls.
        total: the number of steps of the run.
    """
    ratio = final / initial if initial else 1.0
    boundaries = [round(total * k / (num_steps + 1)) for k in range(1, num_steps + 1)]
    values = [initial * ratio ** (k / num_steps) for k in range(num_steps + 1)]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay(
        # Keras changes the value after a boundary. The first step of stretch k is
        # round(total k / (num_steps + 1)), counted from 0.
        [boundary - 1 for boundary in boundaries],
        values,
    )
