"""Noise that the slices of a lesion share, and the latents that it stands for.

A latent is a grader's way of drawing. The same noise on each slice, with the slice's
own prior, is one reader who goes through the slices.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tf_probunet import noise as noise_lib
from tf_probunet import seeds

Prior = Mapping[str, np.ndarray]  # The outputs of the function `prior`, for B images.

# As a graph, because its many small operations take longer one by one.
_draw = tf.function(noise_lib.draw)


def dimensions(prior: Prior) -> int:
    """Returns the number D of normal numbers that one latent is made of."""
    return prior["mean"].shape[-1] + ("component_weights" in prior)


def draw_noise(
    count: int,
    size: int,
    seed: int,
    sampling: str = "independent",
    minor: int | None = None,
) -> np.ndarray:
    """Draws standard normal noise [count, size], the same as the model itself draws.

    Args:
        count: number of samples.
        size: numbers of each, see `dimensions`.
        seed: of the samples.
        sampling: one of `config.SAMPLINGS`.
        minor: the network's `outline_latent`; see `noise.draw`.
    """
    image_seed = seeds.fold_in(seeds.root(tf.constant(seed)), 0)
    drawn = _draw(sampling, image_seed[None], tf.constant(count), size, minor)
    return drawn[0].numpy()


def from_noise(prior: Prior, noise: np.ndarray) -> np.ndarray:
    """Turns noise into latents of each image's prior.

    Args:
        prior: `mean` and `stddev` [B, L]; for a mixture also `component_weights`
            [B, K], `component_means` and `component_stddevs` [B, K, L]. The last number
            of the noise then chooses the component.
        noise: [S, D] for all images, or [B, S, D].

    Returns:
        [B, S, L] float32.
    """
    noise = np.broadcast_to(noise, (len(prior["mean"]), *noise.shape[-2:]))
    if "component_weights" in prior:
        names = ("component_weights", "component_means", "component_stddevs")
        parts = (np.asarray(prior[name], np.float32) for name in names)
        return noise_lib.of_mixture(noise.astype(np.float32), *parts).numpy()
    latents = prior["mean"][:, None] + prior["stddev"][:, None] * noise
    return latents.astype(np.float32)
