"""Trains small models and reads what a training run wrote."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from tf_probunet.training import train as training
from tf_probunet.training.strategy import mirrored


def train(config, data_dir, run_dir, devices=1, **kwargs) -> training.Outcome:
    """Trains on a number of replicas on the CPU."""
    return training.train(
        config, data_dir=data_dir, run_dir=run_dir, strategy=mirrored(devices), **kwargs
    )


def weights(run_dir, which="checkpoints") -> dict[str, np.ndarray]:
    """Returns all variables of the last checkpoint, or of the best, by name."""
    path = tf.train.latest_checkpoint(str(pathlib.Path(run_dir) / which))
    reader = tf.train.load_checkpoint(path)
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    return {n: reader.get_tensor(n) for n in names if "save_counter" not in n}


def assert_same_weights(first, second, which="checkpoints") -> None:
    """Checks that two runs ended with the very same variables."""
    mine, theirs = weights(first, which), weights(second, which)
    assert set(mine) == set(theirs)
    for name, value in mine.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def texts(run_dir, tag) -> dict[int, str]:
    """Returns {step: text} of a tag of the TensorBoard log."""
    return {
        step: tf.make_ndarray(value.tensor).ravel()[0].decode()
        for found, step, value in _values(run_dir)
        if found.split("/text_summary")[0] == tag
    }


def _values(run_dir):
    for path in sorted((pathlib.Path(run_dir) / "tensorboard").iterdir()):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                yield value.tag, event.step, value
