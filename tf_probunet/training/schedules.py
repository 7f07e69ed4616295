"""Learning rates over the course of a run."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_probunet.config import TrainingConfig


def learning_rate(
    config: TrainingConfig, prior_steps: int = 0
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """Returns the schedule that the configuration asks for.

    Args:
        config: of the run.
        prior_steps: of its steps, how many at the end are the prior's. The rate falls
            once before them, and once again in them.
    """
    first = config.steps - prior_steps
    if not prior_steps:
        return _falling(config, first)
    return OneAfterTheOther(
        _falling(config, first), _falling(config, prior_steps), first
    )


class OneAfterTheOther(tf.keras.optimizers.schedules.LearningRateSchedule):
    """A schedule for the first steps, and another, from its start on, for the rest."""

    def __init__(
        self,
        first: tf.keras.optimizers.schedules.LearningRateSchedule,
        second: tf.keras.optimizers.schedules.LearningRateSchedule,
        boundary: int,
    ) -> None:
        super().__init__()
        self._first, self._second, self._boundary = first, second, boundary

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate of a step, from 0 on."""
        # Keras' schedules compute with floats, which hold steps up to 2^24.
        later = tf.maximum(step - tf.cast(self._boundary, step.dtype), 0)
        return tf.where(
            step < tf.cast(self._boundary, step.dtype),
            self._first(step),
            self._second(later),
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "first": self._first,
            "second": self._second,
            "boundary": self._boundary,
        }


def _falling(
    config: TrainingConfig, steps: int
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    if config.learning_rate_steps:
        return falling_in_steps(
            config.learning_rate,
            config.final_learning_rate,
            config.learning_rate_steps,
            steps,
        )
    share = config.final_learning_rate / max(config.learning_rate, 1e-12)
    return tf.keras.optimizers.schedules.CosineDecay(
        config.learning_rate, steps, alpha=share
    )


def falling_in_steps(
    initial: float, final: float, num_steps: int, total: int
) -> tf.keras.optimizers.schedules.PiecewiseConstantDecay:
    """Returns a rate that falls from `initial` to `final` by `num_steps` equal ratios.

    The run is cut into num_steps + 1 equal stretches; in stretch k the rate is
    initial (final / initial)^(k / num_steps). The paper says "lowered to 1e-6 in 5
    steps" and leaves open where they are.

    Args:
        initial: the rate of the first stretch.
        final: that of the last.
        num_steps: how often it falls.
        total: steps of the whole run.
    """
    ratio = final / initial if initial else 1.0
    boundaries = [round(total * k / (num_steps + 1)) for k in range(1, num_steps + 1)]
    values = [initial * ratio ** (k / num_steps) for k in range(num_steps + 1)]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay(
        # Keras changes the value behind a boundary: the first step of stretch k is
        # round(total k / (num_steps + 1)), counted from 0.
        [boundary - 1 for boundary in boundaries],
        values,
    )
