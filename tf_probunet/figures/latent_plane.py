"""Draws samples over a plane of the latent space, with the graders' positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from tf_probunet import files
from tf_probunet.artifacts.results_dir import UnavailableError
from tf_probunet.artifacts.saved_model_dir import Description, SavedModelDir
from tf_probunet.figures import palette, pictures, sample_grid, style

# Odd, so that the prior's mean is one of the positions.
GRID_SIZE = 19
STEP_SIGMA = 0.5
CIRCLES_SIGMA = (1, 2, 3, 4)

# Bounds the memory of decoding: bytes of probabilities in one call.
_DECODE_BYTES = 64 * 2**20
# Pixels along a cell of the mosaic; more would not be visible.
_CELL_PIXELS = 110
_MARGIN = 0.15
_STRIP_MAPS = 7
_NEAR_SIGMA = 0.3
_FOREGROUND, _BACKGROUND = (0.85, 0.85, 0.85), (0.12, 0.12, 0.12)


class Plane(NamedTuple):
    """A plane of one image's latent space.

    Attributes:
        key: of the image.
        image: [H, W, C] in 0..1.
        graders: [G, H, W] labels.
        grader_names: [G], numbers or the modes' names.
        dims: the two latent dimensions of the plane.
        samples: [n, n, H, W] labels; the first index counts along the second latent
            dimension, both from low to high.
        positions: [G, 2] the posteriors' means in the plane, in standard deviations of
            the prior from its mean.
        off_plane: [G] how far they are from the plane, likewise.
        class_names: of all classes; none for street scenes.
    """

    key: str
    image: np.ndarray
    graders: np.ndarray
    grader_names: list[str]
    dims: tuple[int, int]
    samples: np.ndarray
    positions: np.ndarray
    off_plane: np.ndarray
    class_names: Sequence[str] = ()


def grid_positions(size: int = GRID_SIZE, step: float = STEP_SIGMA) -> np.ndarray:
    """Returns the places along one dimension, [size] in standard deviations."""
    return (np.arange(size) - (size - 1) / 2) * step


def planes(
    *,
    saved_model: files.Path,
    data_dir: files.Path,
    split: str = "test",
    keys: Sequence[str] = (),
    number: int = 1,
    dims: tuple[int, int] = (0, 1),
) -> Iterator[Plane]:
    """Decodes the planes of some images with a SavedModel.

    Args:
        saved_model: as run/export.py writes it.
        data_dir: a prepared data set.
        split: of the data set.
        keys: of the images; the first `number` images if none are given.
        number: of images.
        dims: the plane's latent dimensions; the others stay at the prior's mean.

    Yields:
        A plane for each image.

    Raises:
        FileNotFoundError: there is no such SavedModel or data set.
        UnavailableError: the model has no latent space.
        ValueError: there are no such latent dimensions, or no such image.
    """
    described = _check_model(saved_model, dims)
    # Only here: the other figures do without TensorFlow.
    from tf_probunet.artifacts import saved_model as saved_models

    examples = _examples(data_dir, split, described, keys, number)
    model = saved_models.load(saved_model).module
    for example in examples:
        yield plane(model, described, example, dims)


def plane(
    model: Any,
    described: Description,
    example: dict[str, Any],
    dims: tuple[int, int],
    size: int = GRID_SIZE,
) -> Plane:
    """Decodes the plane of one image.

    Args:
        model: with the functions `prior`, `posterior` and `decode` of a SavedModel.
        described: what the model says about itself.
        example: `key`, `image` [H, W, C] and `labels` [G, H, W].
        dims: the plane's latent dimensions.
        size: the number of samples along each dimension.

    Returns:
        The plane.
    """
    image = np.asarray(example["image"], np.float32)[None]
    truth = sample_grid.ground_truth(
        np.asarray(example["labels"]), described.data.task == "switched"
    )
    prior = _moments(model.prior(image))
    z = _grid(*prior, dims, grid_positions(size))  # [size * size, L]
    # One at a time, because 32 modes of a street scene would take gigabytes.
    graders = [
        _moments(model.posterior(image, labels[None].astype(np.int32)))[0]
        for labels in truth.maps
    ]
    scaled = (np.concatenate(graders) - prior[0]) / prior[1]  # [G, L]
    others = [d for d in range(scaled.shape[1]) if d not in dims]
    height, width = image.shape[1:3]
    chunk = max(
        1, _DECODE_BYTES // (height * width * described.network.num_classes * 4)
    )
    samples = [
        np.asarray(model.decode(image, part[None])["labels"], np.uint8)[0]
        for part in np.split(z, range(chunk, len(z), chunk))
    ]
    return Plane(
        key=example["key"],
        image=image[0],
        graders=truth.maps.astype(np.uint8),
        grader_names=truth.names,
        dims=dims,
        samples=np.concatenate(samples).reshape(size, size, height, width),
        positions=scaled[:, list(dims)],
        off_plane=np.linalg.norm(scaled[:, others], axis=1),
        class_names=described.class_names,
    )


@style.styled()
def draw(shown: Plane) -> Figure:
    """Draws the samples where they lie in the plane.

    How to read it: each small picture is the segmentation at its place in the latent
    space, in standard deviations of the prior from its mean; most of what the model
    samples lies within the inner circles. Circles are 1 to 4 standard deviations away
    from the mean. Numbers are the graders, where the posterior puts their masks; they
    fade the further a grader is from the plane in the other dimensions, and stand in
    brackets at the border if it lies beyond. A good prior gives the graders' variants
    areas near the middle, as large as they are frequent. Below are the image and the
    graders' masks; lesions are shown enlarged, the dashed frame in the image is what
    each picture shows. Street scenes are squeezed to squares, and numbers are modes.

    Args:
        shown: the plane.

    Returns:
        The figure.
    """
    binary = pictures.is_binary(shown.samples, shown.graders)
    window = _window(shown, binary)
    left, top = 0.5, 0.28
    side = style.PAGE_WIDTH - left - 0.05
    maps = min(len(shown.graders), _STRIP_MAPS)
    strip = min(1.0, side / (1 + maps) - 0.05)
    legend = 0.0
    if not binary:
        legend = pictures.class_legend_height(
            [shown.samples, shown.graders], class_names=shown.class_names
        )
    page = style.Page(style.PAGE_WIDTH, top + side + 0.62 + strip + legend)
    page.text(left + side / 2, 0.05, shown.key, ha="center", va="top", fontsize=9)
    axis = page.axes(left, top, side, side)
    _draw_mosaic(axis, shown, window, binary)
    _draw_circles(axis)
    _draw_graders(axis, shown, binary)
    _draw_strip(page, left, top + side + 0.58, strip, shown, window, binary)
    if legend:
        pictures.class_legend(page, [shown.samples, shown.graders], shown.class_names)
    return page.figure


def _draw_mosaic(axis: Axes, shown: Plane, window: tuple, binary: bool) -> None:
    size = len(shown.samples)
    edge = size * STEP_SIGMA / 2
    axis.imshow(
        _mosaic(shown.samples[..., window[0], window[1]], binary, shown.class_names),
        extent=(-edge, edge, -edge, edge),
    )
    lines = np.arange(1, size) * STEP_SIGMA - edge
    for line in lines:
        axis.axhline(line, color=style.GREY, linewidth=0.3)
        axis.axvline(line, color=style.GREY, linewidth=0.3)
    axis.set_xlim(-edge, edge)
    axis.set_ylim(-edge, edge)
    ticks = range(-int(edge), int(edge) + 1)
    axis.set_xticks(ticks)
    axis.set_yticks(ticks)
    across, up = (
        f"$z_{{{dim}}}$ in standard deviations of the prior" for dim in shown.dims
    )
    axis.set_xlabel(across, labelpad=1)
    axis.set_ylabel(up, labelpad=1)


def _mosaic(
    samples: np.ndarray, binary: bool, class_names: Sequence[str] = ()
) -> np.ndarray:
    """Joins samples [n, n, h, w] into one picture, with their last row on top."""
    stride = [max(1, -(-size // _CELL_PIXELS)) for size in samples.shape[2:]]
    cells = samples[::-1, :, :: stride[0], :: stride[1]]
    joined = cells.transpose(0, 2, 1, 3).reshape(
        cells.shape[0] * cells.shape[2], cells.shape[1] * cells.shape[3]
    )
    return _paint(joined, binary, class_names)


def _paint(
    labels: np.ndarray, binary: bool, class_names: Sequence[str] = ()
) -> np.ndarray:
    """Returns the colours [h, w, 3] of label maps: light lesions on dark."""
    if not binary and pictures.has_outlines(class_names):
        known = np.where(labels < len(class_names), labels, 0)
        return palette.colors(class_names)[known]
    if not binary:
        return pictures.colorize(labels)
    marked = pictures.foreground(labels)[..., None]
    return np.where(marked, _FOREGROUND, _BACKGROUND)


def _draw_circles(axis: Axes) -> None:
    for sigma in CIRCLES_SIGMA:
        circle = Circle((0, 0), sigma, fill=False, color=style.YELLOW, linewidth=1.4)
        circle.set_path_effects(_halo("black", 2.4))
        axis.add_patch(circle)
        axis.text(
            0,
            sigma,
            f"{sigma}σ",
            color=style.YELLOW,
            fontsize=8,
            ha="center",
            va="center",
            path_effects=_halo("black", 2.5),
        )


def _draw_graders(axis: Axes, shown: Plane, binary: bool) -> None:
    colour = "#40E0A8" if binary else "white"
    edge = len(shown.samples) * STEP_SIGMA / 2 - _NEAR_SIGMA
    inside = shown.positions.clip(-edge, edge)
    for places in _clusters(inside):
        names = _ranges([_number(shown.grader_names[p]) for p in places])
        beyond = bool((inside[places] != shown.positions[places]).any())
        # Numbers fade with the distance, but stay visible.
        alpha = max(0.6, float(0.8 ** shown.off_plane[places].min()))
        x, y = inside[places].mean(axis=0)
        axis.text(
            x,
            y,
            f"({names})" if beyond else names,
            color=colour,
            alpha=alpha,
            fontsize=11,
            fontweight="bold",
            ha="center",
            va="center",
            path_effects=_halo("black", 2.5),
            zorder=5,
            gid="grader",
        )


def _clusters(positions: np.ndarray) -> list[list[int]]:
    """Groups graders whose numbers would overlap, around the first of each group."""
    clusters: list[list[int]] = []
    for place, position in enumerate(positions):
        for cluster in clusters:
            if np.linalg.norm(positions[cluster[0]] - position) < _NEAR_SIGMA:
                cluster.append(place)
                break
        else:
            clusters.append([place])
    return clusters


def _draw_strip(
    page: style.Page,
    left: float,
    top: float,
    side: float,
    shown: Plane,
    window: tuple,
    binary: bool,
) -> None:
    """Draws the image and the graders' masks at the lower left."""
    axis = page.axes(left, top, side, side)
    pictures.show_image(axis, shown.image)
    if binary:
        rows, cols = window
        axis.add_patch(
            Rectangle(
                (cols.start - 0.5, rows.start - 0.5),
                cols.stop - cols.start,
                rows.stop - rows.start,
                fill=False,
                color=style.YELLOW,
                linestyle=(0, (3, 2)),
                linewidth=0.9,
            )
        )
    names = ["image", *shown.grader_names[:_STRIP_MAPS]]
    for place, name in enumerate(names):
        x = left + place * (side + 0.05)
        page.text(x, top - 0.02, name, va="bottom", fontsize=style.SMALL)
        if place:
            axis = page.axes(x, top, side, side)
            labels = shown.graders[place - 1][window]
            pictures.show_array(axis, _paint(labels, binary, shown.class_names))


