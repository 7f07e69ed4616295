"""The directory of a run: its configuration, its data set and its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import pathlib
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

_DATASET_FIELDS = {
    "name": [str],
    "fingerprint": [str],
    "class_names": [list],
    "intensity": [str],
}
_BEST_FIELDS = {"step": [int], "loss": [int, float], "ged": [int, float]}

# TensorFlow raises all of these for damaged checkpoints.
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
    """Where a run keeps what."""

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
        """Writes configuration and data set, or checks that they are those of before.

        Raises:
            ValueError: the directory holds a run of another configuration or data set.
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
                f"({'; '.join(differences)}); choose another --run_dir, or go on with "
                f"its own settings"
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
        path = latest_checkpoint(directory)
        if path is None:
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
            checkpoint.restore(path).assert_existing_objects_matched().expect_partial()
        except CHECKPOINT_ERRORS as error:
            reason = damage.reason(error)
            raise ValueError(f"{path}: unreadable checkpoint ({reason})") from error
        if decay and which == "last":  # The best was saved with the averages applied.
            model.weight_average.apply(model.trainable_variables)
        return model

    def _remove_temporaries(self) -> None:
        """Removes what a killed run left of files it was writing."""
        files.remove_temporaries(self.path)
        for directory in (self.checkpoints, self.best):
            # TensorFlow's names for a checkpoint and for the list of checkpoints.
            for path in directory.glob("*_temp"):
                shutil.rmtree(path)
            for path in directory.glob("checkpoint.tmp*"):
                path.unlink()


def latest_checkpoint(directory: pathlib.Path) -> str | None:
    """Returns the path of the last checkpoint in a directory, None if there is none.

    Raises:
        ValueError: the list of checkpoints is damaged.
    """
    try:
        return tf.train.latest_checkpoint(str(directory))
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(
            f"{directory / 'checkpoint'}: damaged list of checkpoints "
            f"({damage.reason(error)})"
        ) from error


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
