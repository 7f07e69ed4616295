"""Training on a data set by a function."""

from __future__ import annotations

import json

import pytest

import tf_probunet as pu
from tf_probunet.config import Config

_SMALL = {
    "base_channels": 2,
    "num_scales": 2,
    "convs_per_block": 1,
    "latent_pooling": 1,
    "crop_size": 16,
    "eval_size": 16,
    "steps": 2,
    "batch_size": 4,
    "validation_images": 2,
    "validate_every": 2,
}


def test_a_run_is_trained_exported_and_used(phantom_dir, tmp_path):
    run = pu.train("phantom", data_dir=phantom_dir, run_dir=tmp_path / "run", **_SMALL)
    assert run.step == 2
    assert run.best["step"] == 2
    config = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))
    assert config["training"]["steps"] == 2
    assert config["model"]["beta"] == 100  # Of phantom.flags.
    model = run.export(tmp_path / "model")
    assert repr(model) == (
        "Predictor('prob_unet', classes: background, lesion, frames of 16x16)"
    )


def test_what_is_missing_or_unknown_is_named(phantom_dir, tmp_path):
    with pytest.raises(FileNotFoundError, match="lidcc: no such flag file.*lidc_cpu"):
        pu.train("lidcc")
    with pytest.raises(ValueError, match="Unknown command line flag 'stepps'"):
        pu.train("phantom", stepps=3)
    with pytest.raises(ValueError, match="data_dir is None, expected a directory"):
        pu.train(run_dir=tmp_path)
    with pytest.raises(ValueError, match="steps: settings change a flag file"):
        pu.train(Config(), data_dir=phantom_dir, run_dir=tmp_path, steps=3)
