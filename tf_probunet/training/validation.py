"""Validation during training: loss, energy distance and a picture of samples."""

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
from tf_probunet.dataset.cityscapes_labels import IGNORE_LABEL
from tf_probunet.evaluation.metrics import ged, switched_modes
from tf_probunet.figures import sample_grid, style
from tf_probunet.models.base import Batch, SegmentationModel
from tf_probunet.training import collapse
from tf_probunet.training.callbacks import Logs, NonFiniteGuard, StepCallback
from tf_probunet.training.run_dir import BEST_NAME, CheckpointStore, RunDir

_PICTURE_IMAGES = 6
_PICTURE_SAMPLES = 8
_MAX_BATCH = 8  # Samples multiply the memory of a batch.
# The shifts of the foreground's logit that are tried. They label pixels from a
# probability between 0.95 and 0.05 on. The smallest shift comes first and wins ties.
SHIFTS = tuple(sorted(np.arange(-3.0, 3.25, 0.25).tolist(), key=abs))


class Validator:
    """Scores a model on the validation split, as often as needed."""

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
        self._size, self._divisor = config.data.eval_size, config.model.size_divisor
        self._one_by_one = info.spec.min_size is not None and not config.data.frame_size
        size = config.data.frame_size
        examples = input_pipeline.evaluation_examples(
            info, "val", config.data, size=size
        ).take(self._num_images)
        self._examples = input_pipeline.batched(
            examples, info.spec, batch, size=size
        ).cache()
        self._score = _scorer(info, config)
        plain = config.data.task == "plain"
        self._class_names = info.spec.class_names if plain else ()

    def loss(self) -> dict[str, float]:
        """Returns the mean of each term of the objective."""
        # Keras' `evaluate` would involve all workers of a cluster.
        sums: dict[str, float] = {}
        for batch in self._loss_batches:
            size = len(batch["image"])
            for name, value in self._terms(batch).items():
                sums[name] = sums.get(name, 0.0) + size * float(value)
        return {name: total / self._num_images for name, total in sums.items()}

    def energy_distance(self) -> dict[str, float]:
        """Scores samples of the validation images.

        Returns:
            `ged`, the mean squared energy distance, and `diversity`, the share of
            images whose samples are not all the same.
        """
        scores, differ = [], []
        for samples, graders in self._scored(self._sample):
            scores.append(self._score(samples, graders))
            differ.append(bool((samples != samples[:1]).any()))
        return {"ged": float(np.mean(scores)), "diversity": float(np.mean(differ))}

    def prior_spread(self) -> float | None:
        """Returns how much the prior differs between images; None if it is fixed.

        It is the standard deviation over the images of the prior's means, relative to
        the prior's own deviations, or of the logarithms of these; the largest of all
        dimensions.
        """
        if getattr(self._model, "prior_net", None) is None or self._num_images < 2:
            return None
        moments = []
        for batch in self._examples:
            moments.append(self._moments(self._seen(batch["image"])[0]))
        mean, stddev = (np.concatenate(parts) for parts in zip(*moments))  # [N, L]
        relative = mean.std(axis=0) / stddev.mean(axis=0)
        return float(max(relative.max(), np.log(stddev).std(axis=0).max()))

    def best_foreground_shift(self) -> float:
        """Returns the shift of the foreground's logit with the smallest distance.

        Among equally good ones, the smallest shift is returned.
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
            yield from zip(drawn, input_pipeline.grader_stacks(batch))

    def picture(self) -> bytes:
        """Returns a PNG of images, graders and samples."""
        count = self._available(_PICTURE_SAMPLES)
        images, graders, samples = [], [], []
        for batch in self._picture_batches():
            samples += [*self._draw(batch["image"], count, self._seed, self._sample)]
            images += [*batch["image"].numpy()]
            graders += input_pipeline.grader_stacks(batch)
        figure = sample_grid.draw(
            images=images,
            graders=graders,
            samples=samples,
            class_names=self._class_names,
        )
        return style.to_png(figure)

    def _picture_batches(self) -> Iterator[dict[str, tf.Tensor]]:
        """Yields the first images, all in one batch if they have one size."""
        if self._one_by_one:
            return iter(self._examples.take(_PICTURE_IMAGES))
        return iter(self._examples.unbatch().batch(_PICTURE_IMAGES).take(1))

    @functools.cached_property
    def _terms(self) -> Callable[[Batch], dict[str, tf.Tensor]]:
        return tf.function(self._model.validation_terms, reduce_retracing=True)

    @functools.cached_property
    def _moments(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        def moments(image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            prior = self._model.prior(image)
            return prior.mean(), prior.stddev()

        return tf.function(moments, reduce_retracing=True)

    @functools.cached_property
    def _margins(self) -> Callable[..., tf.Tensor]:
        # A shift of the last layer's bias is multiplied too.
        sharpness = self._model.config.outline_sharpness
        return sampler(
            self._model, lambda logits: (logits[..., 1] - logits[..., 0]) / sharpness
        )

    def _draw(
        self,
        images: tf.Tensor,
        count: int,
        seed: tf.Tensor,
        draw: Callable[..., tf.Tensor],
        outside: float = 0,
    ) -> np.ndarray:
        """Draws maps [B, S, H, W] on the part of the frames that the network sees."""
        seen, size = self._seen(images)
        maps = draw(seen, count, seed).numpy()
        maps = input_pipeline.central_part(maps, size)
        return input_pipeline.pad_to(maps, images.shape[1:3], outside)

    def _seen(self, images: tf.Tensor) -> tuple[np.ndarray, tuple[int, int]]:
        """Returns what the network sees, and its size without a mirrored border."""
        seen = input_pipeline.central_crop(images.numpy(), self._size)
        _, height, width, _ = seen.shape
        return input_pipeline.mirror_pad(seen, self._divisor), (height, width)

    def _available(self, num_samples: int) -> int:
        return min(num_samples, self._model.max_samples or num_samples)


class Validation(StepCallback):
    """Validates every few steps and at the end, and keeps the best checkpoint."""

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
        self._best = run_dir.best_score()
        self._warning: str | None = None
        self._store = CheckpointStore(checkpoint, run_dir.best, keep=1)

    def on_step(self, logs: Logs) -> None:
        """Validates at the multiples of the interval and after the last step."""
        training = self._config.training
        if self.passed(training.validate_every) or self.step == training.steps:
            self.validate()
            self._done()

    def validate(self) -> None:
        """Scores the model, keeps its checkpoint if it is the best, and logs it all."""
        self._guard.check()
        with contextlib.ExitStack() as changed_weights:
            scores = self._score(changed_weights)
            picture = self._validator.picture()
            self._keep_if_best(scores)
        self._log(scores, picture)
        self._report(
            f"step {self.step}: validation loss {scores['loss']:.5g}, "
            f"GED {scores['ged']:.4f}"
        )
        self._warn(collapse.warning(scores, is_stochastic=self.model.is_stochastic))

    def _score(self, changed_weights: contextlib.ExitStack) -> dict[str, float]:
        """Returns the scores of the weights that would be exported.

        Args:
            changed_weights: the model has these weights until this context is closed:
                the averages, if there are any, with the best shift of the foreground.
        """
        average = self.model.weight_average
        if average is not None:
            variables = self.model.trainable_variables
            changed_weights.enter_context(average.applied(variables))
        scores = self._validator.loss()
        if self._config.training.tune_foreground:
            shift = self._validator.best_foreground_shift()
            changed_weights.enter_context(self.model.foreground_shifted(shift))
            scores["foreground_shift"] = shift
        scores.update(self._validator.energy_distance())
        active = collapse.active_latents(scores)
        if active is not None:
            scores["active_latents"] = active
        spread = self._validator.prior_spread()
        if spread is not None:
            scores["prior_spread"] = spread
        return scores

    def _keep_if_best(self, scores: dict[str, float]) -> None:
        by = self._config.training.best_by
        if self._best is not None and scores[by] >= self._best[by]:
            return
        self._best = {"step": self.step, **{k: float(v) for k, v in scores.items()}}
        self._store.save(self.step)
        files.write_json(self._run_dir.path / BEST_NAME, self._best)

    def _log(self, scores: dict[str, float], picture: bytes) -> None:
        with self._writer.as_default(step=self.step):
            for name, value in scores.items():
                tf.summary.scalar(f"validation/{name}", value)
            png = tf.io.decode_png(picture, channels=3)
            tf.summary.image("validation/samples", png[None])
        self._writer.flush()

    def _warn(self, warning: str | None) -> None:
        """Reports a warning, unless the last validation had the same one."""
        if warning is not None and warning != self._warning:
            self._report(f"step {self.step}: warning: {warning}")
            with self._writer.as_default(step=self.step):
                tf.summary.text("validation/warning", warning)
        self._warning = warning


def sampler(
    model: SegmentationModel,
    read: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Callable[..., tf.Tensor]:
    """Returns a compiled function (image, num_samples, seed) -> maps [B, S, H, W].

    Args:
        model: the model to draw from.
        read: maps the logits [B, S, H, W, K] to the result. By default, it returns the
            labels.
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


# The metrics on TensorBoard's page of hyper-parameters. The main one comes first.
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
        writer: writes the log of the run.
        config: the configuration of the run.
        dataset: the description of its data set.
        run_name: the name of the run on the page of hyper-parameters. Runs with the
            same name are shown as one.
    """
    from tensorboard.plugins.hparams import api as hparams

    sections = config.to_json()
    flat = {
        f"{section}/{name}": str(value).lower()
        if value is None or isinstance(value, tuple)
        else value
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
        ignore = IGNORE_LABEL if spec.ignore_label is None else spec.ignore_label
        return lambda samples, graders: switched_modes.energy_distance(
            samples, graders[0], ignore=ignore
        )
    if kind == "binary":
        return ged.energy_distance
    labels = ged.LabelSet.of_foreground(spec.num_classes, spec.ignore_label)
    return lambda samples, graders: ged.energy_distance(samples, graders, labels=labels)
