"""Averaged weights: the recursion by hand, and putting them in and out."""

import numpy as np
import pytest
import tensorflow as tf

from tf_probunet.models.weight_average import WeightAverage


def test_average_follows_the_recursion():
    variable = tf.Variable([0.0, 10.0])
    average = WeightAverage([variable], decay=0.5)
    expected = variable.numpy()
    for step in range(30):
        variable.assign([step + 1.0, 0.0])
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * variable.numpy()
        average.update([variable], tf.constant(step, tf.int64))
    np.testing.assert_allclose(average.averages[0], expected, rtol=1e-6)


def test_averages_are_put_in_and_out_again_even_after_an_error():
    variable = tf.Variable(1.0)
    average = WeightAverage([variable], decay=0.9)
    variable.assign(5.0)
    with average.applied([variable]):
        assert float(variable) == 1.0
    assert float(variable) == 5.0
    with pytest.raises(RuntimeError), average.applied([variable]):
        raise RuntimeError
    assert float(variable) == 5.0
    average.apply([variable])
    assert float(variable) == 1.0


def test_averages_are_not_trained():
    average = WeightAverage([tf.Variable(1.0)], decay=0.9)
    assert not average.trainable_variables and len(average.variables) == 1
