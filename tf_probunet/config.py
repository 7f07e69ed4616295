"""Configurations: frozen dataclasses that check their values and convert to JSON.

Each field carries the help text and the limits of its command-line flag. Nothing here
imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Sequence
from typing import Any, ClassVar, Optional, TypeVar, Union

from tf_probunet import files
from tf_probunet.models import registry

TASKS = ("plain", "switched")
# How the samples of an image are drawn; see docs/evaluation.md.
SAMPLINGS = ("independent", "stratified")
# The settings of a model that only its samples depend on, not its training.
SAMPLING_SETTINGS = ("outline_stddev", "average_symmetries")
# The pixel size that is assumed for LIDC-IDRI slices that keep the size of their scan,
# which is between 0.46 mm and the second number.
NATIVE_LIDC_MM = 0.7
COARSEST_LIDC_MM = 0.98

# Far above any real network or data set. A larger value is a typing error or comes from
# a damaged file, and would exhaust the memory much later.
MAX_SIDE = 2**15
MAX_SIZE_DIVISOR = 2**12
MAX_SAMPLES = 2**12  # Of one image.
_MAX_CHANNELS = 2**13
_MAX_INT = 2**31 - 1  # TensorFlow's limit, for integers that have none of their own.


_Number = TypeVar("_Number", int, float)

INTS = tuple[int, ...]  # The type of a list of numbers, such as 1,4,8,16.
SIZE = Union[int, tuple[int, int]]  # The side of a square, or a height and a width.


def field(
    default: Any,
    text: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Sequence[str] | None = None,
    flag: str | None = None,
) -> Any:
    """Declares a setting of a `Checked` dataclass.

    Args:
        default: its default value.
        text: the help text of its flag.
        at_least: the smallest allowed value.
        at_most: the largest allowed value.
        below: all values must be less than this.
        choices: the allowed values.
        flag: the name of its flag, if it is not the name of the field.
    """
    metadata: dict[str, Any] = {"help": text}
    limits = {
        "at_least": at_least,
        "at_most": at_most,
        "below": below,
        "choices": choices,
        "flag": flag,
    }
    metadata.update({k: v for k, v in limits.items() if v is not None})
    return dataclasses.field(default=default, metadata=metadata)


@functools.cache
def field_types(config_class: type) -> dict[str, tuple[Any, bool]]:
    """Returns the type of each field of a dataclass, and whether it may be None.

    A field that may be None is annotated as `Optional[int]`: Python 3.9 can't evaluate
    `int | None`.
    """
    types: dict[str, tuple[Any, bool]] = {}
    for name, hint in typing.get_type_hints(config_class).items():
        if hint == SIZE:
            types[name] = (SIZE, False)
            continue
        is_list = typing.get_origin(hint) is tuple
        alternatives = (not is_list and typing.get_args(hint)) or (hint,)
        given = [kind for kind in alternatives if kind is not type(None)]
        types[name] = (given[0], len(given) < len(alternatives))
    return types


@dataclasses.dataclass(frozen=True)
class Checked:
    """Base class of dataclasses that check their fields against types and limits.

    Attributes:
        DROPPED: settings that only earlier versions had, each with the value at which
            they did what this version does.
    """

    DROPPED: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        own: type = type(self)
        types = field_types(own)
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            expected, may_be_none = types[setting.name]
            if expected is float and type(value) is int:
                value = float(value)
                object.__setattr__(self, setting.name, value)
            if expected == SIZE:
                value = _size(value)
                object.__setattr__(self, setting.name, value)
            if value is not None or not may_be_none:
                _check(setting, expected, value)

    @classmethod
    def without_dropped(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings that this version knows, to read a trained model.

        A setting that only shaped the training may have had any value.
        """
        return {k: v for k, v in settings.items() if k not in cls.DROPPED}


