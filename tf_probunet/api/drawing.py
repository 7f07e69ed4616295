"""Draws an image with samples and graders."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


def plot_samples(
    image: ArrayLike,
    samples: ArrayLike,
    graders: ArrayLike | None = None,
    *,
    title: str = "",
) -> Figure:
    """Draws an image, what graders marked on it, and samples of a model.

    Graders are outlined in orange and samples in blue. A picture without an outline
    means that nothing was marked. Label maps of several classes are drawn in colours.

    Args:
        image: [H, W] or [H, W, C]: `uint8`, or any other numbers, which are drawn from
            the smallest (black) to the largest (white) unless they lie in 0..1.
        samples: [S, H, W] label maps.
        graders: [M, H, W] label maps; None for none.
        title: above the pictures.

    Returns:
        A matplotlib figure. `figure.savefig("samples.png")` writes it.

    Raises:
        ValueError: the shapes do not fit each other.

    Example:
        >>> image = np.zeros([32, 32])
        >>> samples = np.zeros([4, 32, 32], int)
        >>> samples[1:, 8:20, 8:20] = 1
        >>> figure = pu.plot_samples(image, samples)
        >>> len(figure.axes)
        5
    """
    from tf_probunet.figures import sample_grid, style

    shown = to_unit_range(image)
    samples = _stack(samples, "samples", shown)
    graders = samples[:0] if graders is None else _stack(graders, "graders", shown)
    figure = sample_grid.draw(
        images=shown[None], graders=graders[None], samples=samples[None], title=title
    )
    # Notebooks show figures by themselves only after pyplot was imported.
    figure._repr_png_ = functools.partial(style.to_png, figure)
    return figure


def to_unit_range(image: ArrayLike) -> np.ndarray:
    """Returns an image [H, W, C] float32 in 0..1, to be looked at."""
    image = np.asarray(image)
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or not image.size:
        raise ValueError(f"image has shape {image.shape}; expected [H, W] or [H, W, C]")
    if image.dtype == np.uint8:
        return image.astype(np.float32) / 255
    image = image.astype(np.float32)
    low, high = float(image.min()), float(image.max())
    if not 0 <= low <= high <= 1:
        image = (image - low) / max(high - low, float(np.finfo(np.float32).tiny))
    return image


def _stack(maps: ArrayLike, name: str, image: np.ndarray) -> np.ndarray:
    maps = np.asarray(maps)
    if maps.ndim != 3 or maps.shape[1:] != image.shape[:2]:
        height, width = image.shape[:2]
        raise ValueError(
            f"{name} have shape {maps.shape}; expected [number, {height}, {width}], "
            "as the image"
        )
    return maps.astype(np.uint8) if maps.dtype == bool else maps
