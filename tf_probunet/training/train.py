"""The training run: from a configuration and a data set to checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from tf_probunet import damage, files, locks, models
from tf_probunet.artifacts import saved_model
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.config import SIZE, Config, sides
from tf_probunet.dataset import input_pipeline, records, task
from tf_probunet.hashing import salted_hash
from tf_probunet.models import growth
from tf_probunet.models.base import Batch, SegmentationModel
from tf_probunet.models.weight_average import WeightAverage
from tf_probunet.training import callbacks, schedules
from tf_probunet.training import strategy as strategies
from tf_probunet.training.run_dir import (
    CHECKPOINT_ERRORS,
    KEPT_CHECKPOINTS,
    CheckpointStore,
    RunDir,
)
from tf_probunet.training.validation import Validation, Validator, write_settings

# Steps between the checks whether a worker of the cluster wants to stop. Each check
# waits for the step to end.
_AGREE_EVERY = 10


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        step: steps done.
        best: the best validation (`step`, `ged`, `loss`, ...), or None.
        signal: the signal that ended it early, or None.
    """

    step: int
    best: dict[str, Any] | None
    signal: int | None = None


def train(
    config: Config,
    *,
    data_dir: files.Path,
    run_dir: files.Path,
    strategy: tf.distribute.Strategy,
    resume: bool = True,
) -> Outcome:
    """Trains a model, or resumes a run that was stopped.

    Args:
        config: everything that determines what is computed.
        data_dir: the prepared data set.
        run_dir: the directory for configuration, checkpoints and logs.
        strategy: the devices.
        resume: whether to resume the run in `run_dir`. If false, an existing run is an
            error.

    Returns:
        How it ended.

    Raises:
        ValueError: configuration, data and run directory do not fit together, the
            loss is not finite, or another command is writing to the directory.
        FileNotFoundError: there is no data.
    """
    info = records.read_info(data_dir)
    config = fit_to_data(config, info)
    _check_batch(config, strategy)
    directory = RunDir(pathlib.Path(run_dir))
    if not resume and directory.checkpoints.exists():
        raise ValueError(f"{run_dir}: holds a run already; continue it with --resume")
    with contextlib.ExitStack() as stack:
        if strategies.is_chief(strategy):  # All workers together are one command.
            stack.enter_context(locks.inside(directory.path))
            directory.claim(config, info)
        stack.enter_context(strategies.named_errors(strategy))
        run = _Run(config, info, directory, strategy)
        start = run.restore()
        _check_workers_agree(strategy, config, info, start)
        if start >= config.training.steps:
            return Outcome(start, directory.best_score())
        return run.fit(start)


def fit_to_data(config: Config, info: records.DatasetInfo) -> Config:
    """Fills in the settings that the data set and the model determine.

    Raises:
        ValueError: the images are smaller than the crops, or the task needs other data.
    """
    spec = info.spec
    for name in ("crop_size", "eval_size", "scored_size"):
        size = getattr(config.data, name)
        least = "x".join(map(str, spec.smallest_size))
        if any(s > least for s, least in zip(sides(size), spec.smallest_size)):
            some = "some of the" if spec.min_size else "the"
            raise ValueError(
                f"{name} is {_text(size)}, but {some} images of {info.data_dir} are "
                f"only {least}"
            )
    divisor = config.model.size_divisor
    if not config.data.crop_size:
        if spec.min_size is not None:
            raise ValueError(
                f"crop_size is 0, but the images of {info.data_dir} differ in size, "
                f"from {least} to {spec.image_shape[0]}x{spec.image_shape[1]}; give a "
                "crop size that fits into all of them"
            )
        if any(side % divisor for side in spec.image_shape[:2]):
            raise ValueError(
                f"crop_size is 0, but the images of {info.data_dir} "
                f"({least}) are not multiples of "
                f"{divisor}, as {config.model.num_scales} scales need"
            )
    if not config.data.eval_size and min(spec.smallest_size) < divisor:
        raise ValueError(
            f"eval_size is 0, but some images of {info.data_dir} are only {least}, "
            f"expected sides of at least {divisor} for {config.model.num_scales} scales"
        )
    graders = config.training.graders_per_image
    if config.data.task == "plain" and graders > spec.num_graders:
        raise ValueError(
            f"graders_per_image is {graders}, but the images of {info.data_dir} have "
            f"{spec.num_graders}"
        )
    task.check(spec, config.data.task, info.data_dir)
    num_classes = input_pipeline.num_classes(info, config.data)
    if config.training.tune_foreground and num_classes != 2:
        raise ValueError(
            f"tune_foreground is for two classes, but {info.data_dir} has {num_classes}"
        )
    model = dataclasses.replace(
        models.with_defaults(config.model),
        num_classes=num_classes,
        image_channels=spec.image_shape[2],
        ignore_label=spec.ignore_label,
    )
    return dataclasses.replace(config, model=model)


