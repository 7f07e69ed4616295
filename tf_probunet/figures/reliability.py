"""Draws how reliable shares of samples are as probabilities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_probunet.artifacts.results_dir import Results
from tf_probunet.evaluation.metrics.calibration import Reliability
from tf_probunet.figures import style


def of_results(results: Results, name: str) -> Reliability:
    """Returns the sums per bin in a model's results.

    Args:
        results: of the model.
        name: "pixel" or "presence".

    Raises:
        UnavailableError: the results do not have them.
    """
    return Reliability(*results.array(f"{name}_reliability").sum(axis=0))


@style.styled()
def draw(models: Mapping[str, Reliability], what: str = "a pixel") -> Figure:
    """Draws how often graders mark pixels, over the share of samples that do.

    How to read it: above, each symbol is one bin of pixels: how many of the samples
    mark them, on average, and how many of the graders do. On the diagonal the share of
    samples is a reliable probability. Above it the model misses lesions, below it the
    model invents them. The lower panel shows the number of pixels (times graders) in
    each bin, on a logarithmic scale: most are background, and a bin with few pixels has
    little weight. ECE is the expected
    calibration error; 0 is best. With few samples even a perfect model's curve is
    flatter than the diagonal. The same figure shows images instead of pixels, and how
    many samples and graders mark anything.

    Args:
        models: sums per bin, by the model's name.
        what: is marked.

    Returns:
        The figure.
    """
    figure = style.new_figure(0.62 * style.PAGE_WIDTH, 4.6, layout="constrained")
    curve, bars = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1)}
    )
    curve.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
    for place, (name, sums) in enumerate(models.items()):
        _draw_curve(curve, name, sums, place)
        _draw_bins(bars, sums, place, len(models))
    curve.set_ylabel(f"share of graders who mark {what}")
    curve.set_ylim(-0.02, 1.02)
    curve.set_xlim(-0.02, 1.02)
    curve.legend(loc="upper left")
    bars.set_yscale("log")
    bars.set_ylabel("observations")
    bars.set_xlabel(f"share of samples that mark {what}")
    return figure


def _draw_curve(axis: Axes, name: str, sums: Reliability, place: int) -> None:
    predicted, observed = sums.curve()
    filled = np.isfinite(predicted)
    axis.plot(
        predicted[filled],
        observed[filled],
        color=style.MODEL_COLOURS[place % len(style.MODEL_COLOURS)],
        marker=style.MODEL_MARKERS[place % len(style.MODEL_MARKERS)],
        markersize=4.5,
        linewidth=1.2,
        label=f"{name}: ECE {sums.expected_calibration_error():.4f}",
    )


def _draw_bins(axis: Axes, sums: Reliability, place: int, number: int) -> None:
    num_bins = len(sums.number)
    centres = (np.arange(num_bins) + 0.5) / num_bins
    width = 0.8 / num_bins / number
    axis.bar(
        centres + (place - (number - 1) / 2) * width,
        sums.number,
        width,
        color=style.MODEL_COLOURS[place % len(style.MODEL_COLOURS)],
    )
