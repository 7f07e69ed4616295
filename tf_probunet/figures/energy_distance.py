"""The energy distance of each image, per model and number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tf_probunet.artifacts.results_dir import Results
from tf_probunet.figures import style

# The share of the distance between two groups that the strips of a group fill.
_GROUP_WIDTH = 0.84
_STRIP_WIDTH = 0.72
_MAX_JITTER = 0.16
_HEIGHT = 3.6
# With more columns than this, the means are rotated by 90 degrees.
_MAX_LEVEL_NUMBERS = 24


class Scores(NamedTuple):
    """One model's energy distances.

    Attributes:
        name: of the model.
        counts: [C] numbers of samples.
        values: [N, C] squared energy distance of each image; NaN where undefined.
        floor: [N, C] what a perfect model would have, or None.
        low: [C] lower bound of the mean's confidence interval, or None.
        high: [C] upper bound, or None.
        is_chosen: whether the samples are stratified or weighted. Their floor is lower.
    """

    name: str
    counts: np.ndarray
    values: np.ndarray
    floor: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    is_chosen: bool = False


def scores(results: Results) -> Scores:
    """Returns the scores in a model's results.

    Raises:
        ValueError: the results are damaged, or have no images.
    """
    counts, values = results.array("counts"), results.array("ged")
    if not values.size:
        raise ValueError(f"{results.path}: no images, expected at least one")
    means = [results.required_interval("ged", n) for n in results.counts]
    low, high = (
        np.array([_number(mean[side]) for mean in means]) for side in ("low", "high")
    )
    floor = results.array("floor") if results.has("floor") else None
    chosen = results.sampling != "independent"
    return Scores(results.title, counts, values, floor, low, high, chosen)


@style.styled()
def draw(models: Sequence[Scores]) -> Figure:
    """Draws all data points with their mean, one group of columns per sample count.

    How to read it: each dot is one image's squared energy distance between samples and
    graders; lower is better, 0 means equal distributions. The large symbol is the mean
    over images, also written above its column, with its confidence interval if there is
    one. The dashed line is the floor: the mean that a perfect model would have with as
    many independent samples; the dotted line is that of chosen (stratified or weighted)
    samples. Compare the symbol with this line, not with 0. Horizontal stripes come
    from images in which graders or samples are empty.

    Args:
        models: one or more, or the variants of an ablation; they need not have the same
            counts.

    Returns:
        The figure.
    """
    counts = sorted({int(n) for model in models for n in model.counts})
    figure = style.new_figure(style.PAGE_WIDTH, _HEIGHT, layout="constrained")
    axis = figure.subplots()
    generator = np.random.default_rng(0)
    for place, model in enumerate(models):
        for column, count in enumerate(model.counts):
            x = counts.index(int(count)) + _offset(place, len(models))
            _strip(axis, x, model, column, place, len(models), generator)
            upright = len(models) * len(counts) > _MAX_LEVEL_NUMBERS
            _write_mean(axis, x, model.values[:, column], upright)
    _above(axis, 0.0, "mean", xycoords="axes fraction", ha="right")
    floors = {
        chosen: [
            _floor([m for m in models if m.is_chosen == chosen], n) for n in counts
        ]
        for chosen in (False, True)
    }
    for chosen, values in floors.items():
        _draw_floors(axis, values, chosen)
    axis.set_xticks(range(len(counts)), [*map(_tick_label, counts, *floors.values())])
    axis.set_xlim(-0.5, len(counts) - 0.5)
    axis.tick_params(axis="x", length=0)
    for edge in range(1, len(counts)):
        axis.axvline(edge - 0.5, color="#DDDDDD", linewidth=0.6, zorder=0)
    axis.set_xlabel("number of samples")
    axis.set_ylabel(r"squared energy distance $D^2_{\mathrm{GED}}$ (lower is better)")
    figure.legend(
        handles=_legend(models, [c for c in floors if np.isfinite(floors[c]).any()]),
        loc="outside upper center",
        ncols=4,
    )
    return figure


def _strip(
    axis: Axes,
    x: float,
    model: Scores,
    column: int,
    place: int,
    number: int,
    generator: np.random.Generator,
) -> None:
    """Draws one column: the dots, the mean and its interval."""
    colour, marker = _look(place)
    values = model.values[:, column]
    values = values[np.isfinite(values)]
    if not values.size:
        return
    half = min(_STRIP_WIDTH * _GROUP_WIDTH / number / 2, _MAX_JITTER)
    jitter = generator.uniform(-half, half, values.size)
    # Thousands of dots would make the SVG slow to show, so they become one picture.
    axis.scatter(
        x + jitter,
        values,
        s=4,
        color=colour,
        alpha=float(np.clip(100 / values.size, 0.15, 0.5)),
        linewidths=0,
        rasterized=True,
        label="images",
    )
    mean = values.mean()
    if model.low is not None and model.high is not None:
        bounds = [model.low[column], model.high[column]]
        if np.isfinite(bounds).all():
            axis.plot([x, x], bounds, color="black", lw=1.2)
    axis.plot(
        x,
        mean,
        marker=marker,
        markersize=6.5,
        color=colour,
        markeredgecolor="black",
        markeredgewidth=0.9,
        linestyle="none",
        zorder=4,
        label="mean",
    )


def _write_mean(axis: Axes, x: float, values: np.ndarray, upright: bool) -> None:
    if np.isfinite(values).any():
        _above(
            axis,
            x,
            _short(np.nanmean(values)),
            xycoords=("data", "axes fraction"),
            ha="center",
            rotation=90 if upright else 0,
        )


def _above(axis: Axes, x: float, text: str, **settings: Any) -> None:
    """Writes above the axes."""
    axis.annotate(
        text,
        (x, 1.0),
        xytext=(0, 2),
        textcoords="offset points",
        va="bottom",
        fontsize=style.SMALL,
        **settings,
    )


def _draw_floors(axis: Axes, floors: Sequence[float], chosen: bool) -> None:
    for group, floor in enumerate(floors):
        if np.isfinite(floor):
            ends = (group - _GROUP_WIDTH / 2, group + _GROUP_WIDTH / 2)
            axis.plot(
                ends, (floor, floor), zorder=3, label="floor", **_FLOOR_LINES[chosen]
            )


_FLOOR_LINES: dict[bool, dict[str, Any]] = {
    chosen: {"color": "black", "linewidth": 1.2, "linestyle": (0, dashes)}
    for chosen, dashes in ((False, (4, 2)), (True, (1, 1.2)))
}


def _floor(models: Sequence[Scores], count: int) -> float:
    """Returns the mean floor of the first model that has one for a count, or NaN."""
    for model in models:
        if model.floor is not None and count in model.counts:
            values = model.floor[:, list(model.counts).index(count)]
            if np.isfinite(values).any():
                return float(np.nanmean(values))
    return float("nan")


def _offset(place: int, number: int) -> float:
    return ((place + 0.5) / number - 0.5) * _GROUP_WIDTH


def _tick_label(count: int, *floors: float) -> str:
    known = [_short(floor) for floor in floors if np.isfinite(floor)]
    return f"{count}\nfloor {' / '.join(known)}" if known else str(count)


def _legend(models: Sequence[Scores], floors: Sequence[bool]) -> list[Line2D]:
    handles = []
    for place, model in enumerate(models):
        colour, marker = _look(place)
        handles.append(
            Line2D(
                [],
                [],
                color=colour,
                marker=marker,
                markeredgecolor="black",
                linestyle="none",
                label=_name_with_gaps(model),
            )
        )
    for chosen in floors:
        label = f"floor: a perfect model{', chosen samples' if chosen else ''}"
        handles.append(Line2D([], [], label=label, **_FLOOR_LINES[chosen]))
    return handles


def _name_with_gaps(model: Scores) -> str:
    """Returns the model's name, with the number of images that have no value."""
    undefined = int((~np.isfinite(model.values)).any(axis=1).sum())
    note = f" ({undefined} of {len(model.values)} undefined)" if undefined else ""
    return model.name + note


def _look(place: int) -> tuple[str, str]:
    return (
        style.MODEL_COLOURS[place % len(style.MODEL_COLOURS)],
        style.MODEL_MARKERS[place % len(style.MODEL_MARKERS)],
    )


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
