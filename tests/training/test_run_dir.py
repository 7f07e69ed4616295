"""The checkpoints of a run: its own, whatever its directory is called."""

from __future__ import annotations

import pytest
import tensorflow as tf
from helpers import run_dirs

from tf_probunet.training.run_dir import CheckpointStore, RunDir, latest_checkpoint

_ALL_PATTERNS = "s[1] * ?\\"


def _saved(directory, steps, keep=2):
    """Writes checkpoints, each of which holds its step."""
    variable = tf.Variable(0)
    store = CheckpointStore(tf.train.Checkpoint(step=variable), directory, keep)
    for step in steps:
        variable.assign(step)
        store.save(step)
    return store, variable


def _names(directory):
    return sorted(path.name for path in directory.iterdir())


def _files(*steps):
    kinds = ("data-00000-of-00001", "index")
    return ["checkpoint", *(f"ckpt-{s}.{kind}" for s in steps for kind in kinds)]


@pytest.mark.parametrize("name", ["seed[1]", "seed*", "seed?", "se?d[!x]", "\\seed1"])
def test_a_run_with_a_pattern_for_a_name_deletes_its_own_checkpoints(name, tmp_path):
    """TensorFlow would delete those of `seed1`, and find none in `seed[1]`."""
    _saved(tmp_path / "seed1", [1, 2])
    store, variable = _saved(tmp_path / name, [1, 2, 3])
    assert _names(tmp_path / "seed1") == _files(1, 2)
    assert _names(tmp_path / name) == _files(2, 3)
    assert store.names == ["ckpt-2", "ckpt-3"]
    assert latest_checkpoint(tmp_path / name) == "ckpt-3"
    for step in (2, 3):
        store.restore(f"ckpt-{step}")
        assert variable.numpy() == step


def test_the_list_is_the_one_that_tensorflow_reads_and_writes(tmp_path):
    _, variable = _saved(tmp_path, [4, 6, 10], keep=2)
    checkpoint = tf.train.Checkpoint(step=variable)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert manager.checkpoints == [f"{tmp_path}/ckpt-6", f"{tmp_path}/ckpt-10"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/ckpt-10"
    manager.save(checkpoint_number=100)
    store, _ = _saved(tmp_path, [101])
    assert store.names == ["ckpt-100", "ckpt-101"]
    assert _names(tmp_path) == _files(100, 101)


def test_a_model_is_loaded_from_a_directory_with_a_pattern_for_a_name(
    phantom_dir, tmp_path
):
    model = run_dirs.make_run(tmp_path / _ALL_PATTERNS, phantom_dir)
    loaded = RunDir(tmp_path / _ALL_PATTERNS).load_model("best")
    for found, expected in zip(loaded.trainable_variables, model.trainable_variables):
        assert (found.numpy() == expected.numpy()).all()
