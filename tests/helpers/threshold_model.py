"""SavedModels whose samples have a closed form: a pixel is marked if it exceeds z."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.export.signatures import image_seeds

STEEPNESS = 40.0
STDDEV = 0.1


def save_threshold_model(
    path: pathlib.Path,
    *,
    intensity: str = "hu",
    spacing_mm: float | None = None,
    channels: int = 1,
    eval_size: int = 16,
    scored_size: int = 0,
    with_latents: bool = True,
    name: str = "made up",
    source_format: str | None = None,
    camera_frame: tuple[int, int] | None = None,
    offset: float = 0.0,
    **metadata: Any,
) -> pathlib.Path:
    """Writes a model with one latent z, and sizes in multiples of 8.

    The prior's mean is the mean of the image plus the offset, its standard deviation
    0.1. A pixel is marked with the probability sigmoid(40 (value - z)), so that a tile
    gives the same as the whole image if, and only if, z is the same. With a
    `camera_frame` it is one of whole street scenes of that height and width.
    """
    module = tf.Module()
    image = tf.TensorSpec([None, None, None, channels], tf.float32)
    number, seed = tf.TensorSpec([], tf.int32), tf.TensorSpec(None, tf.int32)
    z = tf.TensorSpec([None, None, 1], tf.float32)

    def prior(image):
        mean = tf.reduce_mean(image, axis=[1, 2, 3])[:, None] + offset
        return {"mean": mean, "stddev": STDDEV * tf.ones_like(mean)}

    def decode(image, z):
        logits = STEEPNESS * (image[:, None, :, :, 0] - z[:, :, :, None])
        probabilities = tf.stack([tf.sigmoid(-logits), tf.sigmoid(logits)], axis=-1)
        labels = tf.argmax(probabilities, -1, tf.int32)
        return {"labels": labels, "probabilities": probabilities}

    def sample(image, num_samples, seed):
        noise = tf.map_fn(
            lambda s: tf.random.stateless_normal([num_samples, 1], s),
            image_seeds(seed, tf.shape(image)[0]),
            fn_output_signature=tf.float32,
        )
        # Without latents the level is fixed: tiles can't know of each other.
        mean = prior(image)["mean"][:, None] if with_latents else 0.5
        return decode(image, mean + STDDEV * noise)

    module.sample = tf.function(sample, input_signature=[image, number, seed])
    if with_latents:
        module.prior = tf.function(prior, input_signature=[image])
        module.decode = tf.function(decode, input_signature=[image, z])
    config = Config(
        model=ModelConfig(num_scales=4, latent_dim=1, image_channels=channels),
        data=DataConfig(
            task="plain" if camera_frame is None else "switched",
            crop_size=eval_size,
            eval_size=eval_size,
            scored_size=scored_size,
        ),
    )
    preparation = {"spacing_mm": spacing_mm, "format": source_format}
    return save_with_assets(
        path,
        module,
        config,
        intensity=intensity,
        name=name,
        preparation={k: v for k, v in preparation.items() if v is not None},
        image_shape=None if camera_frame is None else [*camera_frame, channels],
        **metadata,
    )


def save_with_assets(
    path: pathlib.Path,
    module: tf.Module,
    config: Config,
    *,
    intensity: str = "hu",
    name: str = "made up",
    preparation: dict[str, Any] | None = None,
    image_shape: list[int] | None = None,
    **metadata: Any,
) -> pathlib.Path:
    """Writes a module as `run/export.py` lays it out."""
    contents = {
        "config": config.to_json(),
        "dataset": {
            "name": name,
            "fingerprint": "0123456789abcdef",
            "class_names": ["background", "lesion"],
            "intensity": intensity,
            "preparation": preparation or {},
            **({} if image_shape is None else {"image_shape": image_shape}),
        },
        "metadata": {
            "model": config.model.name,
            "max_samples": None,
            "parameters": 0,
            "is_stochastic": True,
            "size_divisor": config.model.size_divisor,
            **metadata,
        },
    }
    assets = path.with_name(f"{path.name}_assets")
    assets.mkdir(parents=True)
    for asset, content in contents.items():
        (assets / f"{asset}.json").write_text(json.dumps(content))
    module.assets = [tf.saved_model.Asset(str(p)) for p in sorted(assets.iterdir())]
    tf.saved_model.save(module, str(path))
    return path


def probability(values: np.ndarray, z: float) -> np.ndarray:
    """Returns the closed form of the lesion's probability at values in 0..1."""
    return 1 / (1 + np.exp(-STEEPNESS * (values - z)))
