"""Where samples come from: a SavedModel, or files that another program wrote."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_probunet import files, input_pipeline, records
from tf_probunet.config import Config, DataConfig, read_config
from tf_probunet.evaluation import sample_files
from tf_probunet.hashing import salted_hash

_GRAPH_NAME = "saved_model.pb"


class Samples(NamedTuple):
    """Samples of a batch.

    Attributes:
        labels: [N, S, H, W] uint8.
        mean: [N, H, W, K] float32, the mean of the samples' probabilities; None if
            they are not known or were not asked for.
    """

    labels: np.ndarray
    mean: np.ndarray | None = None


class SavedModel:
    """Draws the samples from a SavedModel of `run/export.py`.

    Attributes:
        data: how examples become the model's inputs.
        max_samples: how many different samples there are; None for any number.
        description: for the results.
    """

    def __init__(self, path: files.Path, seed: int) -> None:
        """Loads the model.

        Args:
            path: of the SavedModel.
            seed: of the samples.

        Raises:
            FileNotFoundError: there is no SavedModel.
            ValueError: it was not written by `run/export.py`, or is damaged.
        """
        self._path, self._seed = pathlib.Path(path), seed
        config, metadata, dataset = _read_assets(self._path)
        self._model, self._size_divisor = config.model, metadata["size_divisor"]
        self._loaded = _load(self._path)
        self.data: DataConfig = config.data
        self.max_samples: int | None = metadata["max_samples"]
        self.description: dict[str, Any] = {
            "name": metadata["model"],
            "source": "saved_model",
            "path": str(path),
            "fingerprint": _fingerprint(self._path),
            "parameters": metadata["parameters"],
            "is_stochastic": metadata["is_stochastic"],
            "max_samples": metadata["max_samples"],
            "seed": seed,
            "trained_on": {k: dataset[k] for k in ("name", "fingerprint", "intensity")},
        }

    def check(self, info: records.DatasetInfo) -> list[str]:
        """Checks that the model fits a data set.

        Returns:
            What a reader of the results should know.

        Raises:
            ValueError: it does not fit.
        """
        spec = info.spec
        expectations = {
            "image channels": (self._model.image_channels, spec.image_shape[2]),
            "classes": (
                self._model.num_classes,
                input_pipeline.num_classes(info, self.data),
            ),
        }
        for name, (expected, found) in expectations.items():
            if expected != found:
                raise ValueError(
                    f"{info.data_dir}: has {found} {name}, but the model in "
                    f"{self._path} expects {expected}"
                )
        size = self.data.eval_size
        height, width = (size, size) if size else spec.image_shape[:2]
        if height % self._size_divisor or width % self._size_divisor:
            raise ValueError(
                f"{info.data_dir}: images are {height}x{width}, but the model in "
                f"{self._path} expects multiples of {self._size_divisor}"
            )
        trained_on = self.description["trained_on"]
        notes = []
        if trained_on["fingerprint"] != info.fingerprint:
            notes.append(
                f"the model was trained on other data ({trained_on['name']}, "
                f"{trained_on['fingerprint']}) than it is scored on ({spec.name}, "
                f"{info.fingerprint})"
            )
        if trained_on["intensity"] != spec.intensity:
            notes.append(
                f"the model was trained on {trained_on['intensity']!r} values and is "
                f"scored on {spec.intensity!r} values"
            )
        return notes

    def draw(
        self,
        keys: Sequence[str],
        images: np.ndarray,
        count: int,
        *,
        with_mean: bool = False,
    ) -> Samples:
        """Draws samples; those of an image depend on the seed and its key alone.

        Args:
            keys: [N].
            images: [N, H, W, C] float32 in 0..1.
            count: S.
            with_mean: whether to return the mean probabilities too.

        Raises:
            ValueError: the model fails on an image; the message names its key.
        """
        labels, means = [], []
        # One image at a time: convolutions round differently with the batch size, and
        # a pixel between two classes would tip over.
        for key, image in zip(keys, images):
            seed = [image_seed(self._seed, key)]
            try:
                outputs = self._loaded.sample(image[None], count, seed)
            except tf.errors.OpError as error:
                reason = _reason(error)
                raise ValueError(f"{key}: the model fails ({reason})") from error
            labels.append(outputs["labels"][0].numpy().astype(np.uint8))
            if with_mean:
                mean = tf.reduce_mean(outputs["probabilities"][0], axis=0)
                means.append(mean.numpy())
        return Samples(np.stack(labels), np.stack(means) if with_mean else None)


class SampleFiles:
    """Takes the samples from files; see `sample_files` for their layout.

    Attributes:
        data: how examples become images of the samples' size.
        max_samples: None: files must hold as many samples as are scored.
        description: for the results.
    """

    max_samples = None

    def __init__(
        self,
        path: files.Path,
        info: records.DatasetInfo,
        *,
        splits: Collection[str],
        data: DataConfig,
    ) -> None:
        """Lists the files.

        Args:
            path: the directory.
            info: the data set that was sampled for.
            splits: those whose keys may appear.
            data: how examples become images of the samples' size.

        Raises:
            FileNotFoundError: there is no such directory.
            ValueError: a file belongs to no key of these splits.
        """
        self.data = data
        self._num_classes = input_pipeline.num_classes(info, data)
        known = {key for split in splits for key in split_keys(info, split)}
        self._files = sample_files.find(path, known)
        self.description: dict[str, Any] = {
            "name": pathlib.Path(path).resolve().name,
            "source": "samples_dir",
            "path": str(path),
            "fingerprint": sample_files.fingerprint(self._files),
        }

    def check(self, info: records.DatasetInfo) -> list[str]:
        """Has nothing to say: files are checked when they are read."""
        return []

    def has(self, keys: Sequence[str]) -> bool:
        """Whether there are samples for any of the keys."""
        return any(key in self._files for key in keys)

    def draw(
        self,
        keys: Sequence[str],
        images: np.ndarray,
        count: int,
        *,
        with_mean: bool = False,
    ) -> Samples:
        """Reads the first `count` samples of each image; see `SavedModel.draw`.

        Raises:
            FileNotFoundError: an image has no file.
            ValueError: a file does not hold such samples; the message names it.
        """
        del with_mean  # Files hold labels only.
        size = images.shape[1:3]
        labels = [
            sample_files.read(
                self._files, key, count=count, size=size, num_classes=self._num_classes
            )
            for key in keys
        ]
        return Samples(np.stack(labels))


def image_seed(seed: int, key: str) -> int:
    """Returns the seed of an image's samples, 31 bits from a hash of seed and key."""
    return salted_hash(key, f"samples with seed {seed}") & 0x7FFFFFFF


