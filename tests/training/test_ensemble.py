"""Ensembles: members trained in turn, found again, checked and put together."""

import dataclasses
import signal

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import files
from tf_probunet.config import AugmentationConfig
from tf_probunet.export import export
from tf_probunet.training import callbacks, ensemble, train
from tf_probunet.training.run_dir import RunDir
from tf_probunet.training.strategy import mirrored

CONFIG = dataclasses.replace(
    tiny.run(
        **{"name": "unet", "base_channels": 2, "crop_size": 8, "eval_size": 8},
        **{"steps": 3, "batch_size": 2, "seed": 5, "log_every": 3},
        **{"validate_every": 3, "validation_images": 2, "validation_samples": 1},
    ),
    augmentation=AugmentationConfig.off(),
)
DATASET = {
    "name": "made up",
    "fingerprint": "f0",
    "class_names": ["background", "lesion"],
    "intensity": "uint8",
    "num_graders": 1,
    "counts": {"train": 2},
}


def _write_run(path, config, *, step=3, checkpoint=True, **described):
    """Writes a run directory with untrained weights."""
    files.write_json(path / "config.json", config.to_json())
    dataset = {**DATASET, **described}
    files.write_json(path / "dataset.json", dataset)
    files.write_json(path / "best.json", {"step": step, "ged": 0.5, "loss": 1.0})
    model, saved = train.build(config)
    for name in ("checkpoints", "best") if checkpoint else ():
        manager = tf.train.CheckpointManager(saved, str(path / name), max_to_keep=1)
        manager.save(checkpoint_number=step)
    return model


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Runs with the seeds 9 and 4, in that order of their names."""
    root = tmp_path_factory.mktemp("runs")
    built = {
        seed: _write_run(root / f"unet_{i}", tiny.changed(CONFIG, seed=seed))
        for i, seed in enumerate((9, 4))
    }
    return root, built


def test_members_count_the_seed_on_and_differ_in_nothing_else():
    assert str(ensemble.member_dir("runs/unet", 3)) == "runs/unet_03"
    prob_unet = tiny.changed(CONFIG, name="prob_unet")
    third = ensemble.member_config(prob_unet, 2)
    assert prob_unet.differences(third) == [
        "model.name: 'prob_unet' -> 'unet'",
        "training.seed: 5 -> 7",
    ]


def test_members_are_found_in_the_order_of_their_seeds(two_runs):
    root, _ = two_runs
    found = ensemble.find_members(str(root / "unet_[01]"))
    assert [member.path.name for member in found] == ["unet_1", "unet_0"]
    found = ensemble.find_members(str(root / "unet_[01]"), excluded=root / "unet_1")
    assert [member.path.name for member in found] == ["unet_0"]


def test_export_puts_the_members_into_one_saved_model(two_runs):
    root, built = two_runs
    # The name fits the pattern of the members: it is none of them.
    (root / "unet_all").mkdir()
    path = export.export_ensemble(
        str(root / "unet_*"), root / "unet_all", overwrite=True
    )
    metadata = files.read_json(path / "assets" / "metadata.json", "metadata")
    assert metadata["model"] == "unet_ensemble"
    assert metadata["max_samples"] == metadata["default_samples"] == 2
    assert [member["seed"] for member in metadata["members"]] == [4, 9]
    card = (path / "assets" / "README.md").read_text(encoding="utf-8")
    assert "2 members, trained alike with the seeds 4, 9" in card
    assert "0.5000 to 0.5000" in card
    image = tf.random.stateless_uniform([2, 8, 8, 1], [1, 1])
    loaded = tf.saved_model.load(str(path))
    probabilities = loaded.sample(image, 2, 0)["probabilities"].numpy()
    for s, seed in enumerate((4, 9)):
        expected = tf.nn.softmax(built[seed].logits(image)[:, 0])
        np.testing.assert_allclose(probabilities[:, s], expected, atol=1e-5)
    assert np.abs(probabilities[:, 0] - probabilities[:, 1]).max() > 1e-3
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 2.*2 members"):
        loaded.sample(image, 3, 0)


@pytest.mark.parametrize(
    "changes, settings, message",
    [
        ({"name": "m_heads"}, {}, "a run of the model 'm_heads', expected.*'unet'"),
        ({"steps": 9}, {}, r"another configuration.*training.steps: 3 -> 9"),
        ({"base_channels": 3}, {}, r"model.base_channels: 2 -> 3"),
        ({"seed": 4}, {}, r"has the seed 4, as .*unet_1 does"),
        ({}, {"fingerprint": "f1"}, r"fingerprint f1, but .*unet_0 on f0"),
        ({}, {"class_names": ["b", "a"]}, r"the classes \['b', 'a'\], but .*unet_0 on"),
        ({}, {"step": 2}, r"stopped at step 2, but .*unet_0 at step 3"),
        ({}, {"checkpoint": False}, r"checkpoints: no checkpoint; train first"),
    ],
)
def test_a_member_that_does_not_fit_is_named(
    two_runs, tmp_path, changes, settings, message
):
    root, _ = two_runs
    for name in ("unet_0", "unet_1"):
        (tmp_path / name).symlink_to(root / name)
    _write_run(
        tmp_path / "unet_2", tiny.changed(CONFIG, **{"seed": 1, **changes}), **settings
    )
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        ensemble.find_members(str(tmp_path / "unet_*"))
    assert str(caught.value).startswith(str(tmp_path / "unet_2"))
    assert "\n" not in str(caught.value)


def test_no_members_and_no_runs_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no_\*: no run directory matches"):
        ensemble.find_members(str(tmp_path / "no_*"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty/config.json"):
        ensemble.find_members(str(tmp_path / "e*"))


def test_training_stops_in_a_member_and_goes_on_there(
    phantom_dir, tmp_path, monkeypatch
):
    def train_all():
        return ensemble.train_members(
            CONFIG,
            data_dir=phantom_dir,
            run_dir=tmp_path / "unet",
            num_members=2,
            strategy=mirrored(1),
            report=lines.append,
        )

    def interrupting(line, logs):
        """Ctrl-C in the second step of the second member."""
        if len(lines) == 2 and line.step == 2:
            signal.raise_signal(signal.SIGINT)

    lines = []
    with monkeypatch.context() as patch:
        patch.setattr(callbacks.ProgressLine, "on_step", interrupting)
        first = train_all()
    assert [(o.step, o.signal) for o in first] == [(3, None), (2, signal.SIGINT)]
    assert lines == [
        f"member 1 of 2: {tmp_path / 'unet_00'}",
        f"member 2 of 2: {tmp_path / 'unet_01'}",
    ]
    kept = (tmp_path / "unet_00" / "checkpoints" / "checkpoint").stat().st_mtime_ns
    with pytest.raises(ValueError, match=r"unet_01: stopped at step 2"):
        ensemble.find_members(str(tmp_path / "unet_*"))
    again = train_all()
    assert [(o.step, o.signal) for o in again] == [(3, None), (3, None)]
    now = (tmp_path / "unet_00" / "checkpoints" / "checkpoint").stat().st_mtime_ns
    assert now == kept
    members = ensemble.find_members(str(tmp_path / "unet_*"))
    assert [RunDir.config(m).training.seed for m in members] == [5, 6]
