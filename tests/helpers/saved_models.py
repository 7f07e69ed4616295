"""SavedModels of made-up models, laid out as `run/export.py` does."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.dataset import records

# (image [B, H, W, C], num_samples, seed [B]) -> labels [B, S, H, W] bool
Masks = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def save(
    path: pathlib.Path,
    masks: Masks,
    info: records.DatasetInfo,
    *,
    channels: int = 1,
    num_classes: int = 2,
    with_assets: bool = True,
    data: DataConfig | None = None,
    **metadata: Any,
) -> pathlib.Path:
    """Writes a model of binary masks that says it was trained on `info`."""
    module = tf.Module()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, None, channels], tf.float32),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec(None, tf.int32),
        ]
    )
    def sample(image, num_samples, seed):
        labels = tf.cast(masks(image, num_samples, tf.reshape(seed, [-1])), tf.int32)
        return {"labels": labels, "probabilities": tf.one_hot(labels, 2)}

    module.sample = sample
    if with_assets:
        model = ModelConfig(
            image_channels=channels, num_classes=num_classes, num_scales=3
        )
        assets = {
            "config": Config(
                model=model, data=data or DataConfig(eval_size=0)
            ).to_json(),
            "dataset": {
                "name": info.spec.name,
                "fingerprint": info.fingerprint,
                "intensity": info.spec.intensity,
                "class_names": list(info.spec.class_names),
                "preparation": {},
            },
            "metadata": {
                "model": "made_up",
                "max_samples": None,
                "is_stochastic": True,
                "size_divisor": 4,
                "parameters": 0,
                **metadata,
            },
        }
        module.assets = [
            tf.saved_model.Asset(_write_json(path, name, content))
            for name, content in assets.items()
        ]
    tf.saved_model.save(module, str(path))
    return path


def levels(image: tf.Tensor, num_samples: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Marks what is brighter than a level, drawn from the seed for each sample."""
    places = tf.range(num_samples)[None]
    draws = tf.cast((seed[:, None] % 1009 + 37 * places) % 101, tf.float32) / 101
    return image[:, None, :, :, 0] > draws[:, :, None, None]


def _write_json(path: pathlib.Path, name: str, content: dict[str, Any]) -> str:
    directory = path.with_name(f"{path.name}_assets")
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.json"
    file.write_text(json.dumps(content))
    return str(file)
