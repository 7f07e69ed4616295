"""Runs that last: one trace, a log that stays small, and stops at any moment."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import tensorflow as tf
from helpers import runs, tiny

from tf_probunet.config import AugmentationConfig
from tf_probunet.dataset import records
from tf_probunet.training import callbacks, train
from tf_probunet.training.run_dir import CheckpointStore, RunDir
from tf_probunet.training.strategy import mirrored

CONFIG = dataclasses.replace(
    tiny.run(name="unet", steps=8, validation_samples=1, checkpoint_every=2),
    augmentation=AugmentationConfig.off(),
)


class _Killed(BaseException):
    """What ends a run without a chance to save."""


@dataclasses.dataclass
class Finished:
    """Two runs of the same configuration, and the models that were trained for them."""

    undisturbed: pathlib.Path
    killed: pathlib.Path
    models: list[tf.keras.Model]


@pytest.fixture(scope="module")
def finished(phantom_dir, tmp_path_factory):
    """A run, and one that was killed between a validation and its checkpoint."""
    base = tmp_path_factory.mktemp("runs")
    result = Finished(base / "undisturbed", base / "killed", [])
    build, save = train.build, callbacks.Checkpoints.save

    def build_and_keep(config):
        model, checkpoint = build(config)
        result.models.append(model)
        return model, checkpoint

    def die_at_four(self):
        if self.step == 4:
            raise _Killed
        save(self)

    def run(path):
        train.train(CONFIG, data_dir=phantom_dir, run_dir=path, strategy=mirrored())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "build", build_and_keep)
        run(result.undisturbed)
        with pytest.MonkeyPatch.context() as inner, pytest.raises(_Killed):
            inner.setattr(callbacks.Checkpoints, "save", die_at_four)
            run(result.killed)
        assert tf.train.latest_checkpoint(f"{result.killed}/checkpoints")[-2:] == "-2"
        run(result.killed)
    return result


def test_the_step_is_traced_once(finished):
    counts = [
        m.train_function.experimental_get_tracing_count() for m in finished.models
    ]
    assert counts == [1, 1, 1]


def test_a_step_that_was_validated_but_not_saved_is_made_again(finished):
    for which in ("checkpoints", "best"):
        runs.assert_same_weights(finished.killed, finished.undisturbed, which)
    best = [RunDir(p).best_score() for p in (finished.killed, finished.undisturbed)]
    assert best[0] == best[1]


def test_no_checkpoint_is_written_twice(finished):
    # Four checkpoints, of the steps 2, 4, 6 and 8, and one or two best ones.
    reader = tf.train.load_checkpoint(f"{finished.undisturbed}/checkpoints")
    counter = reader.get_tensor("save_counter/.ATTRIBUTES/VARIABLE_VALUE")
    assert counter in (5, 6)


def test_the_log_grows_by_a_bounded_amount(finished):
    sizes: dict[str, dict[int, list[int]]] = {}
    (path,) = (finished.undisturbed / "tensorboard").iterdir()
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            by_step = sizes.setdefault(value.tag, {})
            by_step.setdefault(event.step, []).append(event.ByteSize())
    points = {tag: s for tag, s in sizes.items() if tag.startswith("training/")}
    assert {"training/loss", "training/gradient_norm"} <= set(points)
    for by_step in points.values():
        assert sorted(by_step) == [2, 4, 6, 8]
        # The first entry of a tag carries its description.
        assert all(len(found) == 1 and found[0] < 150 for found in by_step.values())
    pictures = sizes["validation/samples"]
    assert sorted(pictures) == [4, 8]
    assert all(len(found) == 1 and found[0] < 300_000 for found in pictures.values())


@pytest.fixture
def restored(finished, phantom_dir, tmp_path):
    """A function that loads the last checkpoint of a copy of the run."""
    import shutil

    shutil.copytree(finished.undisturbed, tmp_path / "run")
    config = train.fit_to_data(CONFIG, records.read_info(phantom_dir))

    def restore():
        model, checkpoint = train.build(config)
        del model
        store = CheckpointStore(checkpoint, tmp_path / "run" / "checkpoints", keep=3)
        return train.restore(checkpoint, store)

    return tmp_path / "run" / "checkpoints", restore


@pytest.mark.parametrize("damage", ["missing", "empty index", "half of the data"])
def test_an_unreadable_checkpoint_is_passed_over(restored, damage, capsys):
    directory, restore = restored
    data = directory / "ckpt-8.data-00000-of-00001"
    if damage == "missing":
        data.unlink()
        (directory / "ckpt-8.index").unlink()
    elif damage == "empty index":
        (directory / "ckpt-8.index").write_bytes(b"")
    else:
        data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    assert restore() == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {directory / 'ckpt-8'}: unreadable checkpoint (")
    assert line.endswith(f"; continuing from {directory / 'ckpt-6'}")


def test_no_readable_checkpoint_is_an_error(restored):
    directory, restore = restored
    for path in directory.glob("*.index"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="ckpt-8: unreadable checkpoint"):
        restore()


def test_what_a_killed_run_was_writing_is_removed(finished, phantom_dir):
    run_dir = RunDir(finished.killed)
    before = sorted(finished.killed.rglob("*"))
    (run_dir.checkpoints / "ckpt-7_temp").mkdir()
    (run_dir.checkpoints / "ckpt-7_temp" / "part-00000-of-00001.index").touch()
    (run_dir.best / "checkpoint.tmp0123456789abcdef").touch()
    (finished.killed / ".best.123.tmp.json").touch()
    info = records.read_info(phantom_dir)
    run_dir.claim(train.fit_to_data(CONFIG, info), info)
    assert sorted(finished.killed.rglob("*")) == before