def _window(shown: Plane, binary: bool) -> tuple[slice, slice]:
    """Returns the rows and columns to show: for lesions a square around all masks."""
    height, width = shown.image.shape[:2]
    marked = np.any(pictures.foreground(shown.samples), axis=(0, 1))
    marked = marked | np.any(pictures.foreground(shown.graders), axis=0)
    if not binary or not marked.any():
        return slice(0, height), slice(0, width)
    spans = [np.flatnonzero(np.any(marked, axis=axis)) for axis in (1, 0)]
    longest = max(int(np.ptp(span)) + 1 for span in spans)
    side = min(height, width, int(np.ceil(longest * (1 + 2 * _MARGIN))))
    slices = []
    for span, size in zip(spans, (height, width)):
        start = int(span[0] + span[-1] + 1 - side) // 2
        start = min(max(start, 0), size - side)
        slices.append(slice(start, start + side))
    return slices[0], slices[1]


def _grid(
    mean: np.ndarray, stddev: np.ndarray, dims: tuple[int, int], places: np.ndarray
) -> np.ndarray:
    """Returns latents [n * n, L] over a plane; the second dimension changes slowest."""
    z = np.tile(mean, (len(places) ** 2, 1))
    z[:, dims[0]] += stddev[0, dims[0]] * np.tile(places, len(places))
    z[:, dims[1]] += stddev[0, dims[1]] * np.repeat(places, len(places))
    return z.astype(np.float32)


