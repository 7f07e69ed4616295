"""Reads the numbers that a run has logged for TensorBoard."""

from __future__ import annotations

import pathlib

import tensorflow as tf

from tf_probunet import damage, files
from tf_probunet.training.run_dir import RunDir

Scalars = dict[str, dict[int, float]]  # By tag and step.


def read_scalars(run_dir: files.Path) -> Scalars:
    """Returns the scalars of a run. If a step was repeated, its later values count.

    Args:
        run_dir: the directory of the run.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: it is damaged.
    """
    directory = RunDir(pathlib.Path(run_dir)).tensorboard
    paths = sorted(directory.glob("*tfevents*"))
    if not paths:
        raise FileNotFoundError(
            f"{directory}: no TensorBoard log, expected the log of a run"
        )
    found: Scalars = {}
    for path in paths:
        try:
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    _add(found, event.step, value)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            reason = damage.reason(error)
            raise ValueError(f"{path}: damaged TensorBoard log ({reason})") from error
    return found


def _add(found: Scalars, step: int, value: tf.compat.v1.Summary.Value) -> None:
    if not value.HasField("tensor") or value.tensor.string_val:
        return
    number = tf.make_ndarray(value.tensor)
    if number.ndim == 0:
        found.setdefault(value.tag, {})[step] = float(number)