def _text(size: SIZE) -> str:
    return str(size) if isinstance(size, int) else ",".join(map(str, size))


def build(config: Config) -> tuple[SegmentationModel, tf.train.Checkpoint]:
    """Builds and compiles a model. Call it in the scope of the strategy.

    Returns:
        The model, and a checkpoint of it and its optimiser.
    """
    training = config.training
    policy = "float32"
    if training.mixed_precision != "off":
        policy = f"mixed_{training.mixed_precision}"
    tf.keras.mixed_precision.set_global_policy(policy)
    model = models.build(config.model, training.seed)
    optimizer = tf.keras.optimizers.Adam(schedules.learning_rate(training))
    if training.mixed_precision == "float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    if training.ema_decay:
        model.weight_average = WeightAverage(
            model.trainable_variables, training.ema_decay
        )
    model.compile(
        optimizer,
        weight_decay=training.weight_decay,
        gradient_clip_norm=training.gradient_clip_norm,
        kl_warmup_steps=training.kl_warmup_steps,
        energy_warmup_steps=training.energy_warmup_steps,
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    # This makes the counter, which the first save would do otherwise. All workers of a
    # cluster must make the same variables, and only one of them saves.
    _ = checkpoint.save_counter
    return model, checkpoint


def restore(checkpoint: tf.train.Checkpoint, saved: CheckpointStore) -> int:
    """Loads the last readable checkpoint and returns its step, or 0 if there is none.

    Raises:
        ValueError: there are checkpoints, but none can be read.
    """
    problems = []
    for name in reversed(saved.names):
        path = saved.directory / name
        try:
            saved.restore(name)
        except CHECKPOINT_ERRORS as error:
            reason = damage.reason(error)
            problems.append(f"{path}: unreadable checkpoint ({reason})")
        else:
            for problem in problems:
                sys.stderr.write(f"warning: {problem}; continuing from {path}\n")
            return int(checkpoint.optimizer.iterations.numpy())
    if problems:
        raise ValueError(problems[0])
    return 0


def start_from(model: SegmentationModel, path: files.Path) -> None:
    """Assigns the weights of a SavedModel to a model and its weight average.

    The network of the SavedModel may have fewer channels or convolutions. The model
    then begins with the same segmentations.

    Raises:
        FileNotFoundError: there is no SavedModel.
        ValueError: it is damaged, or has another network.
    """
    saved = saved_model.load(path)
    weights = [weight.numpy() for weight in saved.module.weights]
    variables = model.trainable_variables
    found = [saved.network.name, *(weight.shape for weight in weights)]
    if found != [model.config.name, *(tuple(v.shape) for v in variables)]:
        names = [weight.name for weight in saved.module.weights]
        try:
            weights = growth.grown(
                model, models.with_defaults(saved.network), dict(zip(names, weights))
            )
        except ValueError as error:
            raise ValueError(
                f"{path}: weights of another network than this run's: {error}; give "
                "the flags of the network it was trained with, or of a larger one"
            ) from error
    for variable, weight in zip(variables, weights):
        variable.assign(weight)
    if model.weight_average is not None:
        model.weight_average.reset(variables)


def _check_workers_agree(
    strategy: tf.distribute.Strategy,
    config: Config,
    info: records.DatasetInfo,
    start: int,
) -> None:
    """Checks that all workers will do the same.

    Raises:
        ValueError: they have different flags or data, or do not share a run directory.
    """
    settings = json.dumps([config.to_json(), info.description], sort_keys=True)
    # The 64 bits of the hash do not fit into a signed integer.
    if len(set(strategies.gather(strategy, salted_hash(settings, "workers") >> 1))) > 1:
        raise ValueError("the workers have different flags or data")
    starts = strategies.gather(strategy, start)
    if len(set(starts)) > 1:
        raise ValueError(
            f"the workers found checkpoints of the steps {starts}, expected the same: "
            f"--run_dir must be on a file system that all of them see"
        )


def _check_batch(config: Config, strategy: tf.distribute.Strategy) -> None:
    replicas, batch = strategy.num_replicas_in_sync, config.training.batch_size
    if batch % replicas:
        raise ValueError(
            f"batch_size is {batch}, expected a multiple of the {replicas} replicas"
        )


class _Run:
    """A run whose model has been built: restores its state and takes its steps."""

    def __init__(
        self,
        config: Config,
        info: records.DatasetInfo,
        directory: RunDir,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self._config, self._info = config, info
        self._directory, self._strategy = directory, strategy
        self._is_chief = strategies.is_chief(strategy)
        with strategy.scope():
            self._model, self._checkpoint = build(config)
        self._saved = CheckpointStore(
            self._checkpoint, directory.checkpoints, keep=KEPT_CHECKPOINTS
        )

    def restore(self) -> int:
        """Loads the last checkpoint or the initial weights, and returns the step."""
        start = restore(self._checkpoint, self._saved)
        if self._config.training.start_from and not self._saved.names:
            path = self._config.training.start_from
            start_from(self._model, path)
            if self._is_chief:
                self._directory.write_history(SavedModelDir(path).history())
        return start

    def fit(self, start: int) -> Outcome:
        """Takes the steps from `start` on, until the last one or a signal."""
        training, strategy = self._config.training, self._strategy
        guard = callbacks.NonFiniteGuard(start, training.log_every, self._keys_of_step)
        # All workers check the loss at the same steps, but only the chief saves.
        checkpoints = callbacks.Checkpoints(
            start,
            (training.checkpoint_every, training.validate_every),
            self._saved if self._is_chief else None,
            guard,
        )
        several = strategies.num_workers(strategy) > 1
        interrupts = callbacks.Interrupts(start, _AGREE_EVERY if several else None)
        with contextlib.ExitStack() as stack:
            reports = self._reports(start, guard, stack)
            stack.callback(interrupts.restore)
            # The guard comes before everything that saves. Validation comes before the
            # checkpoint: a run that is killed between them repeats the step.
            steps = [guard, *reports, checkpoints, interrupts]
            with self._named_errors():
                self._model.fit(
                    _batches(self._info, self._config, strategy, start),
                    epochs=1,
                    steps_per_epoch=training.steps - start,
                    callbacks=steps,
                    verbose=0,
                )
            checkpoints.save()
            strategies.gather(strategy, checkpoints.step)  # Wait for all workers.
        return Outcome(
            checkpoints.step, self._directory.best_score(), interrupts.signal
        )

    def _reports(
        self,
        start: int,
        guard: callbacks.NonFiniteGuard,
        stack: contextlib.ExitStack,
    ) -> list[callbacks.StepCallback]:
        """Returns the callbacks that log, validate and show progress.

        Only the chief writes. The other workers just reset the running means with it.
        """
        config, training = self._config, self._config.training
        every, batch_size = training.log_every, training.batch_size
        if not self._is_chief:
            nowhere = tf.summary.create_noop_writer()
            return [callbacks.ScalarLogs(start, every, nowhere, batch_size)]
        line = callbacks.ProgressLine(start, training.steps, config.model.name)
        stack.callback(line.close)
        writer = tf.summary.create_file_writer(str(self._directory.tensorboard))
        stack.callback(writer.close)
        if start == 0:
            name = str(self._directory.path)
            write_settings(writer, config, self._info.description, name)
        logs = callbacks.ScalarLogs(start, every, writer, batch_size)
        validation = Validation(
            start,
            config=config,
            validator=Validator(self._model, self._info, config),
            writer=writer,
            run_dir=self._directory,
            checkpoint=self._checkpoint,
            guard=guard,
            report=line.progress.write,
            done=logs.restart_clock,
        )
        return [logs, validation, line]

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Makes TensorFlow's errors name the damaged data or the lost worker."""
        with records.named_errors(self._info, "train", "val"):
            with strategies.named_errors(self._strategy):
                yield

    def _keys_of_step(self, step: int) -> list[str]:
        """Returns the keys of the examples in the batch of a step."""
        batches = input_pipeline.training_batches(
            self._info, self._config, start_step=step, with_keys=True
        )
        return [key.decode() for key in next(iter(batches))["key"].numpy()]


def _batches(
    info: records.DatasetInfo,
    config: Config,
    strategy: tf.distribute.Strategy,
    start: int,
) -> Iterable[Batch]:
    """Returns the batches of all replicas from step `start` on."""
    on_host = strategies.is_single_cpu(strategy)

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = input_pipeline.training_batches(
            info,
            config,
            start_step=start,
            num_workers=context.num_input_pipelines,
            worker=context.input_pipeline_id,
            num_replicas=context.num_replicas_in_sync,
        )
        options = tf.data.Options()
        options.autotune.enabled = not on_host
        return batches.with_options(options)

    # An iterator that tunes itself may take a minute to close (docs/scale.md). One that
    # fetches to devices always tunes itself. A single CPU needs neither.
    options = None
    if on_host:
        options = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
    return strategy.distribute_datasets_from_function(of_worker, options)


def exit_code(outcome: Outcome) -> int:
    """Returns the exit code for an outcome: 128 + signal if a signal ended the run."""
    return 0 if outcome.signal is None else 128 + signal.Signals(outcome.signal)
