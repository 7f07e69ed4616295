"""Exports TensorFlow Lite files that sample segmentations on small devices."""

from __future__ import annotations

import pathlib

import tensorflow as tf

from tf_probunet import files, locks
from tf_probunet.export.signatures import segmentations
from tf_probunet.models.prob_unet import ProbUNet
from tf_probunet.training.run_dir import RunDir


@locks.holding("out_file", locks.beside)
def export_tflite(
    run_dir: files.Path,
    out_file: files.Path,
    *,
    image_size: int | None = None,
    checkpoint: str = "best",
    float16: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the sampling path of a run's model, and a JSON file that describes it.

    Args:
        run_dir: the training run.
        out_file: where to write. The description is written next to it, as `.json`.
        image_size: height and width of the images; None for those of the evaluation.
        checkpoint: "best" by validation, or "last".
        float16: store the weights in 16 bits, at half the size.
        overwrite: replace the files if they exist.

    Returns:
        The file's path.

    Raises:
        FileNotFoundError: there is no run, or no checkpoint in it.
        ValueError: `out_file` exists already or is not a `.tflite`, the model has no
            latents, the down-samplings do not allow the size, or another command is
            writing the file.
    """
    out_file = pathlib.Path(out_file)
    if out_file.suffix != ".tflite":
        raise ValueError(f"{out_file}: expected a name that ends in .tflite")
    description_file = out_file.with_suffix(".json")
    for path in (out_file, description_file):
        if path.exists() and not overwrite:
            raise ValueError(f"{path}: exists already; --overwrite replaces it")
    directory = RunDir(pathlib.Path(run_dir))
    config, dataset = directory.config(), directory.dataset()
    size = image_size or config.data.eval_size or dataset["image_shape"][0]
    model = directory.load_model(checkpoint)
    content = convert(model, size, float16=float16)
    description = {
        "model": model.name,
        "inputs": {
            "image": [1, size, size, model.config.image_channels],
            "noise": [1, None, model.config.latent_dim],
        },
        "weights": "float16" if float16 else "float32",
        "config": config.to_json(),
        "dataset": dataset,
    }
    files.write_json(description_file, description)
    files.write_bytes(out_file, content)
    return out_file


def convert(model: tf.keras.Model, image_size: int, *, float16: bool = False) -> bytes:
    """Converts the sampling path, with TensorFlow Lite's own operations only.

    The result maps `image` [1, H, W, C] and `noise` [1, S, L], standard normal numbers
    that the caller draws, to `labels` [1, S, H, W], `probabilities` [1, S, H, W, K] and
    the latents `z` [1, S, L]. S may change from call to call.

    Args:
        model: with its weights.
        image_size: H and W.
        float16: store the weights in 16 bits.

    Returns:
        The content of a `.tflite` file.

    Raises:
        ValueError: the model has no latents, or the down-samplings do not allow the
            size.
    """
    if not isinstance(model, ProbUNet):
        raise ValueError(
            f"the model is {model.name!r}, expected one with latents: prob_unet or "
            "image2image_vae"
        )
    config = model.config
    if image_size < 1 or image_size % config.size_divisor:
        raise ValueError(
            f"image_size is {image_size}, expected a multiple of {config.size_divisor}"
        )
    image_shape = [1, image_size, image_size, config.image_channels]

    @tf.function(
        input_signature=[
            tf.TensorSpec(image_shape, tf.float32, "image"),
            tf.TensorSpec([1, None, config.latent_dim], tf.float32, "noise"),
        ]
    )
    def sample(image, noise):
        prior = model.prior(image)
        z = prior.mean()[:, None] + prior.stddev()[:, None] * noise
        outputs = segmentations(model.decode(model.features(image), z))
        return {**outputs, "z": z}

    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [sample.get_concrete_function()], model
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if float16:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()
