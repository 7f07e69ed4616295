"""The models with keyword arguments and the habits of Keras."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import files, seeds
from tf_probunet import models as models_lib
from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.models import (
    dropout_unet,
    hpu_net,
    image2image_vae,
    m_heads,
    mixture,
    prob_unet,
    ssn,
    unet,
)
from tf_probunet.models.base import Batch, SegmentationModel


class _KerasHabits(SegmentationModel):
    """Lets a model take keyword arguments, arrays, integer seeds and (x, y) tuples."""

    registry_name: str
    _fitted = _evaluated = ""

    def __init__(
        self,
        num_classes: int = 2,
        image_channels: int = 1,
        *,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        """Builds the model with random weights.

        Args:
            num_classes: K, of the label maps.
            image_channels: C.
            seed: of the initial weights and of everything random in training.
            **settings: the other fields of `config.ModelConfig`, which are also flags
                of `run/train.py`. The defaults are the paper's.
        """
        config = ModelConfig(
            name=self.registry_name,
            num_classes=num_classes,
            image_channels=image_channels,
            **settings,
        )
        super().__init__(models_lib.with_defaults(config), seed)
        self.initialize()

    def compile(self, optimizer: Any = "adam", *args: Any, **kwargs: Any) -> None:
        """Sets the optimizer; the loss is the model's own.

        Args:
            optimizer: as in Keras.
            *args: as `**kwargs`.
            **kwargs: `weight_decay`, `gradient_clip_norm`, `kl_warmup_steps`,
                `energy_warmup_steps` and further arguments of Keras.

        Raises:
            ValueError: a loss or metrics are given.
        """
        for name in ("loss", "metrics"):
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"{name} is {kwargs[name]!r}, expected none: the model has its own "
                    "loss and reports its terms"
                )
        super().compile(optimizer, *args, **kwargs)

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Trains on arrays or a data set; arguments as in Keras."""
        self._check(x, y)
        kind = _kind((x, y))
        if kind != self._fitted:  # Keras would merge old and new shapes into unknown.
            self._fitted, self.train_function = kind, None
        return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Computes the objective of arrays or a data set; arguments as in Keras."""
        self._check(x, y)
        kind = _kind((x, y))
        if kind != self._evaluated:
            self._evaluated, self.test_function = kind, None
        return super().evaluate(x, y, *args, **kwargs)

    def sample(
        self,
        image: Any,
        num_samples: Any = 16,
        seed: Any = 0,
        sampling: str = "independent",
    ) -> tf.Tensor:
        """Draws segmentations.

        Args:
            image: [B, H, W, C], or [B, H, W] with one channel; `uint8`, or real numbers
                in 0..1.
            num_samples: S, for each image.
            seed: a whole number; or int32[2], or int32[B, 2] with one for each image.
            sampling: "independent", or "stratified" for a model with latents.

        Returns:
            Logits, [B, S, H, W, K] float32. Their argmax is the label maps.
        """
        if sampling not in self.samplings:
            raise ValueError(
                f"sampling is {sampling!r}, expected one of "
                f"{', '.join(self.samplings)} for {self.name}"
            )
        if isinstance(num_samples, int) and num_samples < 1:
            raise ValueError(
                f"num_samples is {num_samples}, expected a whole number of at least 1"
            )
        # Models with independent samples only do not take the argument.
        way = {} if sampling == "independent" else {"sampling": sampling}
        model: Any = super()  # One of the models, whose `sample` is not abstract.
        return model.sample(self._images(image), num_samples, _seed(seed), **way)

    def objective(
        self,
        batch: Any,
        seed: Any = 0,
        kl_weight: Any = 1.0,
        energy_factor: Any = 1.0,
    ) -> dict[str, tf.Tensor]:
        """Computes the terms of the loss, averaged over the batch.

        Args:
            batch: a tuple of images and masks, or a dict of `image` and `labels`. Masks
                are [B, H, W], or [B, G, H, W] with those of G graders.
            seed: a whole number, or int32[2].
            kl_weight: factor of the KL divergence besides beta.
            energy_factor: factor of the terms on samples besides their weights.

        Returns:
            Scalars by name, among them `loss`, which training minimises.
        """
        return super().objective(
            self._batch(batch), _seed(seed), kl_weight, energy_factor
        )

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Makes one step; `fit` calls it."""
        return super().train_step(self._batch(data))

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Computes the objective on a batch that is not learned from."""
        return super().test_step(self._batch(data))

    def save(
        self,
        filepath: files.Path,
        overwrite: bool = True,
        options: Any = None,
        *,
        class_names: Sequence[str] | None = None,
    ) -> pathlib.Path:
        """Writes a SavedModel, for `pu.load` and every command of the package.

        Args:
            filepath: a directory.
            overwrite: replace a SavedModel that is there; nothing else is replaced.
            options: not used; callbacks of Keras give it.
            class_names: of the labels 0, 1, ..., the background first.

        Returns:
            The directory.

        Raises:
            ValueError: there is something in the way, or the number of names is wrong.
        """
        from tf_probunet.export import export

        path = pathlib.Path(filepath)
        if path.suffix in (".keras", ".h5"):
            raise ValueError(
                f"{path}: expected a directory for a SavedModel; save_weights writes "
                "the weights alone"
            )
        number = self.config.num_classes
        names = list(class_names or _class_names(number))
        if len(names) != number:
            raise ValueError(f"class_names are {names}, expected {number} of them")
        return export.save(
            self,
            _Origin(self.config, names),
            path,
            validation=None,
            overwrite=overwrite,
        )

    def _check(self, x: Any, y: Any) -> None:
        """Checks the values of arrays; those of data sets are not known yet.

        Raises:
            ValueError: images or masks hold values that make no sense.
        """
        if y is not None:
            low, high = np.min(x), np.max(x)
            if np.asarray(x).dtype != np.uint8 and not 0 <= low <= high <= 1:
                raise ValueError(
                    f"images hold values from {low:g} to {high:g}, expected uint8, or "
                    "real numbers from 0 to 1"
                )
            low, high = np.min(y), np.max(y)
            most = self.config.num_classes - 1
            ignored = self.config.ignore_label
            if low < 0 or (high > most and high != ignored):
                raise ValueError(
                    f"masks hold values from {low:g} to {high:g}, expected labels 0 to "
                    f"{most}"
                )

    def _batch(self, data: Any) -> Batch:
        if isinstance(data, dict):
            image, labels = data["image"], data["labels"]
        elif isinstance(data, (tuple, list)) and len(data) == 2:
            image, labels = data
        else:
            raise ValueError(
                f"a batch is a {type(data).__name__}, expected a tuple of images and "
                "masks, or a dict of `image` and `labels`"
            )
        image = self._images(image)
        labels = tf.convert_to_tensor(labels)
        if labels.shape.rank == 4 and labels.shape[-1] == 1 != image.shape[2]:
            labels = labels[..., 0]  # Masks with an axis for one channel.
        batch = {"image": image, "labels": tf.cast(labels, tf.int32)}
        if isinstance(data, dict) and "grader_mask" in data:
            batch["grader_mask"] = tf.cast(data["grader_mask"], tf.bool)
        return batch

    def _images(self, image: Any) -> tf.Tensor:
        image = tf.convert_to_tensor(image)
        if image.dtype == tf.uint8:
            image = tf.cast(image, tf.float32) / 255.0
        image = tf.cast(image, tf.float32)
        if image.shape.rank == 3 and self.config.image_channels == 1:
            image = image[..., None]
        return image


class ProbUNet(_KerasHabits, prob_unet.ProbUNet):
    """The Probabilistic U-Net (Kohl et al., 2018), to be trained on your own arrays.

    Args:
        num_classes: K, of the label maps.
        image_channels: C.
        seed: of the initial weights and of everything random in training.
        **settings: `base_channels=32`, `num_scales=5`, `latent_dim=6`, `beta=1.0` and
            the other fields of `config.ModelConfig`. The defaults are the paper's.

    Train it like any Keras model: `compile`, then `fit` on images and masks, as arrays
    or as a `tf.data.Dataset` of such tuples. Images are [B, H, W, C], `uint8` or in
    0..1; heights and widths are multiples of 2^(num_scales - 1). Masks are [B, H, W],
    or [B, G, H, W] with those of G graders. `save` writes a SavedModel for `pu.load`;
    `save_weights` and `load_weights` are those of Keras.

    Example:
        >>> model = pu.ProbUNet(num_classes=2, image_channels=1, base_channels=4,
        ...                     num_scales=2, convs_per_block=1)
        >>> images = np.random.default_rng(0).random([8, 16, 16, 1])
        >>> masks = (images[..., 0] > 0.5).astype(int)
        >>> model.compile(optimizer="adam")
        >>> history = model.fit(images, masks, batch_size=4, epochs=1, verbose=0)
        >>> sorted(history.history)[:3]
        ['cross_entropy', 'gradient_norm', 'kl']
        >>> model.sample(images[:2], num_samples=3, seed=1).shape
        TensorShape([2, 3, 16, 16, 2])
        >>> terms = model.objective((images, masks), seed=1)
        >>> bool(terms["loss"] > 0)
        True
    """

    registry_name = "prob_unet"


class UNet(_KerasHabits, unet.UNet):
    """The deterministic U-Net: one segmentation per image. Used like `ProbUNet`."""

    registry_name = "unet"


class DropoutUNet(_KerasHabits, dropout_unet.DropoutUNet):
    """The U-Net with dropout that stays on when it samples. Used like `ProbUNet`.

    Args:
        **settings: `dropout_rate=0.5`, and those of `ProbUNet`.
    """

    registry_name = "dropout_unet"


class MHeads(_KerasHabits, m_heads.MHeads):
    """A U-Net with several heads; sample i is head i. Used like `ProbUNet`.

    Args:
        **settings: `num_heads=16`, and those of `ProbUNet`.
    """

    registry_name = "m_heads"


class Image2ImageVAE(_KerasHabits, image2image_vae.Image2ImageVAE):
    """The paper's fourth baseline: the latent enters at the input. See `ProbUNet`."""

    registry_name = "image2image_vae"


