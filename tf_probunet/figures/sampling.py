"""The energy distance over the number of samples, for several ways of sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_probunet.figures import style

_LOOKS = {
    "independent": (style.VERMILION, "s", "independent samples"),
    "stratified": (style.BLUE, "o", "stratified samples"),
    "weighted": (style.GREEN, "^", "weighted hypotheses"),
}
_HEIGHT = 3.1


@style.styled()
def draw(results: dict[str, Any]) -> Figure:
    """Draws the means and intervals of `run/compare_sampling.py`.

    How to read it: the further left a point reaches a level, the fewer samples one has
    to look at for the same quality. The dashed curve is the floor of independent
    samples, the dotted line that of chosen ones: what a perfect model would score. The
    thin line is what this model scores with as many samples as one likes.

    Args:
        results: the content of `sampling.json`.

    Returns:
        The figure.
    """
    figure = style.new_figure(style.PAGE_WIDTH, _HEIGHT, layout="constrained")
    axis = figure.subplots()
    for way, (colour, marker, title) in _LOOKS.items():
        _curve(axis, results["ways"][way], colour, marker, title)
    floor = {int(n): value["mean"] for n, value in results["floor"].items()}
    first, last = min(floor), max(floor)
    ends = (0.85 * first, 1.18 * last)
    # floor(n) = chosen + spread / n exactly.
    chosen = results["chosen_floor"]["mean"]
    n = np.geomspace(first, last, 100)
    axis.plot(
        n, chosen + (floor[first] - chosen) * first / n, color="black", linewidth=1.1,
        linestyle=(0, (4, 2)), label="floor of independent samples",
    )  # fmt: skip
    axis.plot(
        ends, (chosen, chosen), color="black", linewidth=1.1, linestyle=(0, (1, 1.2)),
        label="floor of chosen samples",
    )  # fmt: skip
    limit = results["limit"]["mean"]
    axis.plot(
        ends, (limit, limit), color=style.GREY, linewidth=0.7,
        label=f"this model, all {results['pool']} samples",
    )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xlim(*ends)
    axis.set_xticks(sorted(floor), [str(count) for count in sorted(floor)])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("number of samples")
    axis.set_ylabel(r"squared energy distance $D^2_{\mathrm{GED}}$ (lower is better)")
    axis.legend(loc="upper right")
    return figure


def _curve(
    axis: Axes, by_count: dict[str, Any], colour: str, marker: str, title: str
) -> None:
    counts = np.array([int(count) for count in by_count])
    values = [found["ged"] for found in by_count.values()]
    mean = np.array([value["mean"] for value in values])
    if all(value["low"] is not None for value in values):
        low, high = (np.array([v[side] for v in values]) for side in ("low", "high"))
        axis.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(
        counts, mean, color=colour, marker=marker, markersize=5, linewidth=1.4,
        markeredgecolor="black", markeredgewidth=0.6, label=title, zorder=3,
    )  # fmt: skip
