"""Weights averaged over the steps of a run, for validation and export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf


class WeightAverage(tf.Module):
    """An exponential moving average of variables.

    The decay grows with the step t, as min(decay, (1 + t) / (10 + t)), so the start of
    a run is soon forgotten.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float) -> None:
        super().__init__(name="weight_average")
        self._decay = decay
        self.averages = [
            tf.Variable(
                variable,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
            for variable in variables
        ]

    def update(self, variables: Sequence[tf.Variable], step: tf.Tensor) -> None:
        """Moves the averages towards the variables after a step, counted from 0."""
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self._decay, (1.0 + step) / (10.0 + step))
        for average, variable in zip(self.averages, variables):
            average.assign_sub((1.0 - decay) * (average - variable))

    def reset(self, variables: Sequence[tf.Variable]) -> None:
        """Sets the averages to the current values of the variables."""
        for average, variable in zip(self.averages, variables):
            average.assign(variable)

    @contextlib.contextmanager
    def applied(self, variables: Sequence[tf.Variable]) -> Iterator[None]:
        """Assigns the averages to the variables while the context is open."""
        own = [tf.identity(variable) for variable in variables]
        self.apply(variables)
        try:
            yield
        finally:
            for variable, value in zip(variables, own):
                variable.assign(value)

    def apply(self, variables: Sequence[tf.Variable]) -> None:
        """Assigns the averages to the variables."""
        for variable, average in zip(variables, self.averages):
            variable.assign(average)
