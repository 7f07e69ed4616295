"""Where samples come from: a SavedModel, or files that another program wrote."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_probunet import files
from tf_probunet.artifacts import saved_model
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation import sample_files
from tf_probunet.hashing import salted_hash
from tf_probunet.predict import latents
from tf_probunet.predict import sampling as sampling_lib


class Samples(NamedTuple):
    """Samples of a batch.

    Attributes:
        labels: [N, S, H, W] uint8.
        mean: [N, H, W, K] float32, the mean of the samples' probabilities; None if
            they are not known or were not asked for.
        sets: [N, n, H, W] uint8 by count n, if the first samples are no such set.
        weights: [N, S] probabilities of the samples; None for equal ones.
    """

    labels: np.ndarray
    mean: np.ndarray | None = None
    sets: dict[int, np.ndarray] | None = None
    weights: np.ndarray | None = None


class SavedModel:
    """Draws the samples from a SavedModel of `run/export.py`.

    Attributes:
        data: how examples become the model's inputs.
        max_samples: the number of different samples; None if there is no limit.
        sampling: how the samples are drawn, one of `config.SAMPLINGS`, or "weighted".
        description: of the model, for `results.json`.
    """

    def __init__(
        self, path: files.Path, seed: int, sampling: str = "independent"
    ) -> None:
        """Loads the model.

        Args:
            path: of the SavedModel.
            seed: of the samples.
            sampling: one of `config.SAMPLINGS`, or "weighted".

        Raises:
            FileNotFoundError: there is no SavedModel.
            ValueError: it was not written by `run/export.py`, or is damaged; or it has
                no latents that could be stratified, or no weights.
        """
        self._model, self._seed = saved_model.load(path), seed
        if sampling != "weighted":
            sampling_lib.check_sampling(self._model, sampling)
        elif not self._model.has("weighted"):
            raise ValueError(
                f"sampling is 'weighted', but the samples of the "
                f"{self._model.metadata['model']} in {path} have no weights; expected "
                "independent or stratified"
            )
        self.sampling = sampling
        metadata, dataset = self._model.metadata, self._model.dataset
        self.data: DataConfig = self._model.data
        self.max_samples: int | None = metadata["max_samples"]
        self.description: dict[str, Any] = {
            "name": metadata["model"],
            "source": "saved_model",
            "path": str(path),
            "fingerprint": SavedModelDir(path).fingerprint(),
            "parameters": metadata["parameters"],
            "is_stochastic": metadata["is_stochastic"],
            "max_samples": metadata["max_samples"],
            "seed": seed,
            "trained_on": {k: dataset[k] for k in ("name", "fingerprint", "intensity")},
        }

    def check(self, info: records.DatasetInfo) -> list[str]:
        """Checks that the model fits a data set.

        Returns:
            Notes for the reader of the results.

        Raises:
            ValueError: it does not fit.
        """
        spec, network, divisor = (
            info.spec,
            self._model.network,
            self._model.size_divisor,
        )
        expectations = {
            "image channels": (network.image_channels, spec.image_shape[2]),
            "classes": (
                network.num_classes,
                input_pipeline.num_classes(info, self.data),
            ),
        }
        for name, (expected, found) in expectations.items():
            if expected != found:
                raise ValueError(
                    f"{info.data_dir}: has {found} {name}, but the model in "
                    f"{self._model.path} expects {expected}"
                )
        size = self.data.frame_size
        if size > min(spec.smallest_size):
            height, width = spec.smallest_size
            raise ValueError(
                f"{info.data_dir}: has images of {height}x{width}, but the model in "
                f"{self._model.path} expects at least {size}x{size}"
            )
        trained_on = self.description["trained_on"]
        notes = []
        sides = {*spec.smallest_size, *spec.image_shape[:2]}
        if not self.data.eval_size and any(side % divisor for side in sides):
            notes.append(
                "images whose sides are not multiples of "
                f"{divisor} are mirrored at their border before the model sees them"
            )
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
        fewer: Sequence[int] = (),
    ) -> Samples:
        """Draws samples, which depend only on the seed and the keys of the images.

        Args:
            keys: [N].
            images: [N, H, W, C] float32 in 0..1, the scored frames. Pixels that the
                model does not see become background.
            count: S.
            with_mean: whether to return the mean probabilities too.
            fewer: numbers of samples that need sets of their own if the samples are
                stratified.

        Raises:
            ValueError: the model fails on an image; the message names its key.
        """
        labels: list[np.ndarray] = []
        means: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        if self.sampling == "independent":
            fewer = ()
        sets: dict[int, list[np.ndarray]] = {n: [] for n in fewer if n != count}
        # One image at a time: convolutions round differently in larger batches, and a
        # pixel between two classes could change its label.
        size, frame = self.data.eval_size, images.shape[1:3]
        for key, image in zip(keys, images):
            seen = input_pipeline.central_crop(image[None], size)
            inner = seen.shape[1:3]
            seen = input_pipeline.mirror_pad(seen, self._model.size_divisor)
            for n, found in [*sets.items(), (count, labels)]:
                outputs = self._draw_set(seen, n, key)
                maps = input_pipeline.central_part(outputs["labels"][0], inner)
                found.append(input_pipeline.pad_to(maps.astype(np.uint8), frame))
            shares = outputs["weights"][0] if "weights" in outputs else None
            if shares is not None:
                weights.append(shares.astype(np.float64) / shares.sum(dtype=np.float64))
            if with_mean:
                mean = np.average(outputs["probabilities"][0], axis=0, weights=shares)
                mean = np.moveaxis(mean, -1, 0)
                mean = input_pipeline.central_part(mean, inner)  # [K, h, w]
                means.append(_pad_probabilities(mean, frame))
        return Samples(
            np.stack(labels),
            np.stack(means) if with_mean else None,
            {n: np.stack(found) for n, found in sets.items()} or None,
            np.stack(weights) if weights else None,
        )

    def _draw_set(
        self, seen: np.ndarray, count: int, key: str
    ) -> dict[str, np.ndarray]:
        """Draws a set of samples of one image [1, h, w, C]."""
        seed = image_seed(self._seed, key)
        if self.sampling == "weighted":
            return self._model.call("weighted", seen, count, [seed], about=key)
        return sampling_lib.draw_set(
            self._model,
            seen,
            count=count,
            seed=seed,
            sampling=self.sampling,
            about=key,
        )

    @property
    def ways(self) -> tuple[str, ...]:
        """How samples can go through the slices of a lesion; see `lesions.WAYS`."""
        if not (self._model.has("prior") and self._model.has("decode")):
            return ("stacked",)
        return ("shared", "smoothed", "independent", "majority", "prior_mean")

    def prior_means(
        self, keys: Sequence[str], images: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Returns the mean [L] of each image's prior, by key; images as for `draw`."""
        seen = input_pipeline.central_crop(images, self.data.eval_size)
        seen = input_pipeline.mirror_pad(np.asarray(seen), self._model.size_divisor)
        means = [
            self._model.call("prior", one[None], about=key)["mean"][0]
            for key, one in zip(keys, seen)
        ]
        return dict(zip(keys, means))

    def draw_ways(
        self,
        key: str,
        image: np.ndarray,
        count: int,
        *,
        lesion: str,
        smoothed: np.ndarray | None,
    ) -> np.ndarray:
        """Draws the samples of one slice of a lesion in all `ways`.

        Args:
            key: of the slice.
            image: [H, W, C] float32 in 0..1, the scored frame.
            count: S.
            lesion: its name. All its slices share the noise that it stands for.
            smoothed: [L] the mean of the slice's prior after smoothing.

        Returns:
            [ways, S, H, W] uint8.

        Raises:
            ValueError: the model fails on the image; the message names its key.
        """
        if self.ways == ("stacked",):
            return self.draw([key], image[None], count).labels
        seen = input_pipeline.central_crop(image[None], self.data.eval_size)
        inner = seen.shape[1:3]
        seen = input_pipeline.mirror_pad(seen, self._model.size_divisor)
        prior = self._model.call("prior", seen, about=key)
        size, minor = latents.dimensions(prior), self._model.network.outline_latent
        shared, own = (
            latents.draw_noise(
                count, size, image_seed(self._seed, name), self.sampling, minor
            )
            for name in (lesion, key)
        )
        z = latents.from_noise(prior, shared)[0]  # [S, L]
        moved = z if smoothed is None else z + (smoothed - prior["mean"][0])
        drawn = [z, moved, latents.from_noise(prior, own)[0], prior["mean"]]
        # All in one call: the U-Net runs once.
        both = np.concatenate(drawn).astype(np.float32)[None]
        labels = self._model.call("decode", seen, both, about=key)["labels"][0]
        first, second, third = (labels[i * count : (i + 1) * count] for i in range(3))
        majority = 2 * first.sum(axis=0) > count
        ways = [
            *(first, second, third),
            *(np.broadcast_to(one, first.shape) for one in (majority, labels[-1])),
        ]
        stacked = input_pipeline.central_part(np.stack(ways).astype(np.uint8), inner)
        return input_pipeline.pad_to(stacked, image.shape[:2])