def split_keys(info: records.DatasetInfo, split: str) -> list[str]:
    """Returns the keys of a split in their stored order."""
    serialized = tf.data.TFRecordDataset(info.shard_paths(split))
    keys = serialized.map(lambda text: records.parse(text, info.spec)["key"])
    with records.named_errors(f"{info.data_dir}: split {split!r}"):
        return [key.decode() for key in keys.as_numpy_iterator()]


def _read_assets(path: pathlib.Path) -> tuple[Config, dict[str, Any], dict[str, Any]]:
    if not (path / _GRAPH_NAME).is_file():
        raise FileNotFoundError(f"{path}: not a SavedModel (it has no {_GRAPH_NAME})")
    assets = path / "assets"
    if not (assets / "config.json").is_file():
        raise ValueError(
            f"{path}: a SavedModel without assets/config.json, so not written by "
            "run/export.py; score the samples of other models with --samples_dir"
        )
    config = read_config(assets / "config.json")
    metadata = files.read_json(assets / "metadata.json", "SavedModel metadata")
    dataset = files.read_json(assets / "dataset.json", "data set description")
    names = {"model", "max_samples", "is_stochastic", "size_divisor", "parameters"}
    for name, found, expected in (
        ("metadata.json", metadata, names),
        ("dataset.json", dataset, {"name", "fingerprint", "intensity"}),
    ):
        if not expected <= set(found):
            raise ValueError(
                f"{assets / name}: has {sorted(found)}, expected {sorted(expected)}"
            )
    return config, metadata, dataset


def _load(path: pathlib.Path) -> Any:
    try:
        loaded = tf.saved_model.load(str(path))
    except tf.errors.OpError as error:
        raise ValueError(f"{path}: damaged SavedModel ({_reason(error)})") from error
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path}: damaged SavedModel ({error})") from error
    if not callable(getattr(loaded, "sample", None)):
        raise ValueError(
            f"{path}: a SavedModel without the function `sample`; export it with "
            "run/export.py"
        )
    return loaded


def _reason(error: tf.errors.OpError) -> str:
    """Returns the line of TensorFlow's message that says what happened."""
    lines = [line.strip() for line in error.message.splitlines()]
    telling = [line for line in lines if line and not line.startswith("[[")]
    return telling[-1] if telling else type(error).__name__


def _fingerprint(path: pathlib.Path) -> str:
    """A short name for the content of a directory."""
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path)} {files.sha256(file)}\n".encode())
    return digest.hexdigest()[:16]
