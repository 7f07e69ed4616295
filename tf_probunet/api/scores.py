"""Scores samples against graders: of arrays, or of a model on a data set."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tf_probunet import files
from tf_probunet.evaluation import scoring, tables
from tf_probunet.evaluation.parts import concatenated

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tf_probunet.api.predictor import Predictor

_COUNTS = (1, 4, 8, 16)


@dataclasses.dataclass(frozen=True, repr=False)
class Scores:
    """Scores of a model. Printing them shows a table.

    Attributes:
        ged: the squared energy distance, by the number of samples; lower is better.
        floor: its expected value for a perfect model, likewise; empty if not known.
        hungarian_iou: the mean IoU of samples and graders, matched one to one (HM-IoU);
            higher is better. None if it was not computed.
        diversity: the mean distance between two samples of an image, or None.
        num_images: how many images were scored.
        per_image: the values of each image by name, [N] or [N, counts]; empty for a
            data set, whose `results` hold intervals instead.
        results: for a data set, the content of `results.json`; otherwise empty.
    """

    ged: dict[int, float]
    floor: dict[int, float]
    hungarian_iou: float | None
    diversity: float | None
    num_images: int
    per_image: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    results: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        counts = [*self.ged]
        rows = [["", *(f"{n} sample{'s' * (n > 1)}" for n in counts)]]
        rows.append(["GED\u00b2", *(tables.number(self.ged[n]) for n in counts)])
        if self.floor:
            rows.append(["floor", *(tables.number(self.floor[n]) for n in counts)])
        for name, value in (
            ("HM-IoU", self.hungarian_iou),
            ("diversity", self.diversity),
        ):
            if value is not None:
                blank = [""] * (len(counts) - 1)
                rows.append([name, *blank, tables.number(value)])
        images = f"{self.num_images} image{'s' * (self.num_images > 1)}"
        return f"{images}\n{tables.aligned(rows)}"


def evaluate(
    samples: ArrayLike | Predictor | files.Path,
    graders: ArrayLike | None = None,
    *,
    counts: Sequence[int] | int | None = None,
    num_classes: int | None = None,
    ignore_label: int | None = None,
    data_dir: files.Path | None = None,
    split: str = "test",
    seed: int = 0,
    limit: int = 0,
    out_dir: files.Path | None = None,
) -> Scores:
    """Scores samples against graders, or a model on a prepared data set.

    `pu.evaluate(samples, graders)` scores arrays, from whatever model.
    `pu.evaluate(model, data_dir=...)` does what `run/evaluate.py` does.

    Args:
        samples: label maps [S, H, W] of one image, [N, S, H, W], or a list of [S, H, W]
            if images differ in size; or else a model: a `Predictor`, or the directory
            of a SavedModel.
        graders: label maps [M, H, W], [N, M, H, W], or a list of [M, H, W] if images
            differ in size or in their number of graders.
        counts: numbers of samples; each uses the first samples up to it. The default is
            those of 1, 4, 8 and 16 that there are samples for.
        num_classes: of the label maps; the default is binary masks. The IoU is the mean
            over the classes 1, 2, ...
        ignore_label: label of pixels that count nowhere, of maps with several classes.
        data_dir: a prepared data set, to score a model on.
        split: of the data set.
        seed: of the model's samples.
        limit: number of images of the data set to score, from the first on; 0 for all.
        out_dir: where to write the results for a data set; nowhere by default.

    Returns:
        The scores, means over the images.

    Raises:
        FileNotFoundError: there is no such model or data set.
        ValueError: the arrays or arguments do not fit each other.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:20, 8:20] = 1  # Two of four see something.
        >>> samples = np.concatenate([graders, graders])
        >>> pu.evaluate(samples, graders)
        1 image
                   1 sample  4 samples  8 samples
        -----------------------------------------
        GED²          0.500      0.000      0.000
        floor         0.833      0.333      0.250
        HM-IoU                              1.000
        diversity                           0.500
    """
    if isinstance(counts, int):
        counts = [counts]
    # A path-like or a Predictor is a model; whatever NumPy takes is samples.
    path = getattr(samples, "path", samples)
    if isinstance(path, (str, os.PathLike)):
        if data_dir is None or graders is not None:
            raise ValueError(
                "a model is scored on a data set, expected data_dir and no graders"
            )
        return _on_dataset(
            path, data_dir, counts or _COUNTS, split, seed, limit, out_dir
        )
    if graders is None or data_dir is not None:
        raise ValueError("samples are scored against graders, expected both as arrays")
    arrays = cast("ArrayLike", samples)
    return _on_arrays(arrays, graders, counts, num_classes, ignore_label)


def _on_arrays(
    samples: ArrayLike,
    graders: ArrayLike,
    counts: Sequence[int] | None,
    num_classes: int | None,
    ignore_label: int | None,
) -> Scores:
    samples, graders = (
        _stacks(a, n) for a, n in ((samples, "samples"), (graders, "graders"))
    )
    if len(samples) != len(graders):
        raise ValueError(
            f"samples are of {len(samples)} images, graders of {len(graders)}; "
            "expected the same number"
        )
    available = min(map(len, samples))
    if counts is None:
        counts = [n for n in _COUNTS if n <= available]
    counts = sorted(set(counts))
    if not counts or not 1 <= counts[0] <= counts[-1] <= available:
        raise ValueError(
            f"counts are {counts}; expected numbers from 1 to {available}, the number "
            "of samples"
        )
    is_binary = num_classes in (None, 2) and ignore_label is None
    rules = scoring.Rules(
        kind="binary" if is_binary else "classes",
        counts=tuple(counts),
        num_classes=num_classes or 2,
        ignore_label=ignore_label,
        graders_vary=len({len(maps) for maps in graders}) > 1,
    )
    arrays = concatenated(
        [
            scoring.score(
                rules, maps[None, : counts[-1]], masks[None], keys=[f"image {n}"]
            )
            for n, (maps, masks) in enumerate(zip(samples, graders))
        ]
    )

    def by_count(name: str) -> dict[int, float]:
        # The floor is not known for an image with one grader.
        known = arrays[name][np.isfinite(arrays[name]).all(axis=1)]
        return dict(zip(counts, known.mean(axis=0).tolist())) if len(known) else {}

    return Scores(
        ged=by_count("ged"),
        floor=by_count("floor") if "floor" in arrays else {},
        hungarian_iou=float(arrays["hungarian_iou"].mean()),
        diversity=float(arrays["diversity"].mean()),
        num_images=len(samples),
        per_image={n: arrays[n] for n in ("ged", "hungarian_iou", "diversity")},
    )


def _on_dataset(
    path: files.Path,
    data_dir: files.Path,
    counts: Sequence[int],
    split: str,
    seed: int,
    limit: int,
    out_dir: files.Path | None,
) -> Scores:
    from tf_probunet.api import predictor
    from tf_probunet.evaluation import evaluate as evaluation

    with tempfile.TemporaryDirectory() as scratch:
        config = evaluation.EvaluationConfig(
            data_dir=str(data_dir),
            out_dir=str(out_dir or scratch),
            saved_model=str(predictor.find(path)),
            split=split,
            num_samples=tuple(counts),
            validation_split="",
            seed=seed,
            limit=limit,
        )
        results = evaluation.evaluate(config)

    def by_count(name: str) -> dict[int, float]:
        return {int(n): value["mean"] for n, value in results.get(name, {}).items()}

    def mean(name: str) -> float | None:
        return (results.get(name) or {}).get("mean")

    return Scores(
        ged=by_count("ged"),
        floor=by_count("floor"),
        hungarian_iou=mean("hungarian_iou"),
        diversity=mean("diversity"),
        num_images=results["data"]["images"],
        results=results,
    )


def _stacks(maps: ArrayLike, name: str) -> list[np.ndarray]:
    """Returns the label maps of each image."""
    if isinstance(maps, (list, tuple)) and {np.ndim(stack) for stack in maps} == {3}:
        return [_batch(stack, name)[0] for stack in maps]
    return [*_batch(maps, name)]


def _batch(maps: ArrayLike, name: str) -> np.ndarray:
    maps = np.asarray(maps)
    if maps.ndim not in (3, 4) or not maps.size:
        raise ValueError(
            f"{name} have shape {maps.shape}; expected [{name}, H, W] of one image, or "
            f"[images, {name}, H, W]"
        )
    return maps if maps.ndim == 4 else maps[None]
