"""The directory of a run: its configuration, its data set and its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
from typing import Any

import tensorflow as tf

from tf_probunet import damage, files, models
from tf_probunet.config import Config, read_config
from tf_probunet.dataset import records
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.weight_average import WeightAverage

CONFIG_NAME = "config.json"
DATASET_NAME = "dataset.json"
BEST_NAME = "best.json"
HISTORY_NAME = "history.json"
KEPT_CHECKPOINTS = 3
_LIST_NAME = "checkpoint"  # TensorFlow's name.

_DATASET_FIELDS: dict[str, list[type]] = {
    "name": [str],
    "fingerprint": [str],
    "class_names": [list],
    "intensity": [str],
}
_BEST_FIELDS: dict[str, list[type]] = {
    "step": [int],
    "loss": [int, float],
    "ged": [int, float],
}

# TensorFlow raises any of these for a damaged checkpoint.
CHECKPOINT_ERRORS = (
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    tf.errors.OpError,
)


@dataclasses.dataclass(frozen=True)
class RunDir:
    """The files of a run."""

    path: pathlib.Path

    @property
    def checkpoints(self) -> pathlib.Path:
        """The last checkpoints."""
        return self.path / "checkpoints"

    @property
    def best(self) -> pathlib.Path:
        """The best checkpoint by validation."""
        return self.path / "best"

    @property
    def tensorboard(self) -> pathlib.Path:
        """TensorBoard's event files."""
        return self.path / "tensorboard"

    def claim(self, config: Config, info: records.DatasetInfo) -> None:
        """Records the configuration and data set of a new run, or checks them.

        Raises:
            ValueError: the directory has a run with another configuration or data set.
        """
        dataset = info.description
        self._remove_temporaries()
        if not (self.path / CONFIG_NAME).exists():
            files.write_json(self.path / DATASET_NAME, dataset)
            files.write_json(self.path / CONFIG_NAME, config.to_json())
            return
        differences = read_config(self.path / CONFIG_NAME).differences(config)
        if differences:
            raise ValueError(
                f"{self.path}: holds a run of another configuration "
                f"({'; '.join(differences)}); choose another --run_dir, or resume it "
                f"with its own settings"
            )
        before = self.dataset()
        if before["fingerprint"] != dataset["fingerprint"]:
            raise ValueError(
                f"{self.path}: was trained on data set {before['name']!r} with the "
                f"fingerprint {before['fingerprint']}, but {info.data_dir} has "
                f"{dataset['fingerprint']}; choose another --run_dir or the same data"
            )
        for name in sorted(set(before) & set(dataset)):
            if before[name] != json.loads(json.dumps(dataset[name])):
                raise ValueError(
                    f"{self.path}: was trained on data with {name} "
                    f"{_shortened(before[name])}, but {info.data_dir} has "
                    f"{_shortened(dataset[name])}; choose another --run_dir or the "
                    f"same data"
                )

    def config(self) -> Config:
        """Reads the configuration."""
        if not self.path.is_dir():
            raise FileNotFoundError(f"{self.path}: no such run directory")
        return read_config(self.path / CONFIG_NAME)

    def dataset(self) -> dict[str, Any]:
        """Reads the description of the data set."""
        path = self.path / DATASET_NAME
        dataset = files.read_json(path, "description of the data")
        files.check_fields(dataset, _DATASET_FIELDS, path)
        return dataset

    def best_score(self) -> dict[str, Any] | None:
        """Reads the best validation so far, if there was one."""
        path = self.path / BEST_NAME
        if not path.exists():
            return None
        best = files.read_json(path, "best validation")
        files.check_fields(best, _BEST_FIELDS, path)
        return best

    def history(self) -> list[dict[str, Any]]:
        """Reads the earlier trainings of the weights that the run started from."""
        path = self.path / HISTORY_NAME
        if not path.exists():
            return []
        found = files.read_json(path, "earlier trainings")
        files.check_fields(found, {"trainings": [list]}, path)
        return found["trainings"]

    def write_history(self, trainings: list[dict[str, Any]]) -> None:
        """Records the earlier trainings of the weights that the run starts from."""
        files.write_json(self.path / HISTORY_NAME, {"trainings": trainings})

    def load_model(self, which: str = "best") -> SegmentationModel:
        """Builds the model and loads a checkpoint.

        Args:
            which: "best" by validation, or "last".

        Raises:
            FileNotFoundError: there is no such checkpoint.
            ValueError: it is damaged.
        """
        config = self.config()
        directory = {"best": self.best, "last": self.checkpoints}[which]
        name = latest_checkpoint(directory)
        if name is None:
            raise FileNotFoundError(
                f"{directory}: no checkpoint; train first, or choose --checkpoint="
                f"{'last' if which == 'best' else 'best'}"
            )
        model = models.build(config.model, config.training.seed)
        decay = config.training.ema_decay
        if decay:
            model.weight_average = WeightAverage(model.trainable_variables, decay)
        checkpoint = tf.train.Checkpoint(model=model)
        try:
            with files.without_patterns(directory) as plain:
                status = checkpoint.restore(str(plain / name))
                status.assert_existing_objects_matched().expect_partial()
        except CHECKPOINT_ERRORS as error:
            raise ValueError(
                f"{directory / name}: unreadable checkpoint ({damage.reason(error)})"
            ) from error
        average = model.weight_average
        if average is not None and which == "last":  # The best has them as weights.
            average.apply(model.trainable_variables)
        return model

    def _remove_temporaries(self) -> None:
        """Removes the incomplete files of a killed run."""
        files.remove_temporaries(self.path)
        for directory in (self.checkpoints, self.best):
            files.remove_temporaries(directory)
            # TensorFlow's name for an incomplete checkpoint.
            for path in directory.glob("*_temp"):
                shutil.rmtree(path)
            # An incomplete list of checkpoints, by earlier versions.
            for path in directory.glob("checkpoint.tmp*"):
                path.unlink()


