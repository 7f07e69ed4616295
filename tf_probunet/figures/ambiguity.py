"""Histograms of the samples with a lesion, for ambiguous and unambiguous images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_probunet.artifacts.results_dir import Results, UnavailableError
from tf_probunet.evaluation.metrics import ambiguity
from tf_probunet.figures import style

_AMBIGUOUS, _UNAMBIGUOUS = style.VERMILION, style.SKY_BLUE
_BAR = 0.42


class Presences(NamedTuple):
    """What one model's samples say about the presence of lesions.

    Attributes:
        name: of the model.
        counts: [N] samples with a lesion, 0 to S.
        ambiguous: [N] whether the graders disagree on the presence.
        num_samples: S.
        rule: chosen on validation data; None to choose it on these images.
    """

    name: str
    counts: np.ndarray
    ambiguous: np.ndarray
    num_samples: int
    rule: ambiguity.Rule | None = None


def presences(results: Results) -> Presences:
    """Returns the presences in a model's results.

    Raises:
        UnavailableError: the results do not have them.
    """
    counts, graders = (
        results.array(name) for name in ("sample_presence", "grader_presence")
    )
    found = results.summary.get("ambiguity")
    if not found:
        raise UnavailableError(
            f"{results.path}: no results on ambiguity, which need at least two graders"
        )
    number = results.summary["data"]["graders"]
    if results.has("num_graders"):
        number = results.array("num_graders")
    counts, ambiguous = ambiguity.presence_of_several(counts, graders, number)
    rule = None
    if found.get("threshold") is not None:
        rule = ambiguity.Rule(found["threshold"], found["direction"])
    return Presences(
        name=results.title,
        counts=counts,
        ambiguous=ambiguous,
        num_samples=found["num_samples"],
        rule=rule,
    )


@style.styled()
def draw(models: Sequence[Presences]) -> Figure:
    """Draws two histograms per model over the number of samples with a lesion.

    How to read it: orange bars count images on which graders disagree whether there is
    a lesion, blue hatched bars those on which they agree. The better a model knows what
    is ambiguous, the less the two overlap. The dashed line is the threshold, and the
    arrow points to the side that is called ambiguous. The title gives the accuracy of
    this rule, and that of calling every image ambiguous. Without a threshold from
    validation data, the best one for these images is used; the title then says so, and
    the accuracy is too optimistic.

    Args:
        models: one or more.

    Returns:
        The figure, one panel per model.

    Raises:
        ValueError: counts are not in 0 to S.
    """
    figure, axes = style.panels(len(models), 2.5, columns=2, sharey=True)
    for axis, model in zip(axes, models):
        _draw_panel(axis, model)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    figure.supxlabel("samples with a lesion", fontsize=8)
    figure.supylabel("images", fontsize=8)
    return figure


def _draw_panel(axis: Axes, model: Presences) -> None:
    hit, miss = ambiguity.histograms(model.counts, model.ambiguous, model.num_samples)
    x = np.arange(model.num_samples + 1)
    axis.bar(x - _BAR / 2, hit, _BAR, color=_AMBIGUOUS, label="ambiguous")
    axis.bar(
        x + _BAR / 2,
        miss,
        _BAR,
        color=_UNAMBIGUOUS,
        hatch="/////",
        edgecolor=style.BLUE,
        linewidth=0,
        label="unambiguous",
    )
    rule = model.rule or ambiguity.best_rule(
        model.counts, model.ambiguous, model.num_samples
    )
    _draw_threshold(axis, rule)
    axis.margins(y=0.15)  # Room for the arrow.
    axis.set_xticks(x[:: max(1, model.num_samples // 8)])
    axis.set_xlim(-0.9, model.num_samples + 0.9)
    right = float((rule(model.counts) == model.ambiguous).mean())
    chosen = "" if model.rule else "\nthreshold chosen on these images"
    axis.set_title(
        f"{model.name}\naccuracy {right:.3f} "
        f"(always “ambiguous”: {model.ambiguous.mean():.3f}){chosen}"
    )


def _draw_threshold(axis: Axes, rule: ambiguity.Rule) -> None:
    edge = rule.threshold - 0.5
    axis.axvline(edge, color="black", linewidth=1, linestyle=(0, (4, 2)))
    sign = -1 if rule.direction == "below" else 1
    axis.annotate(
        "",
        xy=(edge + 1.6 * sign, 0.96),
        xytext=(edge, 0.96),
        xycoords=("data", "axes fraction"),
        arrowprops={"arrowstyle": "->", "linewidth": 1},
        annotation_clip=False,
    )
