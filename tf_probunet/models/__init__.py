"""The models by name. TensorFlow is imported when one is built, not before."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

from tf_probunet.config import ModelConfig

if TYPE_CHECKING:
    from tf_probunet.models.base import SegmentationModel


@dataclasses.dataclass(frozen=True)
class _Entry:
    module: str
    class_name: str
    defaults: dict[str, Any]


# The defaults are the paper's for LIDC; flag files hold what differs for Cityscapes.
_MODELS = {
    "prob_unet": _Entry("prob_unet", "ProbUNet", {"latent_dim": 6, "beta": 1.0}),
    "unet": _Entry("unet", "UNet", {}),
    "dropout_unet": _Entry("dropout_unet", "DropoutUNet", {}),
    "m_heads": _Entry("m_heads", "MHeads", {}),
    "image2image_vae": _Entry(
        "image2image_vae", "Image2ImageVAE", {"latent_dim": 3, "beta": 10.0}
    ),
}


def names() -> list[str]:
    """Returns the names of all models that can be trained."""
    return list(_MODELS)


def with_defaults(config: ModelConfig) -> ModelConfig:
    """Fills in the model's own defaults where the configuration leaves them open."""
    defaults = _MODELS[config.name].defaults
    missing = {k: v for k, v in defaults.items() if getattr(config, k) is None}
    return dataclasses.replace(config, **missing)


def build(config: ModelConfig, seed: int = 0) -> SegmentationModel:
    """Builds a model with all its variables.

    Args:
        config: which model, and how large.
        seed: of the initial weights and of everything random in training.
    """
    entry = _MODELS[config.name]
    module = importlib.import_module(f"tf_probunet.models.{entry.module}")
    model = getattr(module, entry.class_name)(with_defaults(config), seed)
    model.initialize()
    return model
