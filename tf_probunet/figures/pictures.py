"""Pictures inside figures: images, outlines of lesions, colours of street scenes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from tf_probunet.dataset.cityscapes_labels import (
    CLASS_NAMES,
    COLORS,
    IGNORE_COLOR,
    IGNORE_LABEL,
    NUM_CLASSES,
    colorize,
)
from tf_probunet.figures import style

# About how many characters fit into an inch, times the font's size in points.
_CHARACTERS_PER_INCH = 125
_LINE_HEIGHT = 0.12
_LEGEND_ENTRY_WIDTH = 1.1
# Sets outlines off from bright tissue.
_SHADOW = [
    patheffects.Stroke(linewidth=1.8, foreground="black", alpha=0.5),
    patheffects.Normal(),
]


def is_binary(*stacks: np.ndarray) -> bool:
    """Returns whether all label maps hold only 0, 1 and the ignored label."""
    return all(np.isin(labels, (0, 1, IGNORE_LABEL)).all() for labels in stacks)


def foreground(labels: np.ndarray) -> np.ndarray:
    """Returns which pixels of binary label maps are marked, and not ignored."""
    return (labels != 0) & (labels != IGNORE_LABEL)


def show_image(axis: Axes, image: np.ndarray) -> None:
    """Shows an image [H, W, C] in 0..1: colours if C is 3, else the first channel."""
    picture = image if image.shape[-1] == 3 else image[..., 0]
    show_array(axis, picture.clip(0, 1), cmap="gray", vmin=0, vmax=1)


def show_labels(
    axis: Axes, image: np.ndarray, labels: np.ndarray, *, binary: bool, colour: str
) -> None:
    """Shows a label map: its outline over the image, or its classes in colours.

    Args:
        axis: where to draw.
        image: [H, W, C] in 0..1.
        labels: [H, W].
        binary: whether to draw an outline of all marked pixels, instead of colours.
        colour: of the outline.
    """
    if binary:
        show_image(axis, image)
        outline(axis, foreground(labels), colour)
    else:
        show_array(axis, colorize(labels))


def show_array(axis: Axes, array: np.ndarray, **settings):
    """Shows [H, W] or [H, W, 3] over the whole axes, without ticks."""
    shown = axis.imshow(array, aspect="auto", **settings)
    axis.set_axis_off()
    return shown


def outline(
    axis: Axes, mask: np.ndarray, colour: str, width: float = 0.9, **settings
) -> None:
    """Draws the outline of a mask [H, W], closed at the border; nothing if empty."""
    if not mask.any():
        return
    height, width_px = mask.shape
    x, y = np.arange(-1, width_px + 1), np.arange(-1, height + 1)
    padded = np.pad(mask.astype(np.float32), 1)
    before = len(axis.collections)
    axis.contour(
        x, y, padded, levels=[0.5], colors=[colour], linewidths=width, **settings
    )
    for lines in axis.collections[before:]:
        lines.set_path_effects(_SHADOW)
    axis.set_xlim(-0.5, width_px - 0.5)
    axis.set_ylim(height - 0.5, -0.5)


def class_legend_height(
    stacks: Sequence[np.ndarray], width: float = style.PAGE_WIDTH
) -> float:
    """Returns the inches that `class_legend` takes on a page of that width."""
    rows = -(-len(_legend_entries(stacks)) // _legend_columns(width))
    return _LINE_HEIGHT * rows + 0.1


def class_legend(page: style.Page, stacks: Sequence[np.ndarray]) -> None:
    """Names the colours of the classes that occur, at the bottom of the page."""
    page.figure.legend(
        handles=_legend_entries(stacks),
        loc="lower center",
        ncols=_legend_columns(page.width),
        fontsize=style.SMALL,
        handlelength=1,
        handleheight=0.8,
        columnspacing=1.2,
        labelspacing=0.25,
        borderaxespad=0.2,
    )


def wrapped(text: str, width: float, fontsize: float = style.SMALL) -> list[str]:
    """Breaks a text into lines of a width in inches."""
    number = max(1, int(width * _CHARACTERS_PER_INCH / fontsize))
    return textwrap.wrap(text, number, break_on_hyphens=False)


def note_height(lines: Sequence[str]) -> float:
    """Returns the inches that lines of a note take."""
    return _LINE_HEIGHT * len(lines) + (0.05 if lines else 0)


def _legend_columns(width: float) -> int:
    return max(1, int(width / _LEGEND_ENTRY_WIDTH))


def _legend_entries(stacks: Sequence[np.ndarray]) -> list[Patch]:
    present = np.unique(np.concatenate([np.unique(labels) for labels in stacks]))
    entries = [
        Patch(color=COLORS[label] / 255, label=CLASS_NAMES[label])
        for label in present
        if label < NUM_CLASSES
    ]
    if IGNORE_LABEL in present:
        red, green, blue = (value / 255 for value in IGNORE_COLOR)
        entries.append(Patch(color=(red, green, blue), label="ignored"))
    return entries
