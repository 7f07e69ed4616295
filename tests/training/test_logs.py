"""Logs of runs: what was written is read, and drawn."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_probunet.figures import training_curves
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


def test_each_panel_shows_its_numbers():
    figure = training_curves.draw({"a": SCALARS, "b": SCALARS}, floor=0.125)
    distance, entropy, divergence = figure.axes
    first, second, floor = distance.lines
    for axis, tag in zip(figure.axes, ("ged", "cross_entropy", "kl")):
        expected = SCALARS[f"validation/{tag}"]
        assert list(axis.lines[1].get_xdata()) == [10, 20]
        assert list(axis.lines[1].get_ydata()) == list(expected.values())
    assert set(floor.get_ydata()) == {0.125}
    assert len(entropy.lines) == len(divergence.lines) == 2
    assert [text.get_text() for text in distance.get_legend().get_texts()] == ["a", "b"]


def test_a_run_that_was_never_validated_is_named():
    with pytest.raises(ValueError, match="b: no validation/ged in its log"):
        training_curves.draw({"a": SCALARS, "b": {"training/loss": {1: 2.0}}})
