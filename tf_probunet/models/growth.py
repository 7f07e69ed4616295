"""Starts a larger network with the weights of a smaller one that was trained."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from tf_probunet.config import ModelConfig
from tf_probunet.models.base import SegmentationModel

# The models whose layers all have the names that are known here.
MODELS = ("prob_unet", "unet")
# The settings of the network that may grow, and those that stay.
_GROWING = ("base_channels", "convs_per_block")
_FIXED = (
    *("name", "num_classes", "image_channels", "num_scales", "injection"),
    *("input_pooling", "latent_pooling", "latent_dim", "prior_components"),
    *("fixed_prior", "posterior_sees_image", "comb_channels"),
)

_BLOCK = re.compile(r"(?P<block>.*/block_(?P<scale>\d+))/conv_(?P<conv>\d+)/")


def check(small: ModelConfig, large: ModelConfig) -> None:
    """Checks that a network can begin as a smaller one.

    Raises:
        ValueError: it can't; the message says why.
    """
    for name in _FIXED:
        found, wanted = getattr(small, name), getattr(large, name)
        if found != wanted:
            raise ValueError(f"{name} is {found}, expected {wanted}")
    for name in _GROWING:
        found, wanted = getattr(small, name), getattr(large, name)
        if found > wanted:
            raise ValueError(f"{name} is {found}, expected at most {wanted}")
    if large.name not in MODELS or large.injection == "start":
        raise ValueError(
            f"only the models {' and '.join(MODELS)}, with latents at the end, can grow"
        )


def grown(
    model: SegmentationModel, small: ModelConfig, weights: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Returns weights with which a network computes what a smaller one does.

    The channels of the small network get nothing from new channels and stay as they
    are. New channels see all others, with the random weights of `model`. A new
    convolution of a block passes on the channels of the small network.

    Args:
        model: the larger network, with its initial weights.
        small: the configuration of the smaller one.
        weights: the trained weights of the smaller one, by the variables' names.

    Returns:
        The weights of the trainable variables of `model`.

    Raises:
        ValueError: the networks differ in something else than their size.
    """
    check(small, model.config)
    parts = _Parts(small, model.config)
    result = []
    for variable in model.trainable_variables:
        initial, name = variable.numpy(), variable.name
        trained = weights.get(name)
        if trained is None:
            trained = _passing_on(name, weights)
        result.append(_placed(name, initial, trained, parts))
    return result


@dataclasses.dataclass(frozen=True)
class _Parts:
    """What the inputs of layers are made of, in the small and in the large network."""

    small: ModelConfig
    large: ModelConfig

    def of(self, name: str, found: int, wanted: int) -> list[tuple[int, int]]:
        """Returns the channels of each part of a kernel's input in both networks."""
        match = _BLOCK.match(name)
        small, large = self.small.base_channels, self.large.base_channels
        if name.startswith("unet/decoder/") and match and match["conv"] == "0":
            # The features of the coarser scale, then those of the skip connection.
            scales = [2 ** (int(match["scale"]) + 1), 2 ** int(match["scale"])]
            return [(small * scale, large * scale) for scale in scales]
        if name.startswith("f_comb/conv_0/"):  # The features, then the latents.
            return [(small, large), (found - small, wanted - large)]
        return [(found, wanted)]


def _passing_on(name: str, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the weights of a convolution that gives what it gets.

    Raises:
        ValueError: it is not one of a block that the small network has.
    """
    match = _BLOCK.match(name)
    like = weights.get(f"{match['block']}/conv_0/bias:0") if match else None
    if like is None:
        raise ValueError(f"there are no weights for {name}")
    if name.endswith("bias:0"):
        return np.zeros_like(like)
    kernel = np.zeros([3, 3, len(like), len(like)], like.dtype)
    kernel[1, 1] = np.eye(len(like))
    return kernel


def _placed(
    name: str, initial: np.ndarray, trained: np.ndarray, parts: _Parts
) -> np.ndarray:
    """Puts trained weights into larger ones."""
    outputs = trained.shape[-1]
    result = initial.copy()
    result[..., :outputs] = 0.0
    if trained.ndim == 1:
        result[:outputs] = trained
        return result
    read = write = 0
    for found, wanted in parts.of(name, trained.shape[2], initial.shape[2]):
        result[:, :, write : write + found, :outputs] = trained[
            :, :, read : read + found
        ]
        read, write = read + found, write + wanted
    return result
