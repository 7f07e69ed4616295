"""A grid of images, graders and samples, with outlines over the image."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart by colour-blind readers.
GRADER_COLOUR = "#E69F00"
SAMPLE_COLOUR = "#56B4E9"


def draw(*, images: np.ndarray, graders: np.ndarray, samples: np.ndarray) -> Figure:
    """Draws one row per image: the image, each grader, each sample.

    How to read it: the graders' outlines are orange, the samples' blue; an image
    without an outline means that this grader, or sample, sees no lesion. A good model's
    samples vary as the graders do, empty ones included.

    Args:
        images: [N, H, W, C] in 0..1.
        graders: [N, G, H, W] labels.
        samples: [N, S, H, W] labels.

    Returns:
        The figure.
    """
    rows, cols = len(images), 1 + graders.shape[1] + samples.shape[1]
    figure = Figure(figsize=(0.9 * cols, 0.9 * rows + 0.3))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, cols, squeeze=False)
    figure.subplots_adjust(0.005, 0.005, 0.995, 1 - 0.26 / (0.9 * rows + 0.3), 0.04, 0.04)
    for row, image in enumerate(images):
        _show(axes[row, 0], image)
        for col, labels in enumerate(graders[row], 1):
            _show(axes[row, col], image, labels, GRADER_COLOUR)
        for col, labels in enumerate(samples[row], 1 + graders.shape[1]):
            _show(axes[row, col], image, labels, SAMPLE_COLOUR)
    titles = ["image"]
    titles += [f"grader {i + 1}" for i in range(graders.shape[1])]
    titles += [f"sample {i + 1}" for i in range(samples.shape[1])]
    for axis, title in zip(axes[0], titles):
        axis.set_title(title, fontsize=8, pad=3)
    return figure


def to_png(figure: Figure, dpi: int = 100) -> bytes:
    """Renders a figure to PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _show(
    axis, image: np.ndarray, labels: np.ndarray | None = None, colour: str | None = None
) -> None:
    axis.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    if labels is not None and (labels > 0).any() and (labels == 0).any():
        axis.contour(labels > 0, levels=[0.5], colors=[colour], linewidths=1.2)
    axis.set_axis_off()