class SampleFiles:
    """Takes the samples from files; see `sample_files` for their layout.

    Attributes:
        data: how examples become images of the samples' size.
        max_samples: None, as each file must hold all samples that are scored.
        sampling: "weighted" if the files hold weights, otherwise "independent".
        description: of the model, for `results.json`.
    """

    max_samples = None
    ways = ("stacked",)

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
            info: the data set whose images were sampled.
            splits: whose images may have samples.
            data: how examples become images of the samples' size.

        Raises:
            FileNotFoundError: there is no such directory.
            ValueError: a file does not belong to any image of these splits.
        """
        self.data = data
        self._num_classes = input_pipeline.num_classes(info, data)
        known = {key for split in splits for key in split_keys(info, split)}
        self._files = sample_files.find(path, known)
        first = next(iter(self._files.values()), None)
        weighted = first is not None and sample_files.has_weights(first)
        self.sampling = "weighted" if weighted else "independent"
        self.description: dict[str, Any] = {
            "name": pathlib.Path(path).resolve().name,
            "source": "samples_dir",
            "path": str(path),
            "fingerprint": sample_files.fingerprint(self._files),
        }

    def check(self, info: records.DatasetInfo) -> list[str]:
        """Returns no notes: the files are checked when they are read."""
        return []

    def has(self, keys: Sequence[str]) -> bool:
        """Returns whether there are samples for any of the keys."""
        return any(key in self._files for key in keys)

    def draw(
        self,
        keys: Sequence[str],
        images: np.ndarray,
        count: int,
        *,
        with_mean: bool = False,
        fewer: Sequence[int] = (),
    ) -> Samples:
        """Reads the first `count` samples of each image; see `SavedModel.draw`.

        Raises:
            FileNotFoundError: an image has no file.
            ValueError: a file does not hold such samples; the message names it.
        """
        del with_mean, fewer  # Files hold labels only, and the first are a set.
        settings: dict[str, Any] = {
            "size": images.shape[1:3],
            "num_classes": self._num_classes,
        }
        if self.sampling == "weighted":
            found = [
                sample_files.read_weighted(self._files, key, count=count, **settings)
                for key in keys
            ]
            labels, weights = (np.stack(column) for column in zip(*found))
            return Samples(labels, weights=weights)
        maps = [
            sample_files.read(self._files, key, count=count, **settings) for key in keys
        ]
        return Samples(np.stack(maps))

    def draw_ways(
        self,
        key: str,
        image: np.ndarray,
        count: int,
        *,
        lesion: str,
        smoothed: np.ndarray | None,
    ) -> np.ndarray:
        """Reads the samples [1, S, H, W] of one slice of a lesion."""
        del lesion, smoothed
        return self.draw([key], image[None], count).labels


def image_seed(seed: int, key: str) -> int:
    """Returns the seed of an image's samples, 31 bits from a hash of seed and key."""
    return salted_hash(key, f"samples with seed {seed}") & 0x7FFFFFFF


def split_keys(info: records.DatasetInfo, split: str) -> list[str]:
    """Returns the keys of a split in their stored order."""
    serialized = tf.data.TFRecordDataset(info.shard_paths(split))
    keys = serialized.map(lambda text: records.parse(text, info.spec)["key"])
    with records.named_errors(info, split):
        return [key.decode() for key in keys.as_numpy_iterator()]


def _pad_probabilities(mean: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Puts [K, h, w] into the middle of [H, W, K]; the rest is certain background."""
    channels = [
        input_pipeline.pad_to(channel, shape, float(label == 0))
        for label, channel in enumerate(mean)
    ]
    return np.stack(channels, axis=-1)
