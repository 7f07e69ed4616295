"""SavedModels for serving: all that a model can do, with TensorFlow alone.

Beside the signatures a SavedModel carries `config.json`, `dataset.json` and a model
card in its assets, so that evaluation and prediction need nothing else.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import files, seeds
from tf_probunet.model_card import model_card
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.prob_unet import ProbUNet
from tf_probunet.training.run_dir import CONFIG_NAME, DATASET_NAME, RunDir

DEFAULT_SAMPLES = 16
METADATA_NAME = "metadata.json"
CARD_NAME = "README.md"

Signature = Callable[..., dict[str, tf.Tensor]]


def export_run(
    run_dir: files.Path,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the model of a run as a SavedModel.

    Args:
        run_dir: of the training.
        out_dir: where to write.
        checkpoint: "best" by validation, or "last".
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there is no run, or no checkpoint in it.
        ValueError: `out_dir` exists already.
    """
    directory = RunDir(pathlib.Path(run_dir))
    model = directory.load_model(checkpoint)
    best = directory.best_score() if checkpoint == "best" else None
    return save(model, directory, out_dir, validation=best, overwrite=overwrite)


def save(
    model: SegmentationModel,
    run_dir: RunDir,
    out_dir: files.Path,
    *,
    validation: dict[str, Any] | None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a model as a SavedModel, whole or not at all.

    Args:
        model: with its weights.
        run_dir: the run that `config.json` and `dataset.json` are taken from.
        out_dir: where to write.
        validation: the scores for the model card, if there are any.
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        ValueError: `out_dir` exists already.
    """
    out_dir = pathlib.Path(out_dir)
    if out_dir.exists() and not overwrite:
        raise ValueError(f"{out_dir}: exists already; --overwrite replaces it")
    module = tf.Module("tf_probunet")
    module.weights = list(model.trainable_variables)
    functions = Signatures(model).functions()
    for name, function in functions.items():
        setattr(module, name, function)  # For Python: loaded.sample(image)
    functions["serving_default"] = functions.pop("sample")
    metadata = {
        "model": model.config.name,
        "signatures": sorted(functions),
        "max_samples": model.max_samples,
        "is_stochastic": model.is_stochastic,
        "size_divisor": model.config.size_divisor,
        "parameters": int(sum(np.prod(v.shape) for v in model.trainable_variables)),
    }
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(
        tempfile.mkdtemp(prefix=f".{out_dir.name}.", dir=out_dir.parent)
    )
    try:
        assets = temporary / "write"
        files.write_json(assets / CONFIG_NAME, run_dir.config().to_json())
        files.write_json(assets / DATASET_NAME, run_dir.dataset())
        files.write_json(assets / METADATA_NAME, metadata)
        card = model_card(run_dir.config(), run_dir.dataset(), metadata, validation)
        files.write_text(assets / CARD_NAME, card)
        module.assets = [tf.saved_model.Asset(str(p)) for p in sorted(assets.iterdir())]
        saved = temporary / "saved_model"
        tf.saved_model.save(module, str(saved), signatures=functions)
        if out_dir.exists():
            shutil.rmtree(out_dir)
        os.replace(saved, out_dir)
    finally:
        shutil.rmtree(temporary)
    return out_dir


class Signatures:
    """What a model offers, as functions of plain tensors.

    `seed` is a whole number, or one for each image of the batch: then an image's
    samples do not depend on what else is in the batch.
    """

    def __init__(self, model: SegmentationModel) -> None:
        self.model = model

    def functions(self) -> dict[str, Any]:
        """Returns the functions by name; those that make no sense are left out."""
        config = self.model.config
        image = tf.TensorSpec(
            [None, None, None, config.image_channels], tf.float32, "image"
        )
        labels = tf.TensorSpec([None, None, None], tf.int32, "labels")
        count = tf.TensorSpec([], tf.int32, "num_samples")
        seed = tf.TensorSpec(None, tf.int32, "seed")
        # Defaults that are tensors make an input optional in the serving graph.
        number, zero = tf.constant(DEFAULT_SAMPLES), tf.constant(0)

        def sample(image, num_samples=number, seed=zero):
            return _outputs(self._logits(image, num_samples, seed))

        def mean(image, num_samples=number, seed=zero):
            return self._mean(image, num_samples, seed)

        def log_likelihood(image, labels, num_samples=number, seed=zero):
            return self._log_likelihood(image, labels, num_samples, seed)

        functions = {
            "sample": _function(sample, image, count, seed),
            "mean": _function(mean, image, count, seed),
        }
        if isinstance(self.model, ProbUNet):
            z = tf.TensorSpec([None, None, config.latent_dim], tf.float32, "z")
            functions.update(
                prior=_function(self._prior, image),
                posterior=_function(self._posterior, image, labels),
                decode=_function(self._decode, image, z),
                log_likelihood=_function(log_likelihood, image, labels, count, seed),
            )
        return functions

    def _mean(self, image, num_samples, seed):
        """Mean and entropy over samples; and the segmentation at the prior's mean."""
        probabilities = tf.nn.softmax(self._logits(image, num_samples, seed))
        mean = tf.reduce_mean(probabilities, axis=1)  # [B, H, W, K]
        outputs = {
            "mean": mean,
            "entropy": -tf.reduce_sum(tf.math.xlogy(mean, mean), axis=-1),
        }
        if isinstance(self.model, ProbUNet):
            z = self.model.prior(image).mean()[:, None]
            logits = self.model.decode(self.model.features(image), z)
            outputs["labels"] = tf.argmax(logits[:, 0], -1, tf.int32)
        else:
            outputs["labels"] = tf.argmax(mean, -1, tf.int32)
        return outputs

    def _prior(self, image):
        return _moments(self.model.prior(self._checked(image)))

    def _posterior(self, image, labels):
        image = self._checked(image)
        return _moments(self.model.posterior(image=image, labels=labels))

    def _decode(self, image, z):
        features = self.model.features(self._checked(image))
        return _outputs(self.model.decode_in_chunks(features, z))

    def _log_likelihood(self, image, labels, num_samples, seed):
        image = self._checked(image)
        nats = self.model.log_likelihood(
            image=image,
            labels=labels,
            num_samples=num_samples,
            seed=image_seeds(seed, tf.shape(image)[0]),
        )
        return {"log_likelihood": nats}

    def _logits(self, image, num_samples, seed):
        image = self._checked(image)
        check = tf.debugging.assert_positive(
            num_samples, message="num_samples must be at least 1"
        )
        with tf.control_dependencies([check]):
            per_image = image_seeds(seed, tf.shape(image)[0])
        return self.model.sample(image, num_samples, per_image)

    def _checked(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the image after checking its size and that its values are finite."""
        divisor = self.model.config.size_divisor
        size_check = tf.debugging.assert_equal(
            tf.shape(image)[1:3] % divisor,
            [0, 0],
            message=f"image height and width must be multiples of {divisor}",
        )
        value_check = tf.debugging.Assert(
            tf.reduce_all(tf.math.is_finite(image)),
            ["image has values that are not finite"],
        )
        with tf.control_dependencies([size_check, value_check]):
            return tf.identity(image)


def image_seeds(seed: tf.Tensor, batch_size: tf.Tensor) -> tf.Tensor:
    """Returns a seed int32[B, 2] for each image.

    Args:
        seed: one number for the batch (image b then gets its own by its place b), or
            [B] numbers, one for each image.
        batch_size: B.
    """
    given = tf.reshape(seed, [-1])
    shared = tf.equal(tf.size(given), 1)
    places = tf.where(shared, tf.range(batch_size), tf.zeros([batch_size], tf.int32))
    numbers = tf.broadcast_to(given, [batch_size])
    return tf.map_fn(
        lambda pair: seeds.fold_in(seeds.root(pair[0]), pair[1]),
        (numbers, places),
        fn_output_signature=tf.TensorSpec([2], tf.int32),
    )


def _function(function: Signature, *specs: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=specs)


def _outputs(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns labels [B, S, H, W] and probabilities [B, S, H, W, K] of logits."""
    return {
        "labels": tf.argmax(logits, -1, tf.int32),
        "probabilities": tf.nn.softmax(logits),
    }


def _moments(distribution: Any) -> dict[str, tf.Tensor]:
    return {"mean": distribution.mean(), "stddev": distribution.stddev()}
