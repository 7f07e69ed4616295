"""The style of all figures: page, colours, fonts, and reproducible files."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tf_probunet import files

# Font sizes fit a figure as wide as a page, so that it need not be scaled.
PAGE_WIDTH = 7.1
PAGE_HEIGHT = 9.4
DPI = 300

# Okabe and Ito's colours, which colour-blind readers can distinguish.
BLACK, ORANGE, SKY_BLUE, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#666666"

GRADER_COLOUR = ORANGE
SAMPLE_COLOUR = SKY_BLUE

# Of models, in turn; the markers distinguish them in grey as well.
MODEL_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, GREY, BLACK)
MODEL_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")

SMALL = 6.5

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    # Text stays text, and ids do not depend on chance.
    "svg.fonttype": "none",
    "svg.hashsalt": "tf_probunet",
}


def styled() -> Any:
    """Returns a context manager, or decorator, that replaces the user's settings."""
    return matplotlib.style.context(_SETTINGS, after_reset=True)


class Page:
    """A figure laid out in inches, from its top left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = new_figure(width, height)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Adds axes whose top left corner is at (`left`, `top`)."""
        return self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )

    def text(self, left: float, top: float, text: str, **settings: Any) -> Text:
        """Writes text at (`left`, `top`)."""
        return self.figure.text(
            left / self.width, 1 - top / self.height, text, **settings
        )


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """Returns a figure of a size in inches, unknown to pyplot."""
    figure = Figure(figsize=(width, height), **settings)
    FigureCanvasAgg(figure)
    return figure


def panels(number: int, height: float, columns: int = 3, **settings: Any):
    """Returns a figure as wide as a page and its panels, for one model each.

    Args:
        number: of panels.
        height: of one row of panels, in inches.
        columns: panels in a row, at most.
        **settings: for `Figure.subplots`.

    Returns:
        The figure and a list of `number` axes.
    """
    columns = min(columns, number)
    rows = -(-number // columns)
    figure = new_figure(PAGE_WIDTH, rows * height, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **settings).ravel()
    for axis in axes[number:]:
        axis.remove()
    return figure, list(axes[:number])


@styled()
def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """Renders a figure as PNG; the same figure gives the same bytes."""
    return _render(figure, "png", dpi)


@styled()
def save(figure: Figure, out_dir: files.Path, stem: str) -> list[pathlib.Path]:
    """Writes `<stem>.png` and `<stem>.svg` atomically.

    Args:
        figure: what to write.
        out_dir: the directory, created if necessary.
        stem: the files' name without suffix.

    Returns:
        The two files.
    """
    paths = []
    for suffix in ("png", "svg"):
        path = pathlib.Path(out_dir, f"{stem}.{suffix}")
        files.write_bytes(path, _render(figure, suffix, DPI))
        paths.append(path)
    return paths


def _render(figure: Figure, suffix: str, dpi: int) -> bytes:
    buffer = io.BytesIO()
    # Without this, SVG files hold the time of day.
    metadata = {"Date": None} if suffix == "svg" else None
    figure.savefig(buffer, format=suffix, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
