"""Pictures inside figures: images, outlines of lesions, colours of street scenes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

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
from tf_probunet.figures import palette, style

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
    axis: Axes,
    image: np.ndarray,
    labels: np.ndarray,
    *,
    binary: bool,
    colour: str,
    class_names: Sequence[str] = (),
) -> None:
    """Shows a label map: outlines over the image, or the classes of a street scene.

    Args:
        axis: where to draw.
        image: [H, W, C] in 0..1.
        labels: [H, W].
        binary: whether to draw an outline of all marked pixels, instead of colours.
        colour: of the outline.
        class_names: of all classes, the background first; none for a street scene. Each
            class but the background has an outline in its colour.
    """
    if binary:
        show_image(axis, image)
        outline(axis, foreground(labels), colour)
    elif has_outlines(class_names):
        show_image(axis, image)
        outline_classes(axis, labels, class_names)
    else:
        show_array(axis, colorize(labels))


def keep_aspects(axes: Sequence[Axes], images: Sequence[np.ndarray]) -> None:
    """Keeps pixels square in cells of one shape, if the images differ in size."""
    if len({image.shape[:2] for image in images}) > 1:
        for axis in axes:
            axis.set_aspect("equal")


def has_outlines(class_names: Sequence[str]) -> bool:
    """Returns whether classes are drawn as outlines: all but those of street scenes."""
    return len(class_names) > 0 and not palette.is_street(class_names)


def outline_classes(
    axis: Axes,
    labels: np.ndarray,
    class_names: Sequence[str],
    width: float = 0.9,
    **settings,
) -> None:
    """Draws the outline of each class but the background in its colour."""
    colours = palette.colors(class_names) / 255
    for label in range(1, len(class_names)):
        outline(axis, labels == label, colours[label], width, **settings)


def show_array(axis: Axes, array: np.ndarray, **settings):
    """Shows [H, W] or [H, W, 3] over the whole axes, without ticks."""
    shown = axis.imshow(array, aspect="auto", **settings)
    axis.set_axis_off()
    return shown


def outline(
    axis: Axes, mask: np.ndarray, colour: Any, width: float = 0.9, **settings
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
    stacks: Sequence[np.ndarray],
    width: float = style.PAGE_WIDTH,
    class_names: Sequence[str] = (),
) -> float:
    """Returns the inches that `class_legend` takes on a page of that width."""
    rows = -(-len(_legend_entries(stacks, class_names)) // _legend_columns(width))
    return _LINE_HEIGHT * rows + 0.1


def class_legend(
    page: style.Page, stacks: Sequence[np.ndarray], class_names: Sequence[str] = ()
) -> None:
    """Names the colours of the classes that occur, at the bottom of the page.

    Without `class_names`, they are those of street scenes.
    """
    page.figure.legend(
        handles=_legend_entries(stacks, class_names),
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


def _legend_entries(
    stacks: Sequence[np.ndarray], class_names: Sequence[str]
) -> list[Patch]:
    present = np.unique(np.concatenate([np.unique(labels) for labels in stacks]))
    if has_outlines(class_names):
        colours = palette.colors(class_names) / 255
        return [
            Patch(color=colours[label], label=class_names[label])
            for label in present
            if 0 < label < len(class_names)
        ]
    entries = [
        Patch(color=COLORS[label] / 255, label=CLASS_NAMES[label])
        for label in present
        if label < NUM_CLASSES
    ]
    if IGNORE_LABEL in present:
        red, green, blue = (value / 255 for value in IGNORE_COLOR)
        entries.append(Patch(color=(red, green, blue), label="ignored"))
    return entries