class Mixture(_KerasHabits, mixture.Mixture):
    """A mixture of stochastic experts with explicit weights. Used like `ProbUNet`.

    Args:
        **settings: `num_experts=4`, `expert_samples=4`, and those of `ProbUNet`.
    """

    registry_name = "mixture"


class HPUNet(_KerasHabits, hpu_net.HPUNet):
    """The Hierarchical Probabilistic U-Net: latent maps. Used like `ProbUNet`.

    Args:
        **settings: `num_latent_scales=3`, `hierarchy_loss="geco"`, and those of
            `ProbUNet`.
    """

    registry_name = "hpu_net"


class SSN(_KerasHabits, ssn.SSN):
    """The Stochastic Segmentation Network: Gaussian logits. Used like `ProbUNet`.

    Args:
        **settings: `covariance_rank=10`, `logit_samples=20`, and those of `ProbUNet`.
    """

    registry_name = "ssn"


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Says what a run directory says of a model that has none."""

    network: ModelConfig
    class_names: list[str]

    def config(self) -> Config:
        return Config(model=self.network, data=DataConfig(crop_size=0, eval_size=0))

    def history(self) -> list[dict[str, Any]]:
        return []

    def dataset(self) -> dict[str, Any]:
        return {
            "name": "arrays",
            "fingerprint": "unknown",
            "class_names": self.class_names,
            "intensity": "uint8",
            "num_graders": 1,  # Or more: `fit` takes any number.
            "preparation": {},
            "counts": {},
        }


def _class_names(number: int) -> list[str]:
    if number == 2:
        return ["background", "foreground"]
    return ["background", *(f"class {label}" for label in range(1, number))]


def _kind(data: Any) -> str:
    """Returns what Keras traces its steps for: element types, without their number."""
    if isinstance(data, tf.data.Dataset):
        return str(data.element_spec)
    if isinstance(data, tuple):
        return str([_kind(part) for part in data])
    return f"{getattr(data, 'dtype', None)} {np.shape(data)[1:]}"


def _seed(seed: Any) -> tf.Tensor:
    """Returns a stateless seed, for a whole number as well."""
    if isinstance(seed, (int, np.integer)):
        return seeds.root(int(seed))
    seed = tf.convert_to_tensor(seed)
    return seeds.root(seed) if seed.shape.rank == 0 else tf.cast(seed, tf.int32)
