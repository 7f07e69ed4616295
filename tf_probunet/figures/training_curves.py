"""Draws the energy distance and the terms of the objective over training."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from tf_probunet.figures import style

_PANELS = {
    "validation/ged": "energy distance",
    "validation/cross_entropy": "cross-entropy [nats]",
    "validation/kl": "KL divergence [nats]",
    "training/energy_distance": "energy distance, in training",
}


@style.styled()
def draw(
    runs: Mapping[str, Mapping[str, Mapping[int, float]]], floor: float | None = None
) -> Figure:
    """Draws the validation scores of runs, by step.

    How to read it: on the left is what a user gets, samples from the prior against the
    graders. In the middle is how well latents from the posterior, which has seen the
    grader, are decoded, and on the right how far the posterior is from the prior. If
    the middle falls and the left does not, the posterior has learned something that
    the prior cannot predict. A run on the energy distance has a panel with that of its
    soft samples in training. Panels that no run has numbers for are left out.

    Args:
        runs: by name, the numbers that each run has logged, by tag and step.
        floor: the energy distance of a perfect model, drawn as a dashed line.

    Returns:
        The figure.

    Raises:
        ValueError: a run was never validated.
    """
    panels = {
        tag: title
        for tag, title in _PANELS.items()
        if any(scalars.get(tag) for scalars in runs.values())
    }
    figure, axes = style.panels(max(len(panels), 1), 2.2)
    for place, (name, scalars) in enumerate(runs.items()):
        if not scalars.get("validation/ged"):
            raise ValueError(f"{name}: no validation/ged in its log, expected one")
        for axis, tag in zip(axes, panels):
            values = sorted(scalars.get(tag, {}).items())
            axis.plot(
                [step for step, _ in values],
                [value for _, value in values],
                color=style.MODEL_COLOURS[place % len(style.MODEL_COLOURS)],
                marker=style.MODEL_MARKERS[place % len(style.MODEL_MARKERS)],
                markersize=3 if tag.startswith("validation/") else 0,
                linewidth=1.2 if tag.startswith("validation/") else 0.6,
                label=name,
            )
    if floor is not None:
        axes[0].axhline(floor, color=style.GREY, linewidth=0.8, linestyle="--")
        axes[0].annotate(
            "floor",
            (1, floor),
            (-2, 2),
            ("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            fontsize=style.SMALL,
        )
    for axis, title in zip(axes, panels.values()):
        axis.set_ylabel(title)
        axis.set_xlabel("step")
    if len(runs) > 1:
        axes[0].legend()
    return figure
