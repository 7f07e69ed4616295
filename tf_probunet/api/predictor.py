"""Trained models as functions of NumPy arrays."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from tf_probunet import files
from tf_probunet.api.hypotheses import Hypotheses
from tf_probunet.api.inputs import Inputs, Seed
from tf_probunet.artifacts import pretrained as shipped
from tf_probunet.artifacts import saved_model
from tf_probunet.evaluation.metrics.representatives import representatives
from tf_probunet.predict import sampling as sampling_lib
from tf_probunet.predict.hypotheses import label_set

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Gaussian(NamedTuple):
    """Diagonal Gaussians over the latent space, one for each image.

    Attributes:
        mean: [L], or [B, L] for a batch.
        stddev: likewise.
    """

    mean: np.ndarray
    stddev: np.ndarray


class Mean(NamedTuple):
    """What many samples say together.

    Attributes:
        probabilities: [H, W, K], or [B, H, W, K] for a batch, the mean of the samples'.
        entropy: [H, W] or [B, H, W] of the mean, in nats: where the model is unsure.
        labels: [H, W] or [B, H, W] uint8, one segmentation to stand for all. It is
            decoded from the prior's mean where there is one, and otherwise the most
            probable class of each pixel.
    """

    probabilities: np.ndarray
    entropy: np.ndarray
    labels: np.ndarray


class Predictor:
    """A trained model, as a function of NumPy arrays. `pu.load` makes it.

    Every method takes one image, [H, W] or [H, W, C], or a batch, [B, H, W, C], as a
    NumPy array or a tensor. What it returns has the batch axis only if the input has.

    Values follow the model's own rule. A model of pictures takes `uint8`, or real
    numbers in 0..1. A model of CT scans in Hounsfield units takes integers or real
    numbers in those, and windows them itself. A model of pictures that were stretched
    to their own range, as `lidc_cpu` is, stretches all values but `uint8` and those in
    0..1, with a warning. Values that make no sense to the model are an error.

    Give whole frames. Where the network sees only the middle of a frame, it is cut out,
    and the rest is background.

    Attributes:
        path: the directory of the SavedModel.
        name: the kind of model, such as "prob_unet".
        class_names: the names of the labels 0, 1, ...
        size_divisor: heights and widths that the network sees are multiples of this.

    Example:
        >>> model = pu.load("lidc_cpu")
        >>> model
        Predictor('prob_unet', classes: background, lesion, frames of 64x64 to 128x128)
        >>> image = np.full([128, 128], 40, np.uint8)
        >>> samples = model.sample(image, num_samples=3, seed=1)
        >>> samples.shape, samples.dtype
        ((3, 128, 128), dtype('uint8'))
        >>> z = model.prior(image).mean
        >>> z.shape
        (7,)
        >>> model.decode(image, z[None]).shape
        (1, 128, 128)
    """

    def __init__(self, model: saved_model.LoadedModel) -> None:
        self._model = model
        self.path: pathlib.Path = model.path
        self.name: str = model.metadata["model"]
        self.class_names: list[str] = model.class_names
        self.size_divisor: int = model.size_divisor

    def sample(
        self,
        images: ArrayLike,
        num_samples: int = 16,
        seed: Seed = 0,
        sampling: str = "independent",
    ) -> np.ndarray:
        """Draws segmentations: the label maps that `run/evaluate.py` scores.

        Args:
            images: one image or a batch.
            num_samples: S, for each image.
            seed: a whole number; image b of a batch is drawn with `seed + b`. Or a
                sequence with a number for each image.
            sampling: "independent" as in the paper; or "stratified" for a model with
                latents: fewer samples then represent the distribution as well. Each of
                2 to 15 stratified samples stands for a part of the distribution; from
                16 on, each is a draw from the model. Sets are not nested: the first 4
                of 16 are not a stratified set.

        Returns:
            Label maps [S, H, W], or [B, S, H, W] for a batch, uint8.

        Raises:
            ValueError: the image, its values or another argument do not fit the model.
        """
        inputs = self._inputs(images)
        drawn = self._drawn(inputs, num_samples, seed, sampling)
        return inputs.join([inputs.labels(d["labels"]) for d in drawn])

    def probabilities(
        self,
        images: ArrayLike,
        num_samples: int = 16,
        seed: Seed = 0,
        sampling: str = "independent",
    ) -> np.ndarray:
        """Draws the same samples as `sample`, as probabilities of the classes.

        Returns:
            [S, H, W, K], or [B, S, H, W, K] for a batch, float32.
        """
        inputs = self._inputs(images)
        drawn = self._drawn(inputs, num_samples, seed, sampling)
        return inputs.join([inputs.probabilities(d["probabilities"]) for d in drawn])

    def mean(
        self,
        images: ArrayLike,
        num_samples: int = 16,
        seed: Seed = 0,
        sampling: str = "independent",
    ) -> Mean:
        """Sums up many samples: mean probabilities, entropy, and one segmentation.

        Args:
            images: one image or a batch.
            num_samples: over which the mean is taken.
            seed: as for `sample`.
            sampling: as for `sample`; "stratified" makes the mean far less noisy.

        Returns:
            `probabilities` [H, W, K], their `entropy` [H, W] in nats, which shows where
            the model is unsure, and `labels` [H, W], one segmentation to stand for all;
            each with a batch axis for a batch.
        """
        inputs = self._inputs(images)
        found = [
            self._call("mean", inputs, b, num_samples, [number])
            for b, number in enumerate(inputs.seeds(seed))
        ]
        if sampling != "independent":
            for one, drawn in zip(
                found, self._drawn(inputs, num_samples, seed, sampling)
            ):
                mean = drawn["probabilities"].mean(axis=1)  # [1, h, w, K]
                one["mean"] = mean
                one["entropy"] = special.entr(mean).sum(axis=-1)
        return Mean(
            inputs.join([inputs.probabilities(f["mean"]) for f in found]),
            inputs.join([inputs.maps(f["entropy"]) for f in found]),
            inputs.join([inputs.labels(f["labels"]) for f in found]),
        )

    def hypotheses(
        self,
        image: ArrayLike,
        count: int = 4,
        *,
        num_samples: int = 256,
        seed: int = 0,
        sampling: str | None = None,
    ) -> Hypotheses:
        """Chooses a few weighted segmentations that stand for many samples.

        Args:
            image: one image.
            count: how many to choose. There are fewer if fewer samples differ.
            num_samples: how many samples they are chosen from. A model with a fixed
                number of samples uses those.
            seed: of the samples.
            sampling: as for `sample`; by default "stratified" for a model with latents.

        Returns:
            The hypotheses, the most probable first. `plot()` draws them.

        Raises:
            ValueError: as `sample`, or `image` is a batch.

        Example:
            >>> model = pu.load("lidc_cpu")
            >>> rows, columns = np.mgrid[:128, :128]
            >>> distance = np.hypot(rows - 64, columns - 64)
            >>> lesion = np.where(distance < 6, 150, 30).astype(np.uint8)
            >>> found = model.hypotheses(lesion, 3, num_samples=64)
            >>> len(found), round(float(found.weights.sum()), 6)
            (3, 1.0)
        """
        inputs = self._inputs(image)
        if inputs.is_batch:
            raise ValueError(
                f"image has shape {np.shape(image)}; expected one image, [H, W] or "
                "[H, W, C]"
            )
        wanted = sampling_lib.num_samples(self._model, num_samples)
        sampling = sampling or sampling_lib.default_sampling(self._model)
        drawn = next(self._drawn(inputs, wanted, seed, sampling))["labels"][0]
        chosen = representatives(drawn, count, labels=label_set(self._model))
        return Hypotheses(
            image=inputs.frames[0],
            labels=inputs.labels(drawn[None, chosen.indices]),
            weights=chosen.weights,
            explained=chosen.explained,
            num_samples=wanted,
        )

    def prior(self, images: ArrayLike) -> Gaussian:
        """Computes the prior P(z | image) of a model with latents.

        Args:
            images: one image or a batch.

        Returns:
            `mean` and `stddev` of a diagonal Gaussian, [L], or [B, L] for a batch.
        """
        inputs = self._inputs(images)
        found = [self._call("prior", inputs, b) for b in range(len(inputs.seen))]
        return _gaussian(inputs, found)

    def posterior(self, images: ArrayLike, labels: ArrayLike) -> Gaussian:
        """Computes the posterior Q(z | image, labels) of a model with latents.

        Args:
            images: one image or a batch.
            labels: [H, W], or [B, H, W] for a batch.

        Returns:
            `mean` and `stddev` as for `prior`.
        """
        inputs = self._inputs(images)
        maps = inputs.seen_labels(labels)
        found = [self._call("posterior", inputs, b, m) for b, m in enumerate(maps)]
        return _gaussian(inputs, found)

    def decode(self, images: ArrayLike, z: ArrayLike) -> np.ndarray:
        """Decodes given latents, for a walk through the latent space.

        Args:
            images: one image or a batch.
            z: [S, L], or [B, S, L] for a batch.

        Returns:
            Label maps [S, H, W] or [B, S, H, W], uint8.
        """
        self._require("decode")
        inputs = self._inputs(images)
        z = np.asarray(z, np.float32)
        z = z if inputs.is_batch else z[None]
        size = self._model.num_latents
        if z.ndim != 3 or len(z) != len(inputs.seen) or z.shape[2] != size:
            batch = f"{len(inputs.seen)}, " if inputs.is_batch else ""
            shape = z.shape if inputs.is_batch else z.shape[1:]
            raise ValueError(f"z has shape {shape}; expected [{batch}samples, {size}]")
        found = [self._call("decode", inputs, b, one[None]) for b, one in enumerate(z)]
        return inputs.join([inputs.labels(f["labels"]) for f in found])

    def log_likelihood(
        self,
        images: ArrayLike,
        labels: ArrayLike,
        num_samples: int = 16,
        seed: Seed = 0,
    ) -> np.ndarray:
        """Estimates log p(labels | image) by importance sampling, in nats.

        The estimate covers what the network sees of a frame.

        Args:
            images: one image or a batch.
            labels: [H, W], or [B, H, W] for a batch.
            num_samples: latents per image; more make the lower bound tighter.
            seed: as for `sample`.

        Returns:
            A number, or [B] for a batch.
        """
        inputs = self._inputs(images)
        inputs.refuse_border()
        maps, numbers = inputs.seen_labels(labels), inputs.seeds(seed)
        found = [
            self._call("log_likelihood", inputs, b, one, num_samples, [number])
            for b, (one, number) in enumerate(zip(maps, numbers))
        ]
        return inputs.join([f["log_likelihood"][0] for f in found])

    def __repr__(self) -> str:
        data = self._model.data
        if data.eval_size:
            sees, frame = data.eval_size, data.frame_size
            size = f"frames of {sees}x{sees}"
            size += f" to {frame}x{frame}" if frame > sees else ""
        else:
            size = "images of any size"
        return (
            f"Predictor({self.name!r}, classes: {', '.join(self.class_names)}, {size})"
        )

    def _inputs(self, images: ArrayLike) -> Inputs:
        return Inputs(images, self._model)

    def _drawn(
        self, inputs: Inputs, num_samples: int, seed: Seed, sampling: str
    ) -> Iterator[dict[str, np.ndarray]]:
        # One at a time: convolutions round differently with the batch size.
        for b, number in enumerate(inputs.seeds(seed)):
            yield sampling_lib.draw_set(
                self._model,
                inputs.seen[b : b + 1],
                count=num_samples,
                seed=number,
                sampling=sampling,
                about=inputs.name(b),
            )

    def _call(
        self, function: str, inputs: Inputs, b: int, *tensors: object
    ) -> dict[str, np.ndarray]:
        self._require(function)
        about = inputs.name(b)
        return self._model.call(function, inputs.seen[b : b + 1], *tensors, about=about)

    def _require(self, function: str) -> None:
        if not self._model.has(function):
            raise ValueError(
                f"{self.path}: the model {self.name} has no {function}, expected one "
                "with latents"
            )


def load(path_or_name: files.Path) -> Predictor:
    """Loads a trained model.

    Args:
        path_or_name: the directory of a SavedModel that `run/export.py` or
            `model.save` wrote, or the name of a model that comes with the package.

    Returns:
        A function of NumPy arrays, with everything that the model can do.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the SavedModel is damaged or was written by something else.

    Example:
        >>> pu.load("lidc_cpu").name
        'prob_unet'
    """
    return Predictor(saved_model.load(find(path_or_name)))


def pretrained(name: str = "lidc_cpu") -> Predictor:
    """Loads a model that comes with the package.

    Args:
        name: which; "lidc_cpu" outlines lung lesions in CT crops of 128x128 pixels.

    Raises:
        FileNotFoundError: there is no model of that name.

    Example:
        >>> pu.pretrained("lidc_cpu").class_names
        ['background', 'lesion']
    """
    return Predictor(saved_model.load(shipped.model_path(name)))


def find(path_or_name: files.Path) -> pathlib.Path:
    """Returns the directory of a SavedModel; see `load`."""
    path = pathlib.Path(path_or_name)
    if path.exists():
        return path
    if str(path_or_name) in shipped.names():
        return shipped.model_path(str(path_or_name))
    names = ", ".join(shipped.names()) or "there are none here"
    raise FileNotFoundError(
        f"{path}: no such directory, expected a SavedModel or the name of a model that "
        f"comes with the package ({names})"
    )


def _gaussian(inputs: Inputs, found: list[dict[str, np.ndarray]]) -> Gaussian:
    return Gaussian(*(inputs.join([f[n][0] for f in found]) for n in Gaussian._fields))
