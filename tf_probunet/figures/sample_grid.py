"""Grids of images, graders and samples: of one model, or of several for one image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from tf_probunet.dataset.cityscapes_labels import (
    IGNORE_LABEL,
    MODE_PROBABILITIES,
    NUM_MODES,
    NUM_TRAIN_CLASSES,
    switch_table,
)
from tf_probunet.figures import grid, pictures, style
from tf_probunet.figures.style import GRADER_COLOUR, SAMPLE_COLOUR

_MAX_CELL = 0.9
_GAP = 0.02
_TITLE_HEIGHT = 0.24
_HEADING_HEIGHT = 0.16
_NAME_WIDTH = 1.05
_NAME_SIZE = 7


class GroundTruth(NamedTuple):
    """Label maps of the ground truth, and their names.

    Attributes:
        maps: [G, H, W].
        names: [G].
    """

    maps: np.ndarray
    names: list[str]


@style.styled()
def draw(
    *,
    images: Sequence[np.ndarray],
    graders: Sequence[np.ndarray],
    samples: Sequence[np.ndarray],
    layout: str = "rows",
    grader_word: str = "grader",
    keys: Sequence[str] = (),
    title: str = "",
    class_names: Sequence[str] = (),
) -> Figure:
    """Draws each image with its graders and samples.

    How to read it: for lesions, the graders' outlines are orange and the samples' blue;
    a picture without an outline means that this grader, or sample, sees no lesion. With
    several classes, each class has an outline in its own colour. For street scenes,
    colours are classes and black pixels are ignored. A good model's samples vary as the
    graders do, in the same shares, empty ones included; each by itself looks like the
    work of a grader.

    Args:
        images: N images [H, W, C] in 0..1, each of its own size.
        graders: [G, H, W] labels of each image, which has its own number G.
        samples: [S, H, W] labels of each image.
        layout: "rows", an image and its masks in a row, or "columns" as in the paper.
        grader_word: what to call a grader's map.
        keys: [N], listed below the grid.
        title: above the grid.
        class_names: of all classes, the background first; none for street scenes.

    Returns:
        The figure, at most as large as a page.

    Raises:
        ValueError: the layout is unknown, or the arrays do not fit.
    """
    _check_shapes(images, graders, samples)
    binary = pictures.is_binary(*graders, *samples)
    num_graders, num_samples = (max(map(len, maps)) for maps in (graders, samples))
    groups = (
        grid.Group("image", 1),
        grid.Group(grader_word, num_graders),
        grid.Group("sample", num_samples),
    )
    cells = grid.Grid(
        num_images=len(images),
        groups=groups,
        aspect=max(image.shape[0] / image.shape[1] for image in images),
        layout=layout,
        title=title,
        note=_key_note(keys),
        legend=() if binary else (*graders, *samples),
        class_names=class_names,
    )
    drawn = []
    for n, image in enumerate(images):
        drawn.append(cells.axes(n, 0))
        pictures.show_image(drawn[-1], image)
        shown = [(1 + g, labels, GRADER_COLOUR) for g, labels in enumerate(graders[n])]
        first = 1 + num_graders
        for s, labels in enumerate(samples[n]):
            shown.append((first + s, labels, SAMPLE_COLOUR))
        for place, labels, colour in shown:
            drawn.append(cells.axes(n, place))
            pictures.show_labels(
                drawn[-1],
                image,
                labels,
                binary=binary,
                colour=colour,
                class_names=class_names,
            )
    pictures.keep_aspects(drawn, images)
    return cells.page.figure


@style.styled()
def compare(
    *,
    image: np.ndarray,
    graders: np.ndarray,
    samples: Mapping[str, np.ndarray],
    grader_names: Sequence[str] | None = None,
    title: str = "",
    class_names: Sequence[str] = (),
) -> Figure:
    """Draws one image with the samples of several models, a row for each.

    How to read it: the first row has the image and what the graders marked, each row
    below it the samples of one model; outlines and colours as in `draw`. A good row
    looks like more graders: each sample is plausible, and together they vary as the
    first row does.

    Args:
        image: [H, W, C] in 0..1.
        graders: [G, H, W] labels.
        samples: [S, H, W] labels of each model, by its name.
        grader_names: [G], if they are not just numbered.
        title: above the grid.
        class_names: as for `draw`.

    Returns:
        The figure, as wide as a page.
    """
    stacks = [graders, *samples.values()]
    binary = pictures.is_binary(*stacks)
    names = list(grader_names or (f"grader {i + 1}" for i in range(len(graders))))
    columns = max(1 + len(graders), *(len(maps) for maps in samples.values()))
    width = min(_MAX_CELL, (style.PAGE_WIDTH - _NAME_WIDTH) / columns - _GAP)
    height = width * image.shape[0] / image.shape[1]
    top = _HEADING_HEIGHT + (_TITLE_HEIGHT if title else 0)
    page_width = _NAME_WIDTH + columns * (width + _GAP)
    bottom = 0.0
    if not binary:
        bottom = pictures.class_legend_height(stacks, page_width, class_names)
    page = style.Page(page_width, top + (1 + len(samples)) * (height + _GAP) + bottom)
    page.text(page.width / 2, 0.05, title, ha="center", va="top")
    if not binary:
        pictures.class_legend(page, stacks, class_names)

    def cell(row: int, col: int):
        x, y = _NAME_WIDTH + col * (width + _GAP), top + row * (height + _GAP)
        return page.axes(x, y, width, height)

    pictures.show_image(cell(0, 0), image)
    _name_row(page, top + height / 2, "ground truth")
    for col, name in enumerate(["image", *names]):
        x = _NAME_WIDTH + col * (width + _GAP) + width / 2
        page.text(x, top - 0.02, name, ha="center", va="bottom", fontsize=style.SMALL)
    look: dict[str, Any] = {"binary": binary, "class_names": class_names}
    for col, labels in enumerate(graders, 1):
        axis = cell(0, col)
        pictures.show_labels(axis, image, labels, colour=GRADER_COLOUR, **look)
    for row, (name, maps) in enumerate(samples.items(), 1):
        _name_row(page, top + row * (height + _GAP) + height / 2, name)
        for col, labels in enumerate(maps):
            axis = cell(row, col)
            pictures.show_labels(axis, image, labels, colour=SAMPLE_COLOUR, **look)
    return page.figure


def ground_truth(
    graders: np.ndarray, is_switched: bool, number: int = NUM_MODES
) -> GroundTruth:
    """Returns what the graders marked, or the likely modes of a street scene.

    Args:
        graders: [G, H, W]; in the switched task the labels before any flip, G = 1.
        is_switched: whether this is the switched task.
        number: the largest number of modes to return.
    """
    if is_switched:
        return likely_modes(graders[0].astype(np.uint8), number)
    names = [f"grader {g + 1}" for g in range(len(graders))]
    return GroundTruth(graders, names)


def likely_modes(labels: np.ndarray, number: int) -> GroundTruth:
    """Returns the most probable ground truths of a street scene in the switched task.

    Modes that differ only in classes that the scene does not show count as one.

    Args:
        labels: [H, W], the 19 training classes before any flip, or the ignored label.
        number: the largest number of modes to return.

    Returns:
        The maps and their names, the mode's number with its probability.

    Raises:
        ValueError: the labels are not as described.
    """
    if not ((labels < NUM_TRAIN_CLASSES) | (labels == IGNORE_LABEL)).all():
        raise ValueError(
            f"labels go up to {labels[labels != IGNORE_LABEL].max()}; expected the "
            f"{NUM_TRAIN_CLASSES} classes before any flip"
        )
    present = np.unique(labels)
    shares: dict[bytes, list] = {}
    for mode in range(NUM_MODES):
        same = shares.setdefault(switch_table(mode)[present].tobytes(), [mode, 0.0])
        same[1] += MODE_PROBABILITIES[mode]
    modes = sorted(shares.values(), key=lambda pair: -pair[1])[:number]
    return GroundTruth(
        maps=np.stack([switch_table(mode)[labels] for mode, _ in modes]),
        names=[f"mode {mode}: {100 * share:.1f} %" for mode, share in modes],
    )


def _name_row(page: style.Page, y: float, name: str) -> None:
    text = "\n".join(pictures.wrapped(name, _NAME_WIDTH - 0.12, _NAME_SIZE))
    place = {"ha": "right", "va": "center", "fontsize": _NAME_SIZE}
    page.text(_NAME_WIDTH - 0.08, y, text, **place)


def _key_note(keys: Sequence[str]) -> str:
    # No-break spaces keep a number and its key on one line.
    listed = ", ".join(f"{n + 1}\u00a0=\u00a0{key}" for n, key in enumerate(keys))
    return f"images: {listed}" if keys else ""


def _check_shapes(
    images: Sequence[np.ndarray],
    graders: Sequence[np.ndarray],
    samples: Sequence[np.ndarray],
) -> None:
    for name, stacks in (("graders", graders), ("samples", samples)):
        found = [np.shape(maps) for maps in stacks]
        wanted = [np.shape(image)[:2] for image in images]
        if [shape[1:] for shape in found] != wanted:
            raise ValueError(
                f"{name} have the shapes {found[:3]} for images of {wanted[:3]}; "
                "expected [maps, H, W] for each image, of its size"
            )
