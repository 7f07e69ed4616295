"""Compares how often each of the 32 street-scene modes is sampled and is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_probunet.artifacts.results_dir import Results
from tf_probunet.dataset.cityscapes_labels import (
    MODE_BITS,
    MODE_PROBABILITIES,
    SWITCHES,
)
from tf_probunet.evaluation.metrics import switched_calibration
from tf_probunet.figures import style

# Around the probabilities, 0.5 % to 11 %.
_X_LIMITS = (3e-3, 0.2)
_HIGHEST = 0.5
# Lower frequencies are drawn as never sampled.
_LOWEST = 1e-4
_SIGMAS_OF_90_PERCENT = 1.645
_SAMPLED, _TRUE = style.BLUE, style.BLACK


def mode_counts(results: Results) -> np.ndarray:
    """Returns the samples per closest mode over all images, [32].

    Raises:
        UnavailableError: the results are not of the task with switched classes.
    """
    return results.array("mode_counts").reshape(-1, len(MODE_PROBABILITIES)).sum(axis=0)


def pixel_counts(results: Results) -> np.ndarray:
    """Returns the pixels per predicted and true class, [24, 19].

    Raises:
        UnavailableError: the results are not of the task with switched classes.
    """
    return results.array("pixel_counts")


def undecided_share(results: Results) -> float:
    """Returns the share of samples that fit several modes of the image.

    It is NaN for results of earlier versions, which do not have it.

    Raises:
        UnavailableError: the results are not of the task with switched classes.
    """
    total = mode_counts(results).sum()
    if not results.has("undecided"):
        return float("nan")
    return float(results.array("undecided").sum() / total)


@style.styled()
def draw(
    counts: Mapping[str, np.ndarray], undecided: Mapping[str, float] | None = None
) -> Figure:
    """Draws the sampled frequency of the modes over their probability, log-log.

    How to read it: each dot is one of the 32 modes. On the bisector a mode is sampled
    as often as it is true; above it too often, below it too rarely. Nine of ten dots
    of a perfect model lie in the grey band, whose width follows from the number of
    independent samples. Open triangles at the bottom are modes that were never, or
    hardly ever, sampled. KL is the divergence of the sampled from the true frequencies;
    0 is best. Samples that show neither a class of the image nor its new class fit
    several modes, and are shared among these by probability. If there are many such
    samples, dots on the bisector say little.

    Args:
        counts: [32] samples per closest mode, by the model's name.
        undecided: share of samples that fit several modes, by the model's name.

    Returns:
        The figure, one panel per model.
    """
    figure, axes = style.panels(len(counts), 2.6, sharex=True, sharey=True)
    modes = {
        name: switched_calibration.mode_calibration(model_counts)
        for name, model_counts in counts.items()
    }
    bottom = _bottom([calibration.frequencies for calibration in modes.values()])
    for place, (axis, name) in enumerate(zip(axes, counts)):
        _draw_band(axis, counts[name].sum(), bottom)
        share = (undecided or {}).get(name, float("nan"))
        _draw_modes(axis, name, modes[name], place, bottom, share)
    figure.supxlabel("true probability of the mode", fontsize=8)
    figure.supylabel("sampled frequency", fontsize=8)
    return figure


@style.styled()
def draw_histograms(
    name: str, mode_counts: np.ndarray, pixel_counts: np.ndarray
) -> Figure:
    """Draws the frequencies of modes and of switched pixels as histograms.

    How to read it: on the left, a bar is the share of samples closest to a mode, the
    black tick what it should be; modes are ordered by probability, and the squares
    below tell which classes a mode flips. On the right, of all pixels of a class, the
    share that is predicted as the new class (dark), as the class itself (light), or
    wrongly as something else (white); the black tick is where dark should end. If a
    model marks the right share of pixels but not of modes, it flips pixels one by one
    and not whole classes.

    Args:
        name: of the model.
        mode_counts: [32] samples per closest mode.
        pixel_counts: [24, 19] pixels per predicted and true class.

    Returns:
        The figure.
    """
    figure = style.new_figure(style.PAGE_WIDTH, 3.2, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(2.3, 1), height_ratios=(2.2, 1))
    bars = figure.add_subplot(grid[0, 0])
    flips = figure.add_subplot(grid[1, 0], sharex=bars)
    pixels = figure.add_subplot(grid[:, 1])
    order = np.argsort(-MODE_PROBABILITIES, kind="stable")
    modes = switched_calibration.mode_calibration(mode_counts)
    _draw_mode_bars(bars, modes.frequencies[order], modes.probabilities[order])
    _draw_flips(flips, order)
    _draw_pixel_bars(pixels, switched_calibration.pixel_calibration(pixel_counts))
    figure.suptitle(name, fontsize=9)
    return figure


def _bottom(frequencies: Sequence[np.ndarray]) -> float:
    """Returns the lower end of the axis, below every mode that is sampled."""
    sampled = np.concatenate([f[f > _LOWEST] for f in frequencies])
    return 0.5 * min(sampled.min(), _X_LIMITS[0])


def _draw_band(axis: Axes, num_samples: float, bottom: float) -> None:
    """Draws the bisector, and the band in which chance leaves a perfect model."""
    line = np.geomspace(*_X_LIMITS, 100)
    # The normal approximation to the binomial.
    chance = _SIGMAS_OF_90_PERCENT * np.sqrt(line * (1 - line) / num_samples)
    axis.fill_between(
        line,
        np.maximum(line - chance, bottom),
        line + chance,
        color="#DDDDDD",
        linewidth=0,
    )
    axis.plot(line, line, color=style.GREY, linewidth=0.8, label="bisector")


def _draw_modes(
    axis: Axes,
    name: str,
    modes: switched_calibration.ModeCalibration,
    place: int,
    bottom: float,
    undecided: float,
) -> None:
    colour = style.MODEL_COLOURS[place % len(style.MODEL_COLOURS)]
    rare = modes.frequencies <= _LOWEST
    axis.scatter(
        modes.probabilities[~rare],
        modes.frequencies[~rare],
        s=14,
        color=colour,
        edgecolors="black",
        linewidths=0.4,
        zorder=3,
        label="modes",
    )
    axis.scatter(
        modes.probabilities[rare],
        np.full(rare.sum(), 1.2 * bottom),
        s=16,
        marker="v",
        facecolors="none",
        edgecolors=colour,
        zorder=3,
        label="modes never sampled",
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(*_X_LIMITS)
    axis.set_ylim(bottom, _HIGHEST)
    missed = f"\n{modes.modes_missed} modes never sampled" if modes.modes_missed else ""
    fits = f"\n{undecided:.0%} of samples fit several modes" if undecided > 0 else ""
    axis.set_title(f"{name}\nKL {modes.kl_divergence:.3f} nats{missed}{fits}")


def _draw_mode_bars(
    axis: Axes, frequencies: np.ndarray, probabilities: np.ndarray
) -> None:
    x = np.arange(len(frequencies))
    axis.bar(x, frequencies, width=0.75, color=_SAMPLED, label="sampled")
    axis.hlines(probabilities, x - 0.45, x + 0.45, color=_TRUE, lw=1.4, label="true")
    axis.set_xlim(-0.6, len(x) - 0.4)
    axis.set_ylabel("share of samples")
    axis.tick_params(axis="x", labelbottom=False, length=0)
    axis.legend(loc="upper right")
    axis.set_title("modes, by probability")


def _draw_flips(axis: Axes, order: np.ndarray) -> None:
    flipped = MODE_BITS[order]  # [32, 5]
    for marked, colour in ((~flipped, "#DDDDDD"), (flipped, "black")):
        x, y = np.nonzero(marked)
        axis.scatter(x, y, s=9, marker="s", color=colour, linewidths=0)
    axis.set_yticks(range(len(SWITCHES)), [f"{s.name} 2" for s in SWITCHES])
    axis.set_xticks(range(len(order)), order)
    axis.tick_params(length=0)
    axis.tick_params(axis="x", labelsize=6.5, rotation=90)
    axis.set_ylim(len(SWITCHES) - 0.4, -0.6)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.set_xlabel("mode; black: flipped")


def _draw_pixel_bars(axis: Axes, pixels: switched_calibration.PixelCalibration) -> None:
    y = np.arange(len(SWITCHES))
    stay, flip = pixels.frequencies.T
    axis.barh(y, flip, height=0.6, color=_SAMPLED, label="new class")
    axis.barh(y, stay, left=flip, height=0.6, color=style.SKY_BLUE, label="class")
    truth = pixels.probabilities[:, 1]
    axis.vlines(truth, y - 0.4, y + 0.4, color=_TRUE, lw=1.4, label="true")
    axis.set_yticks(y, [f"{s.name} 2\n{s.name}" for s in SWITCHES])
    axis.set_ylim(len(y) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the class's pixels")
    axis.set_title("pixels")
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3, handlelength=1
    )
