"""Tiny configurations, for tests that build networks or train for a few steps."""

from __future__ import annotations

import dataclasses
from typing import Any

from tf_probunet.config import (
    AugmentationConfig,
    Config,
    DataConfig,
    ModelConfig,
    TrainingConfig,
)


def network(**changes: Any) -> ModelConfig:
    """Returns a network of two scales whose images have even sides."""
    settings = {"base_channels": 4, "num_scales": 2, "convs_per_block": 1}
    return ModelConfig(**{**settings, "latent_dim": 2, **changes})


def run(**changes: Any) -> Config:
    """Returns a run of six steps on crops of 16x16, with settings of any section."""
    config = Config(
        model=network(),
        data=DataConfig(crop_size=16, eval_size=16),
        augmentation=AugmentationConfig(elastic_std_px=0.5),
        training=TrainingConfig(
            steps=6,
            batch_size=4,
            learning_rate=1e-3,
            validate_every=4,
            validation_images=4,
            validation_samples=2,
            log_every=2,
            checkpoint_every=3,
        ),
    )
    return changed(config, **changes)


def changed(config: Config, **changes: Any) -> Config:
    """Returns a configuration with settings of any section changed."""
    sections = {}
    for part in dataclasses.fields(config):
        section = getattr(config, part.name)
        names = {setting.name for setting in dataclasses.fields(section)} & set(changes)
        own = {name: changes.pop(name) for name in names}
        sections[part.name] = dataclasses.replace(section, **own)
    assert not changes, f"no section has the settings {sorted(changes)}"
    return Config(**sections)