class CheckpointStore:
    """The checkpoints in a directory. Only the last few are kept.

    The files are those of `tf.train.CheckpointManager`. That class treats the
    name of the directory as a pattern, though, and deletes matching files of other
    runs.
    """

    def __init__(
        self, checkpoint: tf.train.Checkpoint, directory: pathlib.Path, keep: int
    ) -> None:
        """Reads the list of existing checkpoints.

        Args:
            checkpoint: what to save and restore.
            directory: the directory of the files.
            keep: how many checkpoints to keep.

        Raises:
            ValueError: the list of checkpoints is damaged.
        """
        self._checkpoint, self.directory, self._keep = checkpoint, directory, keep
        self.names = _listed(directory)

    def save(self, step: int) -> None:
        """Writes the checkpoint `ckpt-<step>`, and deletes the oldest beyond the limit.

        Raises:
            OSError: it can't be written, for example because the disk is full.
        """
        name = f"ckpt-{step}"
        self._checkpoint.save_counter.assign_add(1)
        self.directory.mkdir(parents=True, exist_ok=True)
        with files.without_patterns(self.directory) as directory:
            try:
                self._checkpoint.write(str(directory / name))
            except tf.errors.OpError as error:
                raise OSError(
                    f"{self.directory}: can't write the checkpoint of step {step} "
                    f"({damage.graph_reason(error)})"
                ) from error
        self.names = [n for n in self.names if n != name] + [name]
        # List it before any is deleted. Whatever happens, a listed one can be read.
        self._write_list()
        if len(self.names) <= self._keep:
            return
        for old in self.names[: -self._keep]:
            self._delete(old)
        self.names = self.names[-self._keep :]
        self._write_list()

    def restore(self, name: str) -> None:
        """Loads a checkpoint.

        Raises:
            One of `CHECKPOINT_ERRORS`: it is damaged or belongs to another model.
        """
        with files.without_patterns(self.directory) as directory:
            status = self._checkpoint.restore(str(directory / name))
            status.assert_existing_objects_matched()

    def _delete(self, name: str) -> None:
        files_of_it = re.compile(re.escape(name) + r"\.(index|data-\d+-of-\d+)")
        for path in self.directory.iterdir():
            if files_of_it.fullmatch(path.name):
                path.unlink()

    def _write_list(self) -> None:
        lines = [f'model_checkpoint_path: "{self.names[-1]}"']
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in self.names]
        # TensorFlow's own manager ignores checkpoints without a time.
        lines += ["all_model_checkpoint_timestamps: 1" for _ in self.names]
        files.write_text(self.directory / _LIST_NAME, "\n".join(lines) + "\n")


def latest_checkpoint(directory: pathlib.Path) -> str | None:
    """Returns the name of the last checkpoint in a directory, or None.

    Raises:
        ValueError: the list of checkpoints is damaged.
    """
    names = _listed(directory)
    is_there = names and (directory / f"{names[-1]}.index").is_file()
    return names[-1] if is_there else None


def _listed(directory: pathlib.Path) -> list[str]:
    """Returns the names of the listed checkpoints. The last one is at the end."""
    try:
        state = tf.train.get_checkpoint_state(str(directory))
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(
            f"{directory / _LIST_NAME}: damaged list of checkpoints "
            f"({damage.reason(error)})"
        ) from error
    if state is None:
        return []
    last = pathlib.PurePath(state.model_checkpoint_path).name
    names = [pathlib.PurePath(p).name for p in state.all_model_checkpoint_paths]
    return [name for name in [*(n for n in names if n != last), last] if name]


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
