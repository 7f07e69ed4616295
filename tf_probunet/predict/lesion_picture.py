"""One picture of a lesion: its slices as a strip, its hypotheses, its size."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from tf_probunet.evaluation.metrics import volumes
from tf_probunet.figures import pictures, style
from tf_probunet.predict.grid import Region
from tf_probunet.predict.intensity import brightened
from tf_probunet.predict.lesion import Lesion
from tf_probunet.predict.lesion_summary import size_text

_COLUMNS = 6
_MAX_SLICES = 12
_GAP = 0.08
_CAPTION = 0.2
_HEAD = 0.5
_CHART = 1.25
_MARGIN_PX = 6
_LEAST_PX = 24
_DPI = 200
_OUTLINES = (style.ORANGE, style.SKY_BLUE, style.YELLOW, style.PURPLE, style.GREEN)
_MAX_SHOWN = len(_OUTLINES)  # The most probable hypotheses.


@style.styled()
def render(lesion: Lesion) -> bytes:
    """Draws the picture.

    At most twelve slices are shown, evenly spread over those that any sample marks,
    with the outlines of the hypotheses. Below are the hypotheses and the distributions
    of volume and diameter, with their median and intervals.

    Returns:
        PNG.
    """
    chosen = _slices(lesion)
    window = _window(lesion)
    columns = min(_COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    side = (style.PAGE_WIDTH - _GAP) / _COLUMNS - _GAP
    height = side * min(window.height / window.width, 1.6)
    strip = rows * (height + _CAPTION)
    page = style.Page(style.PAGE_WIDTH, _HEAD + strip + _CHART + 0.75)
    name = lesion.name if len(lesion.name) <= 60 else f"{lesion.name[:57]}..."
    page.text(_GAP, 0.16, name, fontsize=9, va="center", weight="bold")
    page.text(_GAP, 0.34, _subtitle(lesion), fontsize=style.SMALL, va="center")
    for i, place in enumerate(chosen):
        axis = page.axes(
            _GAP + (i % columns) * (side + _GAP),
            _HEAD + (i // columns) * (height + _CAPTION),
            side,
            height,
        )
        pictures.show_image(axis, brightened(lesion.shown[place][window.slices]))
        for rank in reversed(range(min(_MAX_SHOWN, len(lesion.hypotheses.indices)))):
            sample = lesion.hypotheses.indices[rank]
            mask = lesion.labels[sample, place][window.slices] > 0
            pictures.outline(axis, mask, _OUTLINES[rank], 1.0)
        share = lesion.slice_presence[place]
        axis.text(
            0.5, -0.03, f"slice {lesion.slice_numbers[place]}: {share:.0%}",
            transform=axis.transAxes, ha="center", va="top", fontsize=7,
        )  # fmt: skip
    top = _HEAD + strip + 0.28
    width = (style.PAGE_WIDTH - 1.3) / 3
    _hypotheses(page, lesion, top)
    sizes = (
        (lesion.volumes_mm3, "volume, mm³"),
        (lesion.diameters_mm, "longest diameter within a slice, mm"),
    )
    for i, (values, title) in enumerate(sizes, start=1):
        left = 0.3 + i * (width + 0.35)
        _histogram(page.axes(left, top, width, _CHART - 0.15), values, title)
    return style.to_png(page.figure, _DPI)


def _slices(lesion: Lesion) -> list[int]:
    """Returns at most twelve slices between the first and the last with a mark."""
    marked = np.flatnonzero(lesion.slice_presence > 0)
    if not marked.size:
        return [lesion.point[0] - lesion.first]
    low, high = int(marked[0]), int(marked[-1])
    number = min(_MAX_SLICES, high - low + 1)
    return sorted({round(p) for p in np.linspace(low, high, number)})


def _window(lesion: Lesion) -> Region:
    """Returns the part of the box around all marks, at least some pixels large."""
    marked = np.asarray(lesion.labels.any(axis=(0, 1)))
    size = marked.shape
    if not marked.any():
        return Region(0, 0, *size)
    starts, lengths = [], []
    for axis in range(2):
        places = np.flatnonzero(marked.any(axis=1 - axis))
        length = max(places[-1] - places[0] + 1 + 2 * _MARGIN_PX, _LEAST_PX)
        length = min(length, size[axis])
        start = (places[0] + places[-1] + 1 - length) // 2
        starts.append(int(min(max(start, 0), size[axis] - length)))
        lengths.append(int(length))
    return Region(*starts, *lengths)


def _subtitle(lesion: Lesion) -> str:
    return (
        f"present in {lesion.presence:.0%} of {len(lesion.labels)} samples; volume "
        f"{size_text(lesion.volumes_mm3, 'mm³')}, diameter "
        f"{size_text(lesion.diameters_mm, 'mm')}: median and 90 % interval; "
        f"slices {lesion.volume.step_mm:g} mm apart"
    )


def _hypotheses(page: style.Page, lesion: Lesion, top: float) -> None:
    sizes = lesion.volumes_mm3
    page.text(_GAP, top + 0.02, "hypotheses", fontsize=style.SMALL, va="center")
    shown = list(zip(*lesion.hypotheses[:2]))[:_MAX_SHOWN]
    for rank, (sample, weight) in enumerate(shown):
        line = top + 0.22 + 0.17 * rank
        page.text(_GAP, line, "\u25a0", fontsize=9, va="center", color=_OUTLINES[rank])
        size = f"{sizes[sample]:.0f} mm³" if sizes[sample] else "nothing"
        text = f"{weight:.0%}: {size}"
        page.text(_GAP + 0.16, line, text, fontsize=style.SMALL, va="center")


def _histogram(axis: Axes, values: np.ndarray, title: str) -> None:
    axis.hist(values, bins=min(20, max(5, len(values) // 4)), color=style.SKY_BLUE)
    for share, alpha in zip(volumes.SHARES, (0.25, 0.12)):
        low, high = volumes.central_interval(values, share)
        axis.axvspan(low, high, color=style.ORANGE, alpha=alpha, linewidth=0)
    axis.axvline(float(np.median(values)), color=style.ORANGE, linewidth=1.2)
    axis.set_xlabel(title, fontsize=7)
    axis.set_ylabel("samples", fontsize=7)
    axis.tick_params(labelsize=6)
