"""Exports TensorFlow Lite files that sample segmentations on small devices."""

from __future__ import annotations

import pathlib

import tensorflow as tf

from tf_probunet import files, locks
from tf_probunet.export import convertible
from tf_probunet.export.signatures import segmentations


@locks.holding("out_file", locks.beside)
def export_tflite(
    run_dir: files.Path | None,
    out_file: files.Path,
    *,
    saved_model: files.Path | None = None,
    image_size: int | None = None,
    checkpoint: str = "best",
    float16: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the sampling path of a model, and a JSON file that describes it.

    Args:
        run_dir: the training run; None with `saved_model`.
        out_file: where to write. The description is written next to it, as `.json`.
        saved_model: a SavedModel of `run/export.py`, instead of a run.
        image_size: height and width of the images; None for those of the evaluation.
        checkpoint: which checkpoint of the run: "best" by validation, or "last".
        float16: store the weights in 16 bits, at half the size.
        overwrite: replace the files if they exist.

    Returns:
        The file's path.

    Raises:
        FileNotFoundError: there is no run, no checkpoint in it, or no SavedModel.
        ValueError: `out_file` exists already or does not end in `.tflite`, the model
            has no latents, the down-samplings do not allow the size, or another
            command is writing the file.
    """
    out_file = convertible.check_target(out_file, ".tflite", overwrite)
    source = convertible.load(run_dir, saved_model, checkpoint=checkpoint)
    size = source.size(image_size)
    content = convert(source.model, size, float16=float16)
    description = source.describe(size, weights="float16" if float16 else "float32")
    convertible.write(out_file, content, description)
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
    convertible.check_latents(model)
    convertible.check_size(model, image_size)
    config = model.config
    image_shape = [1, image_size, image_size, config.image_channels]

    @tf.function(
        input_signature=[
            tf.TensorSpec(image_shape, tf.float32, "image"),
            tf.TensorSpec([1, None, model.num_latents], tf.float32, "noise"),
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
