"""Validation during training: loss, energy distance, and a picture of samples."""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import files, seeds
from tf_probunet.config import Config
from tf_probunet.dataset import input_pipeline, records, task
from tf_probunet.evaluation.metrics import ged, switched_modes
from tf_probunet.figures import sample_grid, style
from tf_probunet.models.base import Batch, SegmentationModel
from tf_probunet.training import collapse
from tf_probunet.training.callbacks import Logs, NonFiniteGuard, StepCallback
from tf_probunet.training.run_dir import BEST_NAME, CheckpointStore, RunDir

_PICTURE_IMAGES = 6
_PICTURE_SAMPLES = 8
_MAX_BATCH = 8  # Samples multiply the memory that a batch takes.
# What is tried as a shift of the foreground's logit: labels from a probability of 0.95
# on, down to labels from 0.05 on. Of equally good ones the first counts: the smallest.
SHIFTS = tuple(sorted(np.arange(-3.0, 3.25, 0.25).tolist(), key=abs))


class Validator:
    """Scores a model on the validation split, again and again."""

    def __init__(
        self, model: SegmentationModel, info: records.DatasetInfo, config: Config
    ) -> None:
        self._model, self._sample = model, sampler(model)
        available = info.count("val")
        self._num_images = min(
            config.training.validation_images or available, available
        )
        self._num_samples = config.training.validation_samples
        self._seed = seeds.root(config.training.seed)
        batch = math.gcd(_MAX_BATCH, config.training.batch_size)
        self._loss_batches = input_pipeline.validation_batches(
            info, config, self._num_images, batch
        ).cache()
        self._size = config.data.eval_size
        examples = input_pipeline.evaluation_examples(
            info, "val", config.data, size=config.data.frame_size
        )
        self._examples = examples.take(self._num_images).batch(batch).cache()
        self._score = _scorer(info, config)

    def loss(self) -> dict[str, float]:
        """Returns the mean of each term of the objective."""
        # Not by Keras' `evaluate`, which would have all workers of a cluster take part.
        sums: dict[str, float] = {}
        for batch in self._loss_batches:
            size = len(batch["image"])
            for name, value in self._terms(batch).items():
                sums[name] = sums.get(name, 0.0) + size * float(value)
        return {name: total / self._num_images for name, total in sums.items()}

    def energy_distance(self) -> dict[str, float]:
        """Scores samples of the validation images.

        Returns:
            `ged`, the mean squared energy distance, and `diversity`, the share of the
            images whose samples are not all the same.
        """
        scores, differ = [], []
        for samples, graders in self._scored(self._sample):
            scores.append(self._score(samples, graders))
            differ.append(bool((samples != samples[:1]).any()))
        return {"ged": float(np.mean(scores)), "diversity": float(np.mean(differ))}

    def best_foreground_shift(self) -> float:
        """Returns the shift of the foreground's logit with the least distance.

        Of several that are equally good, it is the one that changes least.
        """
        scores = [
            [self._score(margins > -shift, graders) for shift in SHIFTS]
            for margins, graders in self._scored(self._margins, outside=-np.inf)
        ]
        return SHIFTS[int(np.mean(scores, axis=0).argmin())]

    def _scored(
        self, draw: Callable[..., tf.Tensor], outside: float = 0
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields samples [S, H, W] and graders [G, H, W] of each image."""
        count = self._available(self._num_samples)
        for i, batch in enumerate(self._examples):
            seed = seeds.fold_in(self._seed, i)
            drawn = self._draw(batch["image"], count, seed, draw, outside)
            yield from zip(drawn, batch["labels"].numpy())

    def picture(self) -> bytes:
        """Returns a PNG of images, graders and samples."""
        batch = next(iter(self._examples.unbatch().batch(_PICTURE_IMAGES)))
        count = self._available(_PICTURE_SAMPLES)
        samples = self._draw(batch["image"], count, self._seed, self._sample)
        figure = sample_grid.draw(
            images=batch["image"].numpy(),
            graders=batch["labels"].numpy(),
            samples=samples,
        )
        return style.to_png(figure)

    @functools.cached_property
    def _terms(self) -> Callable[[Batch], dict[str, tf.Tensor]]:
        return tf.function(self._model.validation_terms, reduce_retracing=True)

    @functools.cached_property
    def _margins(self) -> Callable[..., tf.Tensor]:
        return sampler(self._model, lambda logits: logits[..., 1] - logits[..., 0])

    def _draw(
        self,
        images: tf.Tensor,
        count: int,
        seed: tf.Tensor,
        draw: Callable[..., tf.Tensor],
        outside: float = 0,
    ) -> np.ndarray:
        """Draws maps [B, S, H, W] of what the network sees of the frames."""
        seen = input_pipeline.central_crop(images, self._size)
        maps = draw(seen, count, seed).numpy()
        return input_pipeline.pad_to(maps, images.shape[1:3], outside)

    def _available(self, num_samples: int) -> int:
        return min(num_samples, self._model.max_samples or num_samples)


class Validation(StepCallback):
    """Validates every so many steps and at the end, and keeps the best checkpoint."""

    def __init__(
        self,
        start_step: int,
        *,
        config: Config,
        validator: Validator,
        writer: tf.summary.SummaryWriter,
        run_dir: RunDir,
        checkpoint: tf.train.Checkpoint,
        guard: NonFiniteGuard,
        report: Callable[[str], None],
        done: Callable[[], None],
    ) -> None:
        super().__init__(start_step)
        self._config, self._validator, self._writer = config, validator, writer
        self._run_dir, self._guard = run_dir, guard
        self._report, self._done = report, done
        self._best, self._warning = run_dir.best_score(), None
        self._store = CheckpointStore(checkpoint, run_dir.best, keep=1)

    def on_step(self, logs: Logs) -> None:
        """Validates when it is time."""
        training = self._config.training
        if self.passed(training.validate_every) or self.step == training.steps:
            self.validate()
            self._done()

    def validate(self) -> None:
        """Computes, logs and compares; keeps the checkpoint if it is the best."""
        self._guard.check()
        average, variables = self.model.weight_average, self.model.trainable_variables
        with average.applied(variables) if average else contextlib.nullcontext():
            scores = self._validator.loss()
            shift = contextlib.nullcontext()
            if self._config.training.tune_foreground:
                nats = self._validator.best_foreground_shift()
                scores["foreground_shift"] = nats
                shift = self.model.foreground_shifted(nats)
            with shift:
                self._score(scores)

    def _score(self, scores: dict[str, float]) -> None:
        scores.update(self._validator.energy_distance())
        active = collapse.active_latents(scores)
        if active is not None:
            scores["active_latents"] = active
        with self._writer.as_default(step=self.step):
            for name, value in scores.items():
                tf.summary.scalar(f"validation/{name}", value)
            png = tf.io.decode_png(self._validator.picture(), channels=3)
            tf.summary.image("validation/samples", png[None])
        self._writer.flush()
        self._report(
            f"step {self.step}: validation loss {scores['loss']:.5g}, "
            f"GED {scores['ged']:.4f}"
        )
        self._warn(collapse.warning(scores, is_stochastic=self.model.is_stochastic))
        self._keep_if_best(scores)

    def _warn(self, warning: str | None) -> None:
        """Says it once, until it changes."""
        if warning is not None and warning != self._warning:
            self._report(f"step {self.step}: warning: {warning}")
            with self._writer.as_default(step=self.step):
                tf.summary.text("validation/warning", warning)
        self._warning = warning

    def _keep_if_best(self, scores: dict[str, float]) -> None:
        by = self._config.training.best_by
        if self._best is not None and scores[by] >= self._best[by]:
            return
        self._best = {"step": self.step, **{k: float(v) for k, v in scores.items()}}
        self._store.save(self.step)
        files.write_json(self._run_dir.path / BEST_NAME, self._best)


def sampler(
    model: SegmentationModel,
    read: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Callable[..., tf.Tensor]:
    """Returns a compiled function (image, num_samples, seed) -> maps [B, S, H, W].

    Args:
        model: to draw from.
        read: what is made of the logits [B, S, H, W, K]; labels by default.
    """
    image = tf.TensorSpec([None, None, None, model.config.image_channels], tf.float32)
    number, seed = tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.int32)

    @tf.function(input_signature=[image, number, seed])
    def sample_maps(image: tf.Tensor, num_samples: tf.Tensor, seed: tf.Tensor):
        logits = model.sample(image, num_samples, seed)
        if read is not None:
            return read(logits)
        return tf.argmax(logits, axis=-1, output_type=tf.int32)

    return sample_maps


# What TensorBoard's page of hyper-parameters shows of a run, the main one first.
_SHOWN_METRICS = {
    "validation/ged": "validation energy distance",
    "validation/loss": "validation loss",
    "validation/diversity": "images whose samples differ",
    "training/loss": "training loss",
}


def write_settings(
    writer: tf.summary.SummaryWriter,
    config: Config,
    dataset: dict[str, Any],
    run_name: str,
) -> None:
    """Writes the configuration to TensorBoard, as text and as hyper-parameters.

    Args:
        writer: to the log of the run.
        config: of the run.
        dataset: what it is trained on.
        run_name: under which the page of hyper-parameters lists the run. Runs of one
            name are shown as one.
    """
    from tensorboard.plugins.hparams import api as hparams

    sections = config.to_json()
    flat = {
        f"{section}/{name}": "none" if value is None else value
        for section, values in sections.items()
        for name, value in values.items()
    }
    with writer.as_default(step=0):
        tf.summary.text("config", f"```\n{json.dumps(sections, indent=2)}\n```")
        tf.summary.text("dataset", f"```\n{json.dumps(dataset, indent=2)}\n```")
        hparams.hparams_config(
            hparams=[hparams.HParam(name) for name in flat],
            metrics=[
                hparams.Metric(tag, display_name=text)
                for tag, text in _SHOWN_METRICS.items()
            ],
        )
        hparams.hparams(flat, trial_id=run_name)
    writer.flush()


def _scorer(
    info: records.DatasetInfo, config: Config
) -> Callable[[np.ndarray, np.ndarray], float]:
    """Returns the energy distance (samples [S, H, W], graders [G, H, W]) -> float."""
    spec = info.spec
    kind = task.kind(spec, config.data.task)
    if kind == "switched":
        return lambda samples, graders: switched_modes.energy_distance(
            samples, graders[0], ignore=spec.ignore_label
        )
    if kind == "binary":
        return ged.energy_distance
    labels = ged.LabelSet.of_foreground(spec.num_classes, spec.ignore_label)
    return lambda samples, graders: ged.energy_distance(samples, graders, labels=labels)