def _check(setting: dataclasses.Field, expected: Any, value: Any) -> None:
    limits = setting.metadata
    if expected == SIZE:
        _check_size(setting, value)
        return
    if expected == INTS:
        _check_integers(setting, value)
        return
    if type(value) is not expected:
        _refuse(setting, value, expected.__name__)
    if expected is float and not math.isfinite(value):
        _refuse(setting, value, "a finite number")
    if "at_least" in limits and value < limits["at_least"]:
        _refuse(setting, value, f"at least {limits['at_least']}")
    if "below" in limits:
        if value >= limits["below"]:
            _refuse(setting, value, f"below {limits['below']}")
    elif "at_most" in limits or expected is int:
        most = limits.get("at_most", _MAX_INT)
        if value > most:
            _refuse(setting, value, f"at most {most}")
    if "choices" in limits and value not in limits["choices"]:
        _refuse(setting, value, f"one of {', '.join(limits['choices'])}")


def _check_integers(setting: dataclasses.Field, values: Any) -> None:
    least, most = (setting.metadata[name] for name in ("at_least", "at_most"))
    if (
        type(values) is not tuple
        or not values
        or not all(type(value) is int and least <= value <= most for value in values)
    ):
        _refuse(setting, values, f"numbers from {least} to {most}")


def _size(value: Any) -> Any:
    """Returns a square's side for two equal ones, and a tuple for a list of a file."""
    if isinstance(value, (list, tuple)):
        value = tuple(value)
        return value[0] if len(value) == 2 and value[0] == value[1] else value
    return value


def _check_size(setting: dataclasses.Field, value: Any) -> None:
    if type(value) is int:
        _check(setting, int, value)
    elif type(value) is not tuple or len(value) != 2:
        _refuse(setting, value, "one number, or a height and a width")
    else:
        for side in value:
            if type(side) is not int or not 1 <= side <= setting.metadata["at_most"]:
                most = setting.metadata["at_most"]
                _refuse(setting, value, f"a height and a width from 1 to {most}")


def sides(size: SIZE) -> tuple[int, int]:
    """Returns the height and the width; both are 0 for the whole image."""
    return (size, size) if isinstance(size, int) else size


def _refuse(setting: dataclasses.Field, value: Any, expected: str) -> None:
    name = setting.metadata.get("flag", setting.name)
    raise ValueError(f"{name} is {value!r}, expected {expected}")


