"""One readable picture of a prediction: image, mean, entropy, hypotheses."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.figures import pictures, style
from tf_probunet.figures.palette import colors
from tf_probunet.predict.grid import Region
from tf_probunet.predict.intensity import brightened
from tf_probunet.predict.prediction import Prediction
from tf_probunet.predict.summary import area_text, foreground_classes, presence

_MAX_SHOWN = 8
_AREAS_SHOWN = 2  # More classes do not fit below a panel.
_COLUMNS = 4
_LEGEND_COLUMNS = 6
_PANEL = 1.68
_GAP = 0.09
_CAPTION = 0.26
_HEAD = 0.46
_DPI = 200

# For the outlines, in turn.
_OUTLINES = (style.ORANGE, style.SKY_BLUE, style.YELLOW, style.PURPLE, style.GREEN)


@style.styled()
def render(prediction: Prediction, model: LoadedModel) -> bytes:
    """Draws the picture.

    What the network sees is shown as it sees it; where that is a part of the image, the
    first panel shows where it and the region lie. At most eight hypotheses are drawn,
    the most probable first; below each is its probability and its area.

    Returns:
        PNG.
    """
    shown = prediction.hypotheses.found[:_MAX_SHOWN]
    rows = 1 + -(-len(shown) // _COLUMNS)
    shape = prediction.seen_image.shape
    height = _PANEL * min(max(shape[0] / shape[1], 0.4), 1.6)
    entries = _legend_entries(prediction, model)
    legend = 0.16 * -(-len(entries) // _LEGEND_COLUMNS) + 0.12
    page = style.Page(style.PAGE_WIDTH, _HEAD + rows * (height + _CAPTION) + legend)
    page.text(_GAP, 0.18, _title(prediction), fontsize=9, va="center", weight="bold")
    subtitle = _subtitle(prediction, model)
    page.text(_GAP, 0.34, subtitle, fontsize=style.SMALL, va="center")
    if entries:
        page.figure.legend(
            handles=entries,
            loc="lower center",
            ncols=_LEGEND_COLUMNS,
            fontsize=style.SMALL,
            handlelength=1,
        )

    def panel(row: int, col: int) -> Axes:
        top = _HEAD + row * (height + _CAPTION) + (0 if row == 0 else 0.08)
        return page.axes(_GAP + col * (_PANEL + _GAP), top, _PANEL, height)

    first = 0
    if prediction.grid.seen_in_image.shape != prediction.image.shape:
        _show_place(panel(0, 0), prediction)
        first = 1
    _show_overview(panel, first, prediction, model)
    if not first and len(model.class_names) == 2:
        _show_all(panel(0, 3), prediction)
    elif not first and pictures.has_outlines(model.class_names):
        _show_all_classes(panel(0, 3), prediction, model)
    for i, hypothesis in enumerate(shown):
        axis = panel(1 + i // _COLUMNS, i % _COLUMNS)
        labels = prediction.seen(prediction.labels[hypothesis.sample])
        _show_labels(axis, prediction, labels, _OUTLINES[i % len(_OUTLINES)], model)
        if model.has_background:
            what = _areas(prediction, labels, model)
            _caption(axis, f"{hypothesis.probability:.0%}: {what}")
        else:
            _caption(axis, f"{hypothesis.probability:.0%}")
    return style.to_png(page.figure, _DPI)


def _areas(prediction: Prediction, labels: np.ndarray, model: LoadedModel) -> str:
    """Returns the area of what is marked, of each class if there are several."""
    if not labels.any():
        return "nothing"
    if len(model.class_names) == 2:
        return area_text(labels > 0, prediction)
    parts = [
        f"{name} {area_text(labels == label, prediction)}"
        for label, name in foreground_classes(model)
        if (labels == label).any()
    ]
    more = f" and {len(parts) - _AREAS_SHOWN} more" if len(parts) > _AREAS_SHOWN else ""
    return ", ".join(parts[:_AREAS_SHOWN]) + more


def _title(prediction: Prediction) -> str:
    image = prediction.image
    text = image.name if len(image.name) <= 60 else f"{image.name[:57]}..."
    number = len(prediction.hypotheses.found)
    hypotheses = f"{number} hypothes{'i' if number == 1 else 'e'}s"
    return f"{text}: {hypotheses} for {_samples(prediction)}"


def _samples(prediction: Prediction) -> str:
    number = len(prediction.labels)
    return f"{number} sample{'s' if number > 1 else ''}"


def _subtitle(prediction: Prediction, model: LoadedModel) -> str:
    present, chosen = presence(prediction, model), prediction.hypotheses
    parts = [
        f"they stand for {chosen.explained:.0%} of the diversity (energy distance "
        f"{chosen.energy_distance:.3f})"
    ]
    if present is not None:
        parts.append(f"something is marked in {present:.0%} of the samples")
    region = prediction.grid.region
    if region.shape != prediction.image.shape:
        parts.append(
            f"rows {region.row}-{region.row + region.height - 1}, columns "
            f"{region.col}-{region.col + region.width - 1}"
        )
    rest = chosen.found[_MAX_SHOWN:]
    if rest:
        share = sum(hypothesis.probability for hypothesis in rest)
        parts.append(f"{len(rest)} more hypotheses ({share:.0%}) are not shown")
    return "; ".join(parts)


def _legend_entries(prediction: Prediction, model: LoadedModel) -> list[Patch]:
    """Returns a coloured patch for each class that is shown by its colour."""
    if len(model.class_names) == 2:
        return []
    mean = prediction.mean[prediction.grid.seen_in_image.slices].argmax(-1)
    present = np.union1d(prediction.seen(prediction.labels), mean)
    if pictures.has_outlines(model.class_names):  # The background has no outline.
        present = present[present > 0]
    palette = colors(model.class_names) / 255
    return [Patch(color=palette[k], label=model.class_names[k]) for k in present]


def _show_place(axis: Axes, prediction: Prediction) -> None:
    """Shows the whole image with a line around the region, and what is seen of it."""
    pixels, region = prediction.image.pixels, prediction.grid.region
    seen = prediction.grid.seen_in_image
    low, high = np.percentile(pixels, (1, 99))
    scaled = (pixels - low) / max(high - low, 1e-6)
    pictures.show_image(axis, brightened(scaled.clip(0, 1)))
    axis.set_aspect("equal")
    if region.shape != prediction.image.shape:
        _show_frame(axis, region, "-")
    if seen != region:
        _show_frame(axis, seen, ":")
    _caption(axis, f"whole image, {pixels.shape[0]}x{pixels.shape[1]}")


def _show_frame(axis: Axes, region: Region, line: str) -> None:
    axis.add_patch(
        Rectangle(
            (region.col - 0.5, region.row - 0.5),
            region.width,
            region.height,
            fill=False,
            edgecolor=style.ORANGE,
            linewidth=1.2,
            linestyle=line,
        )
    )


def _show_overview(
    panel, first: int, prediction: Prediction, model: LoadedModel
) -> None:
    axis = panel(0, first)
    pictures.show_image(axis, brightened(prediction.seen_image))
    _caption(axis, "what the network sees" if first else "image")
    axis = panel(0, first + 1)
    mean = prediction.mean[prediction.grid.seen_in_image.slices]  # [h, w, K]
    if mean.shape[-1] == 2:
        pictures.show_array(axis, mean[..., 1], cmap="gray", vmin=0, vmax=1)
        _caption(axis, f"mean probability, up to {mean[..., 1].max():.2f}")
    else:
        likely = mean.argmax(-1)
        if pictures.has_outlines(model.class_names):
            pictures.show_image(axis, brightened(prediction.seen_image))
            pictures.outline_classes(axis, likely, model.class_names, 1.3)
        else:
            pictures.show_array(axis, colors(model.class_names)[likely])
        _caption(axis, "most probable class")
    axis = panel(0, first + 2)
    entropy = prediction.seen(prediction.entropy)
    pictures.show_array(
        axis, entropy, cmap="magma", vmin=0, vmax=np.log(mean.shape[-1])
    )
    _caption(axis, f"entropy, up to {entropy.max():.2f} nats")


def _show_all(axis: Axes, prediction: Prediction) -> None:
    """Shows the outlines of the hypotheses drawn below in one panel."""
    pictures.show_image(axis, brightened(prediction.seen_image))
    for i, hypothesis in reversed(
        list(enumerate(prediction.hypotheses.found[:_MAX_SHOWN]))
    ):
        labels = prediction.seen(prediction.labels[hypothesis.sample])
        pictures.outline(axis, labels > 0, _OUTLINES[i % len(_OUTLINES)], 1.1)
    _caption(axis, "all of them")


def _show_all_classes(axis: Axes, prediction: Prediction, model: LoadedModel) -> None:
    """Shows the outlines of all classes of the hypotheses drawn below in one panel."""
    pictures.show_image(axis, brightened(prediction.seen_image))
    for hypothesis in prediction.hypotheses.found[:_MAX_SHOWN]:
        labels = prediction.seen(prediction.labels[hypothesis.sample])
        pictures.outline_classes(axis, labels, model.class_names, 0.7)
    _caption(axis, "all of them")


def _show_labels(
    axis: Axes,
    prediction: Prediction,
    labels: np.ndarray,
    colour: str,
    model: LoadedModel,
) -> None:
    if len(model.class_names) == 2:
        pictures.show_image(axis, brightened(prediction.seen_image))
        pictures.outline(axis, labels > 0, colour, 1.3)
    elif pictures.has_outlines(model.class_names):
        pictures.show_image(axis, brightened(prediction.seen_image))
        pictures.outline_classes(axis, labels, model.class_names, 1.3)
    else:
        pictures.show_array(axis, colors(model.class_names)[labels])


def _caption(axis: Axes, text: str) -> None:
    axis.text(
        0.5, -0.03, text, transform=axis.transAxes, ha="center", va="top", fontsize=7
    )
