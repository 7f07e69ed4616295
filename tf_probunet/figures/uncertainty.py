"""Draws where the samples of an image agree, and where they do not."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from tf_probunet.dataset.cityscapes_labels import IGNORE_LABEL, NUM_CLASSES
from tf_probunet.evaluation.metrics import distances
from tf_probunet.figures import pictures, style

# The bands of the share of samples that mark a pixel.
BAND_EDGES = (0.05, 0.25, 0.5, 0.75, 0.95)

_GAP = 0.05
_TOP = 0.38
_BAR_HEIGHT = 0.3
_CAPTION = 0.14
_BANDS = ListedColormap(
    matplotlib.colormaps["cividis"](np.linspace(0.1, 1, len(BAND_EDGES)))
)
_PAIR_COLOURS = (style.SKY_BLUE, style.VERMILION)
_PAIR_LINES = ("solid", (0, (2, 1)))


class Pair(NamedTuple):
    """Two samples and their distance, 1 - (mean) IoU."""

    first: int
    second: int
    distance: float


def mean_map(samples: np.ndarray) -> np.ndarray:
    """Returns the share of binary samples [S, H, W] that mark a pixel, [H, W]."""
    return pictures.foreground(samples).mean(axis=0)


def class_shares(samples: np.ndarray, num_classes: int = NUM_CLASSES) -> np.ndarray:
    """Returns the share of each class among samples [S, H, W], [K, H, W]."""
    return np.stack([(samples == k).mean(axis=0) for k in range(num_classes)])


def entropy_bits(shares: np.ndarray) -> np.ndarray:
    """Returns the entropy of shares [K, H, W] that sum to 1, [H, W] in bits."""
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=0) + 0.0


def _most_bits(samples: Sequence[np.ndarray], num_classes: int) -> float:
    """Returns where the scale of entropies ends: their largest, and at least one bit.

    All images share the scale, so that one with less entropy looks darker.
    """
    shares = (class_shares(s, num_classes) for s in samples)
    return max(1.0, *(float(entropy_bits(s).max()) for s in shares))


def most_different(samples: np.ndarray, num_classes: int = 0) -> Pair:
    """Finds the two samples that are furthest apart.

    Args:
        samples: [S, H, W] binary, or with several classes; at least two.
        num_classes: with a background, which is not scored; 0 for street scenes.

    Returns:
        The pair; among equal distances, the pair that marks most pixels. Two empty
        masks have distance 0.

    Raises:
        ValueError: there is only one sample.
    """
    if len(samples) < 2:
        raise ValueError(f"there is {len(samples)} sample; expected at least 2")
    if pictures.is_binary(samples):
        samples = pictures.foreground(samples).astype(np.uint8)
        between = distances.self_distances(samples, name="samples")
    else:
        labels = distances.LabelSet(tuple(range(NUM_CLASSES)), NUM_CLASSES)
        if num_classes:
            labels = distances.LabelSet.of_foreground(num_classes, IGNORE_LABEL)
        between = distances.self_distances(samples, name="samples", labels=labels)
    first, second = np.triu_indices(len(samples), 1)
    apart = between[first, second]
    marked = (samples > 0).sum(axis=(1, 2))
    # If one of two masks is empty the distance is 1, however large the other is.
    ties = np.where(apart > apart.max() - 1e-9, marked[first] + marked[second], -1)
    best = int(ties.argmax())
    return Pair(int(first[best]), int(second[best]), float(apart[best]))


@style.styled()
def draw(
    *,
    images: Sequence[np.ndarray],
    graders: Sequence[np.ndarray],
    samples: Sequence[np.ndarray],
    keys: Sequence[str],
    title: str = "",
    class_names: Sequence[str] = (),
) -> Figure:
    """Draws a row of maps per image: where the samples agree, and where they do not.

    How to read it, for lesions: the graders' outlines; the share of samples that mark a
    pixel; its entropy in bits, 1 where half of them do; the same share as bands over
    the image: outside the outermost one fewer than 5 % of the samples mark a lesion,
    inside the innermost one at least 95 % do; and the two samples that are furthest
    apart (solid and dashed), the range of opinions in one picture. For street scenes:
    the ground truth; the class most samples choose; the entropy of the classes in bits,
    brightest at the largest of all images; and the two samples that are furthest apart.

    Args:
        images: N images [H, W, C] in 0..1, each of its own size.
        graders: [G, H, W] labels of each image, which has its own number G.
        samples: [S, H, W] labels of each image, S at least 2.
        keys: [N].
        title: above the figure.
        class_names: of all classes, the background first; none for street scenes. With
            several classes, outlines in their colours take the place of street scenes.

    Returns:
        The figure, as wide as a page.

    Raises:
        ValueError: there is only one sample.
    """
    binary = pictures.is_binary(*graders, *samples)
    columns = _LESION_COLUMNS if binary else _STREET_COLUMNS
    if not binary and pictures.has_outlines(class_names):
        columns = _CLASS_COLUMNS
    stacks = () if binary else (*graders, *samples)
    aspect = max(image.shape[0] / image.shape[1] for image in images)
    sheet = _Sheet(len(images), len(columns), aspect, stacks, class_names)
    if title:
        sheet.page.text(
            sheet.page.width / 2, 0.04, title, ha="center", va="top", fontsize=9
        )
    num_classes = len(class_names) or NUM_CLASSES
    most_bits = 1.0 if binary else _most_bits(samples, num_classes)
    for row in range(len(images)):
        view = _View(images[row], graders[row], samples[row], most_bits, class_names)
        axes = [sheet.axes(row, c) for c in range(len(columns))]
        shown = [show(axis, view) for axis, (_, show) in zip(axes, columns)]
        pictures.keep_aspects(axes, images)
        sheet.caption(row, keys[row], view.caption())
    for col, (heading, _) in enumerate(columns):
        sheet.heading(col, heading)
        if shown[col] is not None:
            sheet.colour_bar(col, shown[col])
    if stacks:
        pictures.class_legend(sheet.page, stacks, class_names)
    return sheet.page.figure


class _Sheet:
    """Places rows of pictures on a page, with captions and colour bars."""

    def __init__(
        self,
        num_rows: int,
        num_cols: int,
        aspect: float,
        stacks: Sequence[np.ndarray],
        class_names: Sequence[str],
    ) -> None:
        legend = 0.0
        if stacks:
            legend = pictures.class_legend_height(stacks, class_names=class_names)
        spare = _TOP + _BAR_HEIGHT + legend
        self._num_rows = num_rows
        self._width = min(
            style.PAGE_WIDTH / num_cols - _GAP,
            ((style.PAGE_HEIGHT - spare) / num_rows - _CAPTION) / aspect,
        )
        self._height = self._width * aspect
        self.page = style.Page(
            num_cols * (self._width + _GAP),
            spare + num_rows * (self._height + _CAPTION),
        )

    def axes(self, row: int, col: int) -> Axes:
        """Adds the axes of a picture."""
        return self.page.axes(
            self._left(col), self._top(row), self._width, self._height
        )

    def caption(self, row: int, left: str, right: str) -> None:
        """Writes above a row, at its left and right end."""
        place = {"va": "bottom", "fontsize": style.SMALL}
        y = self._top(row) - 0.015
        self.page.text(0.02, y, left, **place)
        self.page.text(self.page.width - _GAP, y, right, ha="right", **place)

    def heading(self, col: int, text: str) -> None:
        """Writes above a column."""
        x = self._left(col) + self._width / 2
        y = _TOP - 0.02
        self.page.text(x, y, text, ha="center", va="bottom", fontsize=7)

    def colour_bar(self, col: int, shown: Any) -> None:
        """Draws what the colours of a column mean, below it."""
        bar = self.page.axes(
            self._left(col) + 0.06 * self._width,
            self._top(self._num_rows) - _CAPTION + 0.05,
            0.88 * self._width,
            0.07,
        )
        self.page.figure.colorbar(shown, cax=bar, orientation="horizontal")
        if shown.cmap is _BANDS:
            bar.set_xticks([100 * edge for edge in BAND_EDGES])
        bar.tick_params(labelsize=6, length=2, pad=1)

    def _left(self, col: int) -> float:
        return col * (self._width + _GAP)

    def _top(self, row: int) -> float:
        return _TOP + _CAPTION + row * (self._height + _CAPTION)


class _View:
    """One image with all that its row needs."""

    def __init__(
        self,
        image: np.ndarray,
        graders: np.ndarray,
        samples: np.ndarray,
        most_bits: float,
        class_names: Sequence[str] = (),
    ) -> None:
        self.class_names = class_names
        self.image, self.graders, self.samples = image, graders, samples
        self.most_bits = most_bits
        self.pair = most_different(samples, len(class_names))

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """The share of each class among the samples, [K, H, W]."""
        return class_shares(self.samples, len(self.class_names) or NUM_CLASSES)

    def caption(self) -> str:
        """Returns the distance between the most different samples, as text."""
        pair = [self.samples[self.pair.first], self.samples[self.pair.second]]
        empty = sum(not pictures.foreground(labels).any() for labels in pair)
        note = ("", ", one is empty", ", both are empty")[empty]
        return f"distance {self.pair.distance:.2f}{note}"


def _show_graders(axis: Axes, view: _View) -> None:
    pictures.show_image(axis, view.image)
    for labels in view.graders:
        mask = pictures.foreground(labels)
        pictures.outline(axis, mask, style.GRADER_COLOUR, width=0.8, alpha=0.8)


def _show_mean(axis: Axes, view: _View):
    return pictures.show_array(
        axis, mean_map(view.samples), cmap="cividis", vmin=0, vmax=1
    )


def _show_entropy(axis: Axes, view: _View):
    mean = mean_map(view.samples)
    bits = entropy_bits(np.stack([mean, 1 - mean]))
    return pictures.show_array(axis, bits, cmap="magma", vmin=0, vmax=view.most_bits)


def _show_bands(axis: Axes, view: _View):
    pictures.show_image(axis, view.image)
    mean = mean_map(view.samples)
    # Pixel by pixel, as contours between pixels would show bands that no sample has.
    norm = BoundaryNorm([100 * edge for edge in BAND_EDGES] + [101], _BANDS.N)
    outside = mean < BAND_EDGES[0]
    return pictures.show_array(
        axis,
        np.ma.masked_where(outside, 100 * mean),
        cmap=_BANDS,
        norm=norm,
        alpha=0.75,
    )


def _show_pair(axis: Axes, view: _View) -> None:
    pictures.show_image(axis, view.image)
    for place, colour, line in zip(view.pair[:2], _PAIR_COLOURS, _PAIR_LINES):
        mask = pictures.foreground(view.samples[place])
        pictures.outline(axis, mask, colour, width=1.1, linestyles=[line])


def _show_only_image(axis: Axes, view: _View) -> None:
    pictures.show_image(axis, view.image)


def _show_truth(axis: Axes, view: _View) -> None:
    _show_classes(axis, view, view.graders[0])


def _show_frequent(axis: Axes, view: _View) -> None:
    _show_classes(axis, view, view.shares.argmax(axis=0))


def _show_class_entropy(axis: Axes, view: _View):
    bits = entropy_bits(view.shares)
    return pictures.show_array(axis, bits, cmap="magma", vmin=0, vmax=view.most_bits)


def _show_first(axis: Axes, view: _View) -> None:
    _show_classes(axis, view, view.samples[view.pair.first])


def _show_second(axis: Axes, view: _View) -> None:
    _show_classes(axis, view, view.samples[view.pair.second])


def _show_classes(axis: Axes, view: _View, labels: np.ndarray) -> None:
    pictures.show_labels(
        axis, view.image, labels, binary=False, colour="", class_names=view.class_names
    )


def _show_class_graders(axis: Axes, view: _View) -> None:
    pictures.show_image(axis, view.image)
    for labels in view.graders:
        pictures.outline_classes(axis, labels, view.class_names, width=0.6)


_LESION_COLUMNS = (
    ("image", _show_only_image),
    ("graders", _show_graders),
    ("share of samples", _show_mean),
    ("entropy in bits", _show_entropy),
    ("bands, % of samples", _show_bands),
    ("most different pair", _show_pair),
)

_STREET_COLUMNS = (
    ("image", _show_only_image),
    ("ground truth", _show_truth),
    ("most frequent class", _show_frequent),
    ("entropy in bits", _show_class_entropy),
    ("most different pair", _show_first),
    ("", _show_second),
)

_CLASS_COLUMNS = (
    ("image", _show_only_image),
    ("graders", _show_class_graders),
    *_STREET_COLUMNS[2:],
)