def _moments(outputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(outputs["mean"]), np.asarray(outputs["stddev"])


def _check_model(saved_model: files.Path, dims: tuple[int, int]) -> Description:
    described = SavedModelDir(saved_model).describe()
    if "decode" not in described.signatures:
        raise UnavailableError(
            f"{saved_model}: the model {described.metadata['model']!r} has no latent "
            "space; expected one with the signatures prior, posterior and decode"
        )
    latent_dim = described.num_latents
    if latent_dim < 2:
        raise UnavailableError(
            f"{saved_model}: latent_dim is {latent_dim}; a plane needs at least 2"
        )
    if len(set(dims)) != 2 or not all(0 <= d < latent_dim for d in dims):
        raise ValueError(
            f"dims are {','.join(map(str, dims))}; expected two different ones from 0 "
            f"to {latent_dim - 1}"
        )
    return described


def _examples(
    data_dir: files.Path,
    split: str,
    described: Description,
    keys: Sequence[str],
    number: int,
) -> list[dict[str, Any]]:
    """Reads the examples with these keys, or the first ones."""
    from tf_probunet.dataset import input_pipeline, records

    info = records.read_info(data_dir)
    examples = input_pipeline.evaluation_examples(info, split, described.data)
    if not keys:
        examples = examples.take(number)
    found = {}
    with records.named_errors(info, split):
        for example in examples.as_numpy_iterator():
            key = example["key"].decode()
            if not keys or key in keys:
                image, labels = input_pipeline.mirrored(
                    example["image"], example["labels"], described.size_divisor
                )
                found[key] = {"key": key, "image": image, "labels": labels}
            if keys and len(found) == len(set(keys)):
                break
    for key in keys:
        if key not in found:
            raise ValueError(f"{data_dir}: no image {key!r} in the split {split!r}")
    return [found[key] for key in keys or found]


def _number(name: str) -> int:
    """Returns the number in "grader 3" or "mode 17: 2.1 %"."""
    return int(name.split(":")[0].split()[-1])


def _ranges(numbers: Sequence[int]) -> str:
    """Formats numbers as ranges, such as "1,3" or "0–7,12", four to a line."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run)
    lines = [",".join(texts[i : i + 4]) for i in range(0, len(texts), 4)]
    return ",\n".join(lines)


def _halo(colour: str, width: float) -> list[patheffects.AbstractPathEffect]:
    return [patheffects.withStroke(linewidth=width, foreground=colour)]
