"""Draws samples of images of any size, in tiles with shared latents if necessary."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.config import SAMPLINGS
from tf_probunet.imaging.resampling import resample
from tf_probunet.predict import latents
from tf_probunet.predict.tiles import tiles

# The prior sees larger images at a lower resolution, to bound its memory.
_MAX_PRIOR_PIXELS = 2**21
# Probabilities held at once.
_MAX_BYTES = 256 * 2**20


def num_samples(model: LoadedModel, wanted: int) -> int:
    """Returns the number of samples to draw: no more than the model has."""
    most = model.metadata["max_samples"]
    if most is None:
        most = wanted if model.metadata["is_stochastic"] else 1
    return min(wanted, most)


def draw(
    model: LoadedModel,
    image: np.ndarray,
    *,
    count: int,
    seed: int,
    tile_size: int,
    about: str,
    sampling: str = "independent",
) -> Iterator[np.ndarray]:
    """Draws samples, a few at a time.

    The latents are drawn once, from the prior of the whole image, and all tiles are
    decoded with them: a sample is one hypothesis everywhere. An image of a single tile
    gets the samples of `serving_default` with the same seed. Models without a prior are
    sampled in each tile with the same seed.

    Args:
        model: the model to draw from.
        image: [H, W, C] float32 in 0..1, of a size that the model allows.
        count: number of samples.
        seed: of the samples.
        tile_size: larger images are cut into tiles.
        about: the file, for error messages.
        sampling: one of `config.SAMPLINGS`.

    Yields:
        Probabilities [s, H, W, K] of the next samples.

    Raises:
        ValueError: the model fails on the image, or has no such sampling.
    """
    check_sampling(model, sampling)
    if not has_latents(model):
        yield _blend(
            image,
            lambda part: draw_set(
                model,
                part[None],
                count=count,
                seed=seed,
                sampling=sampling,
                about=about,
            ),
            tile_size,
            model.size_divisor,
        )
        return
    z = draw_latents(
        model, image, count=count, seed=seed, sampling=sampling, about=about
    )
    per_sample = image.shape[0] * image.shape[1] * model.network.num_classes * 4
    chunk = max(1, _MAX_BYTES // per_sample)
    for start in range(0, count, chunk):
        decode = functools.partial(
            _decode, model, z[None, start : start + chunk], about
        )
        yield _blend(image, decode, tile_size, model.size_divisor)


def _decode(
    model: LoadedModel, z: np.ndarray, about: str, part: np.ndarray
) -> dict[str, np.ndarray]:
    return model.call("decode", part[None], z, about=about)


def draw_set(
    model: LoadedModel,
    images: np.ndarray,
    *,
    count: int,
    seed: int,
    about: str,
    sampling: str = "independent",
) -> dict[str, np.ndarray]:
    """Draws a set of samples of one image, the same in every process and batch.

    Args:
        model: the model to draw from.
        images: [1, h, w, C] float32 in 0..1: what the network sees.
        count: S.
        seed: of the samples.
        about: the file, for error messages.
        sampling: one of `config.SAMPLINGS`.

    Returns:
        `labels` [1, S, h, w] and `probabilities` [1, S, h, w, K].

    Raises:
        ValueError: the model fails on the image, or has no such sampling.
    """
    check_sampling(model, sampling)
    if sampling == "independent":
        return model.call("sample", images, count, [seed], about=about)
    if model.has(sampling):
        return model.call(sampling, images, count, [seed], about=about)
    z = draw_latents(
        model, images[0], count=count, seed=seed, sampling=sampling, about=about
    )
    return model.call("decode", images, z[None], about=about)


def check_sampling(model: LoadedModel, sampling: str) -> None:
    """Checks that a model can draw its samples in this way.

    Raises:
        ValueError: it cannot.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(
            f"sampling is {sampling!r}, expected one of {', '.join(SAMPLINGS)}"
        )
    if sampling != "independent" and default_sampling(model) != sampling:
        raise ValueError(
            f"sampling is {sampling!r}, but the {model.metadata['model']} in "
            f"{model.path} has no latents that could be {sampling}; expected "
            "independent"
        )


def default_sampling(model: LoadedModel) -> str:
    """Returns "stratified" for a model that can, and otherwise "independent"."""
    can = model.has("stratified") or has_latents(model)
    return "stratified" if can else "independent"


def has_latents(model: LoadedModel) -> bool:
    """Whether a model's latents can be drawn and decoded one by one."""
    return model.has("prior") and model.has("decode")


def draw_latents(
    model: LoadedModel,
    image: np.ndarray,
    *,
    count: int,
    seed: int,
    about: str,
    sampling: str = "independent",
) -> np.ndarray:
    """Draws latents [count, L] from the prior, the same as the model itself draws."""
    return draw_latent_sets(
        model, image, sets=[(sampling, count)], seed=seed, about=about
    )


def draw_latent_sets(
    model: LoadedModel,
    image: np.ndarray,
    *,
    sets: Sequence[tuple[str, int]],
    seed: int,
    about: str,
) -> np.ndarray:
    """Draws several sets of latents from the prior of one image.

    Args:
        model: with latents.
        image: [H, W, C] float32 in 0..1.
        sets: the sampling and the number of latents of each set.
        seed: of the samples. Each set is what `draw_latents` draws with it.
        about: the file, for error messages.

    Returns:
        [S, L] float32, the sets one after the other.
    """
    seen = _reduced(image, model.size_divisor)[None]
    prior = model.call("prior", seen, about=about)

    def drawn(way: str, count: int) -> np.ndarray:
        # Older exports spread the samples over the prior alone.
        if way == "stratified" and model.has("stratified_latents"):
            found = model.call("stratified_latents", seen, count, [seed], about=about)
            return found["z"][0]
        size, minor = latents.dimensions(prior), model.network.outline_latent
        noise = latents.draw_noise(count, size, seed, way, minor)
        return latents.from_noise(prior, noise)[0]

    return np.concatenate([drawn(*one) for one in sets])


def _reduced(image: np.ndarray, divisor: int) -> np.ndarray:
    shrink = np.sqrt(_MAX_PRIOR_PIXELS / (image.shape[0] * image.shape[1]))
    if shrink >= 1:
        return image
    height, width = (
        max(divisor, int(size * shrink) // divisor * divisor)
        for size in image.shape[:2]
    )
    return resample(image, (height, width))


def _blend(
    image: np.ndarray,
    decode: Callable[[np.ndarray], dict[str, np.ndarray]],
    tile_size: int,
    divisor: int,
) -> np.ndarray:
    """Returns the weighted mean of the tiles' probabilities, [S, H, W, K]."""
    shape = image.shape[:2]
    parts = tiles(shape, tile_size, divisor)
    if len(parts) == 1:
        return decode(image)["probabilities"][0]
    total: np.ndarray | None = None
    weight = np.zeros(shape, np.float32)
    for tile in parts:
        probabilities = decode(image[tile.rows, tile.cols])["probabilities"][0]
        if total is None:
            num, classes = probabilities.shape[0], probabilities.shape[-1]
            total = np.zeros((num, *shape, classes), np.float32)
        total[:, tile.rows, tile.cols] += probabilities * tile.weights[..., None]
        weight[tile.rows, tile.cols] += tile.weights
    assert total is not None  # An image has at least one tile.
    return total / weight[..., None]
