"""Directories of runs that were never trained, with weights that anyone can compute."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
from helpers import tiny

from tf_probunet import files, models
from tf_probunet.config import AugmentationConfig, Config, DataConfig
from tf_probunet.dataset import records
from tf_probunet.models.base import SegmentationModel
from tf_probunet.training.run_dir import BEST_NAME, CheckpointStore, RunDir

BEST = {"step": 7, "loss": 12.5, "ged": 0.25}


def tiny_model(**changes: Any) -> SegmentationModel:
    """Builds a small model. Weight i of all is 0.7 sin(i^3)."""
    model = models.build(tiny.network(**changes))
    start = 0
    for variable in model.trainable_variables:
        numbers = np.arange(start, start + variable.shape.num_elements(), dtype=float)
        variable.assign(0.7 * np.sin(numbers**3).reshape(variable.shape))
        start += len(numbers)
    return model


def make_run(
    path: pathlib.Path,
    data_dir: pathlib.Path,
    data: DataConfig | None = None,
    augmentation: AugmentationConfig | None = None,
    **changes: Any,
) -> SegmentationModel:
    """Writes a run of `tiny_model` with its best checkpoint; there is no last one."""
    model = tiny_model(**changes)
    data = data or DataConfig(crop_size=16, eval_size=16)
    augmentation = augmentation or AugmentationConfig()
    config = Config(model=model.config, data=data, augmentation=augmentation)
    run_dir = RunDir(path)
    run_dir.claim(config, records.read_info(data_dir))
    checkpoint = tf.train.Checkpoint(model=model)
    store = CheckpointStore(checkpoint, run_dir.best, keep=1)
    store.save(BEST["step"])
    files.write_json(path / BEST_NAME, BEST)
    return model


def images(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns images of random values in 0..1, of the shape [B, H, W, C]."""
    return np.random.default_rng(seed).random(shape, np.float32)
