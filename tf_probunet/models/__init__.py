"""The models by name. TensorFlow is imported when one is built, not before."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING

from tf_probunet.models import registry

if TYPE_CHECKING:
    from tf_probunet.config import ModelConfig
    from tf_probunet.models.base import SegmentationModel


def model_class(name: str) -> type[SegmentationModel]:
    """Returns the class of a model, which imports TensorFlow.

    Raises:
        ValueError: there is no such model.
    """
    module = importlib.import_module(f"{__name__}.{name}")
    return getattr(module, registry.entry(name).class_name)


def with_defaults(config: ModelConfig) -> ModelConfig:
    """Fills in the settings that the model determines.

    These are its defaults for settings that are None, and the settings that define the
    model and can't be chosen.
    """
    entry = registry.entry(config.name)
    missing = {k: v for k, v in entry.defaults.items() if getattr(config, k) is None}
    return dataclasses.replace(config, **missing, **entry.fixed)


def build(config: ModelConfig, seed: int = 0) -> SegmentationModel:
    """Builds a model with all its variables.

    Args:
        config: the name and the size of the model.
        seed: the seed of the initial weights and of everything random in training.
    """
    model = model_class(config.name)(with_defaults(config), seed)
    model.initialize()
    return model
