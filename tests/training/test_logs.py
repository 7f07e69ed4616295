"""Logs of runs: what was written is read."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_probunet.training import logs


def _write(run_dir, scalars):
    writer = tf.summary.create_file_writer(str(run_dir / "tensorboard"))
    with writer.as_default():
        for tag, by_step in scalars.items():
            for step, value in by_step.items():
                tf.summary.scalar(tag, value, step)
        tf.summary.text("config", "beta", 0)
        tf.summary.image("samples", tf.zeros([1, 2, 2, 3]), 3)
    writer.close()


SCALARS = {
    "validation/ged": {10: 0.5, 20: 0.25},
    "validation/kl": {10: 3.0, 20: 1.5},
    "validation/cross_entropy": {10: 90.0, 20: 80.0},
}


def test_scalars_are_read_by_tag_and_step(tmp_path):
    _write(tmp_path, SCALARS)
    assert logs.read_scalars(tmp_path) == SCALARS


def test_a_resumed_run_has_several_files(tmp_path):
    _write(tmp_path, {"validation/ged": {10: 0.5}})
    first = next((tmp_path / "tensorboard").iterdir())
    first.rename(first.with_name("events.out.tfevents.0"))
    _write(tmp_path, {"validation/ged": {20: 0.25}})
    assert logs.read_scalars(tmp_path) == {"validation/ged": {10: 0.5, 20: 0.25}}


def test_no_log_and_a_damaged_one_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="tensorboard: no TensorBoard log"):
        logs.read_scalars(tmp_path)
    _write(tmp_path, SCALARS)
    path = next((tmp_path / "tensorboard").iterdir())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=f"{path.name}: damaged TensorBoard log"):
        logs.read_scalars(tmp_path)