@dataclasses.dataclass(frozen=True)
class ModelConfig(Checked):
    """A network. The defaults are the paper's for LIDC.

    If `beta` or `latent_dim` is None, the model's own default is used.
    """

    DROPPED = {"free_bits": 0.0}

    name: str = field(
        "prob_unet",
        "which model to train",
        choices=tuple(registry.MODELS),
        flag="model",
    )
    num_classes: int = field(2, "classes of the label maps", at_least=2, at_most=256)
    image_channels: int = field(1, "channels of the image", at_least=1, at_most=256)
    ignore_label: Optional[int] = field(
        None, "label of pixels that are not scored", at_least=0, at_most=255
    )
    switched: bool = field(False, "whether the classes are those of the switched task")
    base_channels: int = field(
        32,
        "channels at the finest scale; they double at each down-sampling",
        at_least=1,
        at_most=_MAX_CHANNELS,
    )
    num_scales: int = field(
        5,
        "number of resolutions in the U-Net",
        at_least=1,
        at_most=12,
    )
    convs_per_block: int = field(
        3, "3x3 convolutions per block", at_least=1, at_most=100
    )
    latent_dim: Optional[int] = field(
        None,
        "dimensions of the latent space (default: the model's own)",
        at_least=1,
        at_most=4096,
    )
    input_pooling: int = field(
        1,
        "average the image over squares with this side before the U-Net, and enlarge "
        "its features again, which makes the U-Net cheaper; losses take one label per "
        "square. 1 for none",
        at_least=1,
        at_most=64,
    )
    latent_pooling: int = field(
        1,
        "prob_unet, image2image_vae: average the inputs of the prior and posterior "
        "nets over squares with this side, which makes the nets cheaper; 1 for none",
        at_least=1,
        at_most=64,
    )
    beta: Optional[float] = field(
        None, "weight of the KL divergence (default: the model's own)", at_least=0
    )
    elbo_weight: float = field(
        1.0,
        "weight of the model's own loss: the evidence lower bound, or the "
        "cross-entropy of a model without latents; 0 to train on the energy distance "
        "alone",
        at_least=0,
    )
    energy_weight: float = field(
        0.0,
        "weight of the energy distance between samples and graders; the model's own "
        "loss is in nats per image. 0 to leave it out",
        at_least=0,
    )
    energy_samples: int = field(
        8,
        "samples per image for the energy distance (m_heads always takes all its "
        "heads, unet its one segmentation)",
        at_least=1,
    )
    energy_stride: int = field(
        1,
        "prob_unet: decode these samples at one pixel of each square with this side, "
        "which makes them cheaper; 1 for all pixels",
        at_least=1,
        at_most=64,
    )
    energy_noise: str = field(
        "stratified",
        "prob_unet, image2image_vae: spread the latents of these samples over the "
        "prior, or draw them independently",
        choices=SAMPLINGS,
    )
    energy_overlap: str = field(
        "product",
        "soft intersection of two samples: the sum over pixels of the product of "
        "their probabilities, or of the smaller one (min), which gives crisper samples",
        choices=("product", "min"),
    )
    energy_epsilon: float = field(
        1e-3,
        "number of pixels: for the energy distance, a class with far fewer is absent. "
        "A larger number lets soft samples get rid of a class bit by bit",
        at_least=1e-6,
    )
    segmentation_weight: float = field(
        0.0,
        "switched task: weight of the cross-entropy of the samples for the energy "
        "distance, with every new class counted as its old one; 0 to leave it out",
        at_least=0,
    )
    presence_weight: float = field(
        0.0,
        "weight of the squared difference between the share of these samples that mark "
        "anything and the share of the graders who do; 0 to leave it out",
        at_least=0,
    )
    mode_weight: float = field(
        0.0,
        "switched task: weight of the chi-squared divergence between the frequencies "
        "of the 32 modes in these samples and their probabilities, and of what samples "
        "leave undecided; 0 to leave both out",
        at_least=0,
    )
    class_balance: float = field(
        0.0,
        "weigh each pixel in the cross-entropy by the frequency of its class in the "
        "batch to the power of minus this number; 0 for equal weights, 1 for equal "
        "weights of all classes",
        at_least=0,
        at_most=1,
    )
    comb_channels: int = field(
        0,
        "prob_unet, image2image_vae: channels of the convolutions that join features "
        "and latent; 0 for base_channels",
        at_least=0,
        at_most=_MAX_CHANNELS,
    )
    outline_stddev: float = field(
        0.0,
        "prob_unet: draw the outlines of a sample from the network's probabilities: "
        "each sample adds a random number with this standard deviation to the logits "
        "of the foreground; 0 for the most probable outline, 1.7 for what the "
        "probabilities say",
        at_least=0,
        at_most=1.8,
    )
    average_symmetries: bool = field(
        False,
        "prob_unet: in samples, average the U-Net's features over the eight symmetries "
        "of the square. It is for images without an upper and a lower side, and makes "
        "the U-Net eight times as expensive; training does not change",
    )
    learned: str = field(
        "all",
        "which weights learn: all, or those of the posterior net alone, to fit it to a "
        "model that was trained on the energy distance",
        choices=("all", "posterior"),
    )
    initializer: str = field(
        "orthogonal",
        "initialisation of the kernels",
        choices=("orthogonal", "he_normal"),
    )
    fixed_prior: bool = field(
        False, "prob_unet: standard normal prior instead of a prior net (ablation)"
    )
    prior_stddev: float = field(
        1.0,
        "prob_unet with fixed_prior: standard deviation of the prior; with a larger "
        "one, samples differ more from the start",
        at_least=1e-3,
        at_most=1e3,
    )
    posterior_sees_image: bool = field(
        True, "prob_unet: the posterior net sees the image too (off: ablation)"
    )
    injection: str = field(
        "end",
        "prob_unet: where the latent enters the U-Net (start: ablation)",
        choices=("end", "start"),
    )
    prior_components: int = field(
        1,
        "prob_unet: Gaussians in the prior; more than 1 make it a mixture, so that a "
        "sample can choose between separate kinds of segmentations",
        at_least=1,
        at_most=64,
    )
    kl_samples: int = field(
        16,
        "prob_unet with a mixture prior: latents per grader for the estimate of the "
        "KL divergence, which has no closed form",
        at_least=1,
        at_most=4096,
    )
    num_latent_scales: int = field(
        3,
        "hpu_net: scales of the decoder that have latents, from the coarsest on",
        at_least=1,
        at_most=12,
    )
    hierarchy_loss: str = field(
        "geco",
        "hpu_net: geco keeps the cross-entropy of hard pixels at --pixel_nats and "
        "minimises the KL divergence; elbo is the evidence lower bound with --beta",
        choices=("geco", "elbo"),
    )
    hardest_share: float = field(
        0.02,
        "hpu_net with geco: share of the pixels that are drawn among the hardest; 1 "
        "for all pixels",
        at_least=1e-6,
        at_most=1,
    )
    pixel_nats: float = field(
        0.05,
        "hpu_net with geco: the cross-entropy of these pixels to reach, in nats",
        at_least=1e-6,
    )
    num_experts: int = field(4, "mixture: number of experts", at_least=1, at_most=256)
    expert_samples: int = field(
        4,
        "mixture: samples of each expert that training couples with the graders",
        at_least=1,
        at_most=1024,
    )
    expert_nats: float = field(
        1.0,
        "mixture: weight of the mean cross-entropy per pixel in the cost of a sample "
        "and a grader, next to 1 - soft IoU; 0 is its paper's cost, with which all "
        "pixels often stay marked",
        at_least=0,
    )
    covariance_rank: int = field(
        10, "ssn: rank of the covariance of the logits", at_least=1, at_most=1024
    )
    logit_samples: int = field(
        20,
        "ssn: samples per image from which the likelihood is estimated in training",
        at_least=1,
        at_most=4096,
    )
    background_value: Optional[float] = field(
        None,
        "ssn: where the image is at most this in all channels, the logits do not "
        "vary; for images with an empty surrounding, where the covariance may grow "
        "without bounds (default: they vary everywhere)",
    )
    dropout_rate: float = field(
        0.5, "dropout_unet: share of activations to drop", at_least=0, below=1
    )
    num_heads: int = field(16, "m_heads: number of heads", at_least=1, at_most=1024)
    head_epsilon: float = field(
        0.05, "m_heads: weight of the heads that are not the best", at_least=0, below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        widest = self.base_channels * 2 ** (self.num_scales - 1)
        if widest > _MAX_CHANNELS:
            raise ValueError(
                f"base_channels is {self.base_channels} with {self.num_scales} scales, "
                f"which makes {widest} channels, expected at most {_MAX_CHANNELS}"
            )
        if self.size_divisor > MAX_SIZE_DIVISOR:
            pooling = ("latent_pooling", "input_pooling")
            name = max(pooling, key=lambda name: getattr(self, name))
            raise ValueError(
                f"{name} is {getattr(self, name)} with {self.num_scales} scales, which "
                f"needs sides that are multiples of {self.size_divisor}, expected at "
                f"most {MAX_SIZE_DIVISOR}"
            )
        fixed = registry.MODELS[self.name].fixed.get("fixed_prior", self.fixed_prior)
        if self.prior_stddev != 1 and not fixed:
            raise ValueError(
                f"prior_stddev is {self.prior_stddev}, expected 1 unless the prior is "
                f"fixed (fixed_prior)"
            )
        if fixed and self.prior_components > 1:
            raise ValueError(
                f"prior_components is {self.prior_components} with a fixed prior, "
                "expected 1"
            )
        self._check_energy_stride()
        constrained = self.name == "hpu_net" and self.hierarchy_loss == "geco"
        if self.class_balance and not self.segmentation_weight:
            if constrained or self.name == "mixture":
                raise ValueError(
                    f"class_balance is {self.class_balance}, expected 0: the loss of "
                    f"{self.name} is no cross-entropy of all pixels"
                )
        if self.name == "hpu_net" and self.input_pooling > 1:
            raise ValueError(
                f"input_pooling is {self.input_pooling}, expected 1 for hpu_net"
            )
        if self.name == "hpu_net" and self.num_latent_scales > self.num_scales:
            raise ValueError(
                f"num_latent_scales is {self.num_latent_scales}, expected at most "
                f"num_scales, which is {self.num_scales}"
            )
        if not self.elbo_weight and not self.energy_weight:
            raise ValueError(
                "elbo_weight and energy_weight are 0, expected at least one above 0"
            )
        if self.outline_stddev and not registry.MODELS[self.name].has_latents:
            raise ValueError(
                f"outline_stddev is {self.outline_stddev}, expected 0: {self.name} has "
                "no latents"
            )
        late = (self.name, self.injection) == ("prob_unet", "end")
        if self.average_symmetries and not late:
            raise ValueError(
                "average_symmetries is True, expected False unless the model is "
                "prob_unet, with injection at the end"
            )
        if self.learned == "posterior":
            self._check_posterior_learns()

    def _check_energy_stride(self) -> None:
        divisor = 2 ** (self.num_scales - 1)
        if divisor % self.energy_stride:
            raise ValueError(
                f"energy_stride is {self.energy_stride} with {self.num_scales} scales, "
                f"expected a divisor of {divisor}"
            )
        injection = registry.MODELS[self.name].fixed.get("injection", self.injection)
        if self.energy_stride > 1 and injection == "start":
            raise ValueError(
                f"energy_stride is {self.energy_stride}, expected 1: with injection at "
                "the start, each sample runs the whole U-Net"
            )

    def _check_posterior_learns(self) -> None:
        if not registry.MODELS[self.name].has_latents:
            raise ValueError(
                f"learned is 'posterior', expected 'all': {self.name} has no posterior"
            )
        if not self.elbo_weight:
            raise ValueError(
                "learned is 'posterior' and elbo_weight is 0, expected a weight above "
                "0: the posterior learns from the evidence lower bound"
            )

    @property
    def outline_sharpness(self) -> float:
        """What the logits of a sample with a drawn outline are multiplied by.

        A logistic number with the standard deviation that is missing to pi / sqrt(3),
        that of the sigmoid, is left to each pixel. So the mean over all outlines is the
        probability that the network gives.
        """
        return 1.0 / math.sqrt(1.0 - 3.0 * (self.outline_stddev / math.pi) ** 2)

    @property
    def outline_latent(self) -> int | None:
        """Which number of a latent moves the outline, if one does."""
        return self.num_latents if self.outline_stddev else None

    @property
    def num_latents(self) -> int:
        """`latent_dim`, which `models.with_defaults` has filled in."""
        return _filled_in("latent_dim", self.latent_dim)

    @property
    def kl_beta(self) -> float:
        """`beta`, which `models.with_defaults` has filled in."""
        return _filled_in("beta", self.beta)

    @property
    def size_divisor(self) -> int:
        """The height and width of an image must be multiples of this."""
        has_latents = registry.MODELS[self.name].has_latents
        latent_pooling = self.latent_pooling if has_latents else 1
        return 2 ** (self.num_scales - 1) * math.lcm(self.input_pooling, latent_pooling)


def _filled_in(name: str, value: Optional[_Number]) -> _Number:
    if value is None:
        raise ValueError(
            f"{name} is None, expected a number: models.build and "
            "models.with_defaults fill in the model's own"
        )
    return value


@dataclasses.dataclass(frozen=True)
class DataConfig(Checked):
    """How examples of a data set become inputs of a network."""

    task: str = field(
        "plain",
        "plain: the labels of the graders; switched: the five random class flips of "
        "the Cityscapes experiment",
        choices=TASKS,
    )
    crop_size: SIZE = field(
        128,
        "side of a training crop, or its height and width, such as 96,128; 0 for the "
        "whole image",
        at_least=0,
        at_most=MAX_SIDE,
    )
    crop_jitter_px: int = field(
        0,
        "largest distance between the centres of a training crop and of its image, "
        "for data with the lesion in the middle; 0 to crop anywhere",
        at_least=0,
    )
    eval_size: int = field(
        128,
        "height and width of the central crop in validation and evaluation; 0 for "
        "the whole image",
        at_least=0,
        at_most=MAX_SIDE,
    )
    scored_size: int = field(
        0,
        "height and width of the central frame that is scored, if larger than "
        "eval_size. What the network does not see is background there. 0 for eval_size",
        at_least=0,
        at_most=MAX_SIDE,
    )
    window_low: float = field(
        -1000.0, "Hounsfield units that become 0 (only for images stored in HU)"
    )
    window_high: float = field(
        400.0, "Hounsfield units that become 1 (only for images stored in HU)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_low >= self.window_high:
            raise ValueError(
                f"window_low is {self.window_low}, expected less than window_high, "
                f"which is {self.window_high}"
            )
        if self.scored_size and not 0 < self.eval_size <= self.scored_size:
            raise ValueError(
                f"scored_size is {self.scored_size}, expected 0 or at least eval_size, "
                f"which is {self.eval_size or 'the whole image'}"
            )

    @property
    def frame_size(self) -> int:
        """The height and width that are scored; 0 for the whole image."""
        return self.scored_size or self.eval_size


@dataclasses.dataclass(frozen=True)
class AugmentationConfig(Checked):
    """Random changes of the training examples. 0 or false switches one off."""

    rotation_degrees: float = field(
        180.0, "rotate by up to this angle either way", at_least=0
    )
    shear_degrees: float = field(
        8.0, "shear by up to this angle either way", at_least=0, below=45
    )
    scale: float = field(
        0.15, "scale by a factor of 1/(1+s) to 1+s", at_least=0, below=4
    )
    elastic_std_px: float = field(
        2.0, "standard deviation of the elastic deformation, in pixels", at_least=0
    )
    elastic_spacing_px: int = field(
        24, "distance between the elastic deformation's random vectors", at_least=2
    )
    translation_px: float = field(
        0.0,
        "shift by up to this many pixels either way, in addition to the crop's random "
        "position",
        at_least=0,
    )
    flip: bool = field(False, "mirror at random")
    quarter_turns: bool = field(
        False,
        "turn by 0, 90, 180 or 270 degrees; with flip as the only other warp, no value "
        "is interpolated",
    )
    brightness: float = field(
        0.0,
        "add up to this to the values, which lie in 0..1, either way",
        at_least=0,
    )
    contrast: float = field(
        0.0,
        "multiply the contrast by a factor of 1/(1+c) to 1+c",
        at_least=0,
        below=4,
    )
    saturation: float = field(
        0.0,
        "multiply the colour saturation by a factor of 1/(1+s) to 1+s (colour images "
        "only)",
        at_least=0,
        below=4,
    )
    gamma: float = field(
        0.0, "raise the values to a power of 1/(1+g) to 1+g", at_least=0, below=4
    )

    @classmethod
    def off(cls) -> AugmentationConfig:
        """Returns the configuration that changes nothing but the crop's position."""
        return cls(
            rotation_degrees=0.0, shear_degrees=0.0, scale=0.0, elastic_std_px=0.0
        )

    @property
    def moves_nothing(self) -> bool:
        """Whether there is no warp. The crop may still be moved."""
        return not (
            self.rotation_degrees
            or self.shear_degrees
            or self.scale
            or self.elastic_std_px
            or self.translation_px
            or self.flip
            or self.quarter_turns
        )

    @property
    def shows_symmetries(self) -> bool:
        """Whether images are turned and mirrored in all eight ways."""
        return self.flip and (self.quarter_turns or self.rotation_degrees >= 180)


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Checked):
    """The schedule of a run. The defaults are the paper's for LIDC."""

    DROPPED = {"prior_steps": 0, "keep_checkpoints": 3}

    seed: int = field(0, "seed of everything random", at_least=-(2**63), below=2**63)
    start_from: str = field(
        "",
        "a SavedModel whose weights the run starts from, of the same network or of one "
        "with fewer channels or convolutions per block; empty for random weights",
    )
    steps: int = field(240_000, "training steps", at_least=1)
    batch_size: int = field(32, "images per step, over all replicas", at_least=1)
    graders_per_image: int = field(
        1,
        "graders of each image in one step; U-Net and prior run once for all of them. "
        "0 for all graders. In the switched task: draws of the flips",
        at_least=0,
    )
    learning_rate: float = field(1e-4, "learning rate at the start", at_least=0)
    final_learning_rate: float = field(1e-6, "learning rate at the end", at_least=0)
    learning_rate_steps: int = field(
        5, "number of equal ratios in which it falls; 0 for a cosine", at_least=0
    )
    weight_decay: float = field(1e-5, "weight of the L2 term on kernels", at_least=0)
    gradient_clip_norm: float = field(
        0.0, "cut the gradient of all weights to this norm; 0 to leave it", at_least=0
    )
    kl_warmup_steps: int = field(
        0,
        "number of steps in which the weight of the KL divergence grows to beta; 0 for "
        "beta from the start. Meanwhile ssn learns the mean alone, and a sample of "
        "mixture takes at most half of the graders",
        at_least=0,
    )
    energy_warmup_steps: int = field(
        0,
        "number of steps in which the weights of the energy distance and of the other "
        "terms on samples grow to their values; 0 for these values from the start",
        at_least=0,
    )
    ema_decay: float = field(
        0.0,
        "average the weights with this decay per step, for validation and export; 0 to "
        "use the weights themselves",
        at_least=0,
        below=1,
    )
    validate_every: int = field(2000, "steps between validations", at_least=1)
    validation_images: int = field(
        256, "images scored at each validation; 0 for all", at_least=0
    )
    validation_samples: int = field(16, "samples per image in validation", at_least=1)
    log_every: int = field(100, "steps between TensorBoard points", at_least=1)
    checkpoint_every: int = field(1000, "steps between checkpoints", at_least=1)
    tune_foreground: bool = field(
        False,
        "two classes: find the shift of the foreground's logit with the smallest "
        "validation GED, and save the best checkpoint with it",
    )
    best_by: str = field(
        "ged",
        "the best checkpoint has the smallest validation GED or loss",
        choices=("ged", "loss"),
    )
    steps_per_execution: int = field(
        1, "steps per call; more of them save overhead on fast devices", at_least=1
    )
    mixed_precision: str = field(
        "off",
        "compute in 16 bits: faster on GPUs, and with bfloat16 on CPUs that have it",
        choices=("off", "float16", "bfloat16"),
    )
    jit_compile: bool = field(False, "compile with XLA (slower on CPUs)")

    def __post_init__(self) -> None:
        super().__post_init__()
        falls_to_zero = self.learning_rate and not self.final_learning_rate
        if falls_to_zero and self.learning_rate_steps:
            raise ValueError(
                f"final_learning_rate is 0 with {self.learning_rate_steps} "
                "learning_rate_steps of equal ratio, expected above 0, or "
                "learning_rate_steps=0 for a cosine"
            )


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that determines what a training run computes."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    training: TrainingConfig = TrainingConfig()

    def __post_init__(self) -> None:
        switched = self.data.task == "switched"  # The loss depends on the task too.
        model = dataclasses.replace(self.model, switched=switched)
        object.__setattr__(self, "model", model)
        for name in ("outline_stddev", "presence_weight"):
            if getattr(model, name) and switched:
                raise ValueError(
                    f"{name} is {getattr(model, name)}, expected 0 for the switched "
                    "task, which has no background"
                )
        for name in ("segmentation_weight", "mode_weight"):
            if getattr(model, name) and not switched:
                raise ValueError(
                    f"{name} is {getattr(model, name)}, expected 0: the task is "
                    f"{self.data.task!r}, not 'switched'"
                )
        if model.average_symmetries and not self.augmentation.shows_symmetries:
            raise ValueError(
                "average_symmetries is True, expected False for a network that was not "
                "trained on turned and mirrored images: flip, and rotation_degrees=180 "
                "or quarter_turns"
            )
        divisor = self.model.size_divisor
        pooled = ""
        for name in ("input_pooling", "latent_pooling"):
            if getattr(self.model, name) > 1:
                pooled = f" after the {name.replace('_', ' ')}"
        for name in ("crop_size", "eval_size"):
            size = getattr(self.data, name)
            if any(side % divisor for side in sides(size)):
                raise ValueError(
                    f"{name} is {size}, expected a multiple of {divisor} for "
                    f"{self.model.num_scales} scales{pooled}"
                )

    def to_json(self) -> dict[str, Any]:
        """Returns the configuration as a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any], source: str) -> Config:
        """Builds a configuration from a JSON object.

        Files of earlier versions stay readable. A missing setting has its default. A
        setting that was dropped is ignored if its value changed nothing.

        Args:
            value: what `to_json` returned.
            source: the file it came from, for error messages.

        Raises:
            ValueError: a section is missing, a setting is unknown, or a value is bad.
        """
        sections: dict[str, type[Checked]] = typing.get_type_hints(cls)
        if set(value) != set(sections):
            raise ValueError(
                f"{source}: has the sections {sorted(value)}, expected "
                f"{sorted(sections)}"
            )
        built = {
            name: _section_from_json(section, value[name], f"{source}: {name}")
            for name, section in sections.items()
        }
        try:
            return cls(**built)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error

    def differences(self, other: Config) -> list[str]:
        """Lists the settings that differ, as "training.steps: 100 -> 200"."""
        mine, theirs = self.to_json(), other.to_json()
        return [
            f"{section}.{name}: {mine[section][name]!r} -> {theirs[section][name]!r}"
            for section in mine
            for name in mine[section]
            if mine[section][name] != theirs[section][name]
        ]


def _section_from_json(section: type[Checked], value: Any, source: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{source} is {value!r}, expected an object of settings")
    for name, neutral in section.DROPPED.items():
        if value.get(name, neutral) != neutral:
            raise ValueError(
                f"{source}: {name} is {value[name]!r}, but this version has no such "
                f"setting (it does what {neutral!r} did); use the version of "
                f"tf_probunet that wrote the file"
            )
    value = section.without_dropped(value)
    names = {setting.name for setting in dataclasses.fields(section)}
    unknown = set(value) - names
    if unknown:
        raise ValueError(
            f"{source} has the settings {', '.join(sorted(unknown))}, expected "
            f"{', '.join(sorted(names))}"
        )
    try:
        return section(**value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source}: {error}") from error


def read_config(path: files.Path) -> Config:
    """Reads a `config.json`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged or does not fit this version.
    """
    return Config.from_json(files.read_json(path, "configuration"), str(path))


@dataclasses.dataclass(frozen=True)
class PhantomConfig(Checked):
    """The size, number and seed of the phantom images."""

    image_size: int = field(
        64, "height and width of the images", at_least=32, at_most=4096
    )
    num_train: int = field(2000, "training images", at_least=1, at_most=10**7)
    num_val: int = field(250, "validation images", at_least=1, at_most=10**7)
    num_test: int = field(250, "test images", at_least=1, at_most=10**7)
    seed: int = field(0, "seed of everything random", at_least=0, below=2**63)


@dataclasses.dataclass(frozen=True)
class FundusConfig(Checked):
    """The number and size of the pictures."""

    num_patients: int = field(
        30, "patients, with two eyes each", at_least=3, at_most=9999
    )
    height: int = field(300, "height of the pictures", at_least=32, at_most=4096)
    width: int = field(400, "width of the pictures", at_least=32, at_most=4096)
    seed: int = field(0, "seed of everything random", at_least=0, below=2**63)
