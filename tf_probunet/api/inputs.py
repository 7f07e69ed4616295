"""From arrays as a user has them to what a network sees, and back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

import numpy as np

from tf_probunet.artifacts import saved_model
from tf_probunet.dataset import input_pipeline
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import intensity

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_MAX_SEED = 2**31 - 1

Seed = Union[int, Sequence[int]]


class Inputs:
    """Images, checked and mapped to 0..1, and the way back from what is seen of them.

    Attributes:
        is_batch: whether there was a batch axis.
        frames: [B, H, W, C] float32 in 0..1.
        seen: [B, h, w, C], the part that the network sees.
    """

    def __init__(self, images: ArrayLike, model: saved_model.LoadedModel) -> None:
        images = np.asarray(images)
        if images.ndim not in (2, 3, 4) or not images.size:
            raise ValueError(
                f"images have shape {images.shape}; expected [H, W], [H, W, C] or "
                "[B, H, W, C]"
            )
        self.is_batch = images.ndim == 4
        if images.ndim == 2:
            images = images[..., None]
        batch = images if self.is_batch else images[None]
        self._model = model
        self._check_size(batch.shape[1:3])
        self.frames = np.stack(
            [self._normalised(b, image) for b, image in enumerate(batch)]
        )
        seen = input_pipeline.central_crop(self.frames, model.data.eval_size)
        self._part = seen.shape[1:3]
        # Whole images of any size get a border, as in the evaluation.
        self.seen = input_pipeline.mirror_pad(seen, model.size_divisor)

    def refuse_border(self) -> None:
        """Refuses images that had to be mirrored at their border.

        Raises:
            ValueError: the result would count the border too.
        """
        if self.seen.shape[1:3] != self._part:
            height, width = self._part
            divisor = self._model.size_divisor
            raise ValueError(
                f"images are {height}x{width}, but the likelihood of the model in "
                f"{self._model.path} needs multiples of {divisor}"
            )

    def name(self, b: int) -> str:
        """Returns what image b is called in messages."""
        return f"image {b}" if self.is_batch else "image"

    def seeds(self, seed: Seed) -> list[int]:
        """Returns a seed for each image."""
        number = len(self.seen)
        if np.asarray(seed).dtype.kind not in "iu":
            raise ValueError(f"seed is {seed}, expected whole numbers")
        given = np.asarray(seed).tolist()
        if isinstance(given, list):
            found = [int(one) for one in given]
        else:
            found = [int(given) + b for b in range(number)]
        if len(found) != number:
            raise ValueError(
                f"{len(found)} seeds for {number} images, expected one for all or one "
                "for each"
            )
        for one in found:
            if not -_MAX_SEED - 1 <= one <= _MAX_SEED:
                raise ValueError(f"seed is {one}, expected 32 bits")
        return found

    def join(self, arrays: list[np.ndarray]) -> np.ndarray:
        """Joins the results of all images; one image has no batch axis."""
        return np.stack(arrays) if self.is_batch else arrays[0]

    def maps(self, found: np.ndarray) -> np.ndarray:
        """Puts the maps [1, ..., h, w] of one image back into its frame."""
        inner = input_pipeline.central_part(found[0], self._part)
        return input_pipeline.pad_to(inner, self.frames.shape[1:3])

    def labels(self, found: np.ndarray) -> np.ndarray:
        """Puts the label maps [1, ..., h, w] of one image back into its frame."""
        return self.maps(found.astype(np.uint8))

    def probabilities(self, found: np.ndarray) -> np.ndarray:
        """Does so with [1, ..., h, w, K]; what is not seen is certainly class 0."""
        frame = self.frames.shape[1:3]
        inner = input_pipeline.central_part(np.moveaxis(found[0], -1, 0), self._part)
        channels = [
            input_pipeline.pad_to(channel, frame, float(label == 0))
            for label, channel in enumerate(inner)
        ]
        return np.stack(channels, axis=-1)

    def seen_labels(self, labels: ArrayLike) -> np.ndarray:
        """Cuts label maps as the images were cut: [B, 1, h, w] int32."""
        maps = np.asarray(labels)
        maps = maps if self.is_batch else maps[None]
        if maps.shape != self.frames.shape[:3]:
            expected = self.frames.shape[0 if self.is_batch else 1 : 3]
            raise ValueError(
                f"labels have shape {np.shape(labels)}; expected {expected}, as the "
                "images"
            )
        seen = input_pipeline.central_crop(maps[..., None], self._model.data.eval_size)
        seen = input_pipeline.mirror_pad(seen, self._model.size_divisor)
        return seen[:, None, ..., 0].astype(np.int32)

    def _check_size(self, shape: tuple[int, int]) -> None:
        model, size = self._model, f"images are {shape[0]}x{shape[1]}"
        sees = model.data.eval_size
        if not sees:
            return
        if min(shape) < sees:
            raise ValueError(
                f"{size}, but the model in {model.path} expects at least {sees}x{sees}"
            )
        stored = model.dataset.get("image_shape", [0, 0, 0])
        frame = max(model.data.frame_size, *stored[:2])
        if max(shape) > frame:
            raise ValueError(
                f"{size}, but the model in {model.path} expects at most "
                f"{frame}x{frame}, with what matters in the middle; cut that out"
            )

    def _normalised(self, b: int, image: np.ndarray) -> np.ndarray:
        """Maps [H, W, C] to 0..1, as `run/predict.py` does."""
        name = self.name(b)
        if image.dtype.kind not in "uif":
            raise ValueError(f"{name} holds {image.dtype}, expected numbers")
        if not np.isfinite(image).all():
            raise ValueError(f"{name} has values that are not finite")
        given = InputImage(
            name=name,
            source=name,
            kind="array",
            pixels=image.astype(np.float32),
            values=value_kind(image.dtype),
        )
        whole = intensity.CropConfig()
        low, high = image.min(), image.max()
        is_fraction = image.dtype.kind == "f" and 0 <= low < high <= 1
        if is_fraction and self._model.dataset["intensity"] == "hu":
            warnings.warn(
                f"{name}: values from {low:g} to {high:g} are taken for Hounsfield "
                "units, from which the model has learned",
                stacklevel=5,
            )
        if intensity.is_rescaled(given, self._model, whole):
            warnings.warn(
                f"{name}: {image.dtype} values from {low:g} to {high:g} become 0 to 1, "
                "as those of each training image did; uint8 and real numbers from 0 to "
                "1 are kept",
                stacklevel=5,
            )
        pixels = intensity.fit_channels(given, self._model)
        return intensity.normalise(pixels, given, self._model, whole)


def value_kind(dtype: np.dtype) -> str:
    """Returns what an array's values are taken for, as in files of arrays."""
    if dtype.kind == "f":
        return "float"
    return str(dtype) if dtype in (np.uint8, np.uint16) else "hu"
