"""A grid of pictures that fits on a page: images one way, their maps the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from tf_probunet.figures import pictures, style

LAYOUTS = ("rows", "columns")

_MAX_CELL = 0.9
_GAP = 0.02
_GROUP_GAP = 0.07
_TITLE_HEIGHT = 0.24
# Above and left of the cells: for the names of maps, and the numbers of images.
_HEADING_HEIGHT, _NAME_WIDTH = 0.3, 0.62
_NUMBER_HEIGHT, _NUMBER_WIDTH = 0.16, 0.2


class Group(NamedTuple):
    """Neighbouring maps of one kind: the image, the graders, or the samples.

    Attributes:
        name: of one map.
        number: of maps; they are numbered if there are several.
    """

    name: str
    number: int


class Grid:
    """The page, with a cell for each map of each image.

    Cells are as large as the page allows. In the layout "rows" each image has a row, in
    "columns" a column.
    """

    def __init__(
        self,
        *,
        num_images: int,
        groups: Sequence[Group],
        aspect: float,
        layout: str,
        title: str = "",
        note: str = "",
        legend: Sequence[np.ndarray] = (),
        class_names: Sequence[str] = (),
    ) -> None:
        """Lays out the page and writes everything but the cells.

        Args:
            num_images: N.
            groups: the maps of each image; empty groups are left out.
            aspect: height of an image divided by its width.
            layout: one of `LAYOUTS`.
            title: above the grid.
            note: below it.
            legend: label maps whose classes are named at the bottom.
            class_names: of all classes; none for street scenes.

        Raises:
            ValueError: the layout is unknown.
        """
        if layout not in LAYOUTS:
            raise ValueError(
                f"layout is {layout!r}; expected one of {', '.join(LAYOUTS)}"
            )
        self._in_rows = layout == "rows"
        groups = [group for group in groups if group.number]
        self._num_images, self._groups = num_images, groups
        sizes = [group.number for group in groups]
        # The sum of the gaps between groups before each map.
        self._shifts = np.repeat(np.arange(len(sizes)), sizes) * _GROUP_GAP
        self._left = _NUMBER_WIDTH if self._in_rows else _NAME_WIDTH
        self._top = _HEADING_HEIGHT if self._in_rows else _NUMBER_HEIGHT
        self._top += _TITLE_HEIGHT if title else 0.0
        width = style.PAGE_WIDTH
        for _ in range(2):  # The note and the legend need more lines on a narrow page.
            below = _Below(note, legend, class_names, width)
            self._fit_cells(aspect, style.PAGE_HEIGHT - below.height)
            width, height = self._extent()
        below = _Below(note, legend, class_names, width)
        self.page = style.Page(width, height + below.height)
        if title:
            self.page.text(width / 2, 0.05, title, ha="center", va="top")
        below.write(self.page, height)
        self._write_names()
        self._write_numbers()

    def axes(self, image: int, place: int) -> Axes:
        """Adds the axes of one of an image's maps."""
        x, y = self._corner(image, place)
        return self.page.axes(x, y, self._width, self._height)

    def _fit_cells(self, aspect: float, page_height: float) -> None:
        across, down = self._counts()
        gaps = self._gaps()
        self._width = min(
            _MAX_CELL,
            (style.PAGE_WIDTH - self._left - gaps[0]) / across - _GAP,
            ((page_height - self._top - gaps[1]) / down - _GAP) / aspect,
        )
        self._height = self._width * aspect

    def _counts(self) -> tuple[int, int]:
        """Cells across and down."""
        counts = (len(self._shifts), self._num_images)
        return counts if self._in_rows else counts[::-1]

    def _gaps(self) -> tuple[float, float]:
        """All gaps between groups, across and down."""
        gap = float(self._shifts[-1])
        return (gap, 0.0) if self._in_rows else (0.0, gap)

    def _extent(self) -> tuple[float, float]:
        across, down = self._counts()
        gaps = self._gaps()
        return (
            self._left + across * (self._width + _GAP) + gaps[0],
            self._top + down * (self._height + _GAP) + gaps[1],
        )

    def _corner(self, image: int, place: int) -> tuple[float, float]:
        col, row = (place, image) if self._in_rows else (image, place)
        x = self._left + col * (self._width + _GAP)
        y = self._top + row * (self._height + _GAP)
        shift = self._shifts[place]
        return (x + shift, y) if self._in_rows else (x, y + shift)

    def _write_names(self) -> None:
        first = 0
        for group in self._groups:
            places = range(first, first + group.number)
            first += group.number
            if not self._in_rows:
                for number, place in enumerate(places, 1):
                    text = f"{group.name} {number}" if group.number > 1 else group.name
                    self._write_left(self._corner(0, place)[1], text)
            elif group.number == 1:
                self._write_above(places, group.name)
            else:
                self._write_above(places, f"{group.name}s", lift=0.12)
                for number, place in enumerate(places, 1):
                    self._write_above([place], str(number))

    def _write_numbers(self) -> None:
        for image in range(self._num_images):
            x, y = self._corner(image, 0)
            if self._in_rows:
                self._write_left(y, str(image + 1))
            else:
                self._write_at(x + self._width / 2, self._top, str(image + 1))

    def _write_above(self, places: Sequence[int], text: str, lift: float = 0.0) -> None:
        left, right = (self._corner(0, place)[0] for place in (places[0], places[-1]))
        self._write_at((left + right + self._width) / 2, self._top - lift, text)

    def _write_at(self, x: float, y: float, text: str) -> None:
        self.page.text(
            x, y - 0.02, text, ha="center", va="bottom", fontsize=style.SMALL
        )

    def _write_left(self, y: float, text: str) -> None:
        self.page.text(
            self._left - 0.05,
            y + self._height / 2,
            text,
            ha="right",
            va="center",
            fontsize=style.SMALL,
        )


class _Below:
    """The note and the legend below the cells."""

    def __init__(
        self,
        note: str,
        legend: Sequence[np.ndarray],
        class_names: Sequence[str],
        width: float,
    ) -> None:
        self._lines = pictures.wrapped(note, width)
        self._legend, self._class_names = legend, class_names
        self.height = pictures.note_height(self._lines)
        if len(legend):
            self.height += pictures.class_legend_height(legend, width, class_names)

    def write(self, page: style.Page, top: float) -> None:
        if self._lines:
            text = "\n".join(self._lines)
            page.text(0.02, top + 0.03, text, va="top", fontsize=style.SMALL)
        if len(self._legend):
            pictures.class_legend(page, self._legend, self._class_names)
