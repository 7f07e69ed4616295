"""Computes the per-image values of all metrics from samples and graders."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet import config
from tf_probunet.dataset import task
from tf_probunet.evaluation import challenges
from tf_probunet.evaluation.metrics import (
    agreement,
    ambiguity,
    baselines,
    calibration,
    checks,
    ged,
    matching,
    switched_modes,
)
from tf_probunet.evaluation.metrics.distances import (
    BOTH_EMPTY,
    LabelSet,
    distance_blocks,
)

BASELINES = {
    "always_empty": baselines.always_empty,
    "majority": baselines.majority,
    "graders": baselines.graders_themselves,
}

# How samples may be drawn. Only independent ones have the floor E[d] (1/n + 1/m).
SAMPLINGS = (*config.SAMPLINGS, "weighted")

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Rules:
    """How images are scored; the same for all images of an evaluation.

    Attributes:
        kind: "binary" masks, label maps of several "classes", or the "switched"
            classes of the Cityscapes task.
        counts: numbers of samples in ascending order; the energy distance for a count n
            uses the first n samples, or a set of its own if they are stratified. Other
            metrics use the largest count.
        statistic: "v" or "u"; see `ged.energy_distance`.
        both_empty: "zero", "one" or "drop".
        num_classes: classes of the graders' label maps.
        ignore_label: label of pixels that are not scored; None if there is none. In the
            switched task it is 255.
        graders_vary: whether images have different numbers of graders. What needs two
            graders is then NaN for an image with one.
        sampling: one of `SAMPLINGS`. Weighted samples have a single count.
        matched: how many samples are matched for the Hungarian-matched IoU, at most the
            largest count; None for the largest count.
        scores: names in `challenges.SCORES` to compute as well.
    """

    kind: str
    counts: tuple[int, ...]
    statistic: str = "v"
    both_empty: str = "zero"
    num_classes: int = 2
    ignore_label: int | None = None
    graders_vary: bool = False
    sampling: str = "independent"
    matched: int | None = None
    scores: tuple[str, ...] = ()

    def __post_init__(self):
        """Checks the options."""
        checks.option(self.kind, "kind", task.KINDS)
        checks.option(self.statistic, "statistic", ged.STATISTICS)
        checks.option(self.both_empty, "both_empty", BOTH_EMPTY)
        checks.option(self.sampling, "sampling", SAMPLINGS)
        if self.sampling == "weighted" and len(self.counts) > 1:
            raise ValueError(
                f"num_samples is {','.join(map(str, self.counts))}, expected one "
                "number for samples that have weights: the most that an image has"
            )
        if self.sampling == "weighted" and self.kind == "switched":
            raise ValueError(
                "samples have weights, expected none for the switched task"
            )
        if self.sampling == "weighted" and (self.scores or self.matched):
            raise ValueError("samples have weights, expected none with --protocol")
        for name in self.scores:
            checks.option(name, "score", tuple(challenges.SCORES))
        if self.kind == "switched" and (self.scores or self.matched):
            raise ValueError(
                "the switched task has a protocol of its own; leave out --protocol, or "
                "choose paper"
            )
        if self.kind == "switched" and not self.is_papers:
            raise ValueError(
                f"statistic is {self.statistic!r} and both_empty {self.both_empty!r}; "
                'expected "v" and "zero" for the switched task'
            )

    @property
    def is_papers(self) -> bool:
        """Whether the energy distance is the paper's: V-statistic, "zero"."""
        return (self.statistic, self.both_empty) == ("v", "zero")

    @property
    def floor_counts(self) -> list[float]:
        """The numbers of samples that the floor is that of.

        A chosen set is compared with the floor of infinitely many samples.
        """
        chosen = self.sampling != "independent"
        return [math.inf if chosen else count for count in self.counts]

    @property
    def presence_steps(self) -> int:
        """The largest `sample_presence`: S, or 100 percent of the weights."""
        return 100 if self.sampling == "weighted" else self.counts[-1]

    @property
    def labels(self) -> LabelSet | None:
        """The classes of label maps; None for binary masks."""
        if self.kind == "binary":
            return None
        return LabelSet.of_foreground(self.num_classes, self.ignore_label)


def score(
    rules: Rules,
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    keys: Sequence[str],
    modes: np.ndarray | None = None,
    mode_probs: np.ndarray | None = None,
    sets: Mapping[int, np.ndarray] | None = None,
    weights: np.ndarray | None = None,
) -> Arrays:
    """Scores a batch of images.

    No value of an image depends on the other images of the batch.

    Args:
        rules: how to score.
        samples: [N, S, H, W] integer, S the largest count.
        graders: [N, M, H, W] integer; in the switched task the labels before any flip,
            with M = 1.
        keys: [N] names of the images, for error messages.
        modes: [N, K, H, W], everything that a grader may draw, if it is known.
        mode_probs: [N, K], their probabilities.
        sets: [N, n, H, W] by count n, the sets of fewer samples if those are not the
            first ones of `samples`.
        weights: [N, S] probabilities of weighted samples.

    Returns:
        Arrays [N, ...] by name; docs/evaluation.md lists them.

    Raises:
        ValueError: on unknown values or shapes that do not fit; the message starts with
            the image's key.
    """
    if rules.kind == "switched":
        return _switched(rules, samples, graders, keys, sets)
    drawn = _Drawn(samples, sets, weights)
    with checks.naming(keys):
        arrays = _energy(rules, drawn, graders)
        arrays.update(_floors(rules, graders, modes, mode_probs))
        if modes is not None and mode_probs is not None:
            arrays.update(_exact(rules, drawn, modes, mode_probs))
        matched = samples[:, : rules.matched]
        cross = distance_blocks(matched, graders, labels=rules.labels).cross
        each = [None] * len(samples) if weights is None else weights
        arrays["hungarian_iou"] = np.array(
            [matching.matched_iou(c, sample_weights=w) for c, w in zip(cross, each)]
        )
        if rules.kind == "binary":
            arrays.update(presence(samples, graders, weights))
            arrays.update(_baselines(rules, graders))
            images = zip(samples, graders, each)
            arrays.update(_stacked(_pixels(*image) for image in images))
        elif rules.kind == "classes":
            images = zip(samples, graders, each)
            arrays.update(_baselines(rules, graders))
            arrays.update(_stacked(_classes(rules, *image) for image in images))
        if rules.graders_vary and graders.shape[1] == 1:
            arrays["variance_ncc"] = np.full(len(graders), np.nan)
        if rules.scores:
            scored = (
                challenges.score(rules.scores, *pair, rules.labels)
                for pair in zip(samples, graders)
            )
            arrays.update(_stacked(scored))
    if rules.graders_vary:
        arrays["num_graders"] = np.full(len(graders), graders.shape[1])
    return arrays


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """Samples with their sets or weights, as `score` takes them."""

    samples: np.ndarray
    sets: Mapping[int, np.ndarray] | None = None
    weights: np.ndarray | None = None


def presence(
    samples: np.ndarray, graders: np.ndarray, weights: np.ndarray | None = None
) -> Arrays:
    """Counts the samples and the graders that mark a lesion.

    Args:
        samples: [N, S, H, W] binary.
        graders: [N, M, H, W] binary.
        weights: [N, S] probabilities of weighted samples.

    Returns:
        `sample_presence` [N], 0 to S or percent of the weights, and `grader_presence`
        [N], 0 to M.
    """
    return {
        "sample_presence": ambiguity.presence_counts(samples)
        if weights is None
        else ambiguity.presence_percent(samples, weights),
        "grader_presence": ambiguity.presence_counts(graders),
    }


def _terms(
    rules: Rules,
    drawn: _Drawn,
    graders: np.ndarray,
    grader_weights: np.ndarray | None = None,
) -> ged.EnergyTerms:
    """Returns the terms of all counts, from the first samples or from their sets."""
    sets = {rules.counts[-1]: drawn.samples, **(drawn.sets or {})}
    sizes = [(n,) for n in rules.counts] if drawn.sets else [rules.counts]
    parts = [
        ged.energy_terms(
            sets[counts[-1]],
            graders,
            counts=counts,
            statistic=rules.statistic,
            both_empty=rules.both_empty,
            sample_weights=drawn.weights,
            grader_weights=grader_weights,
            labels=rules.labels,
        )
        for counts in sizes
    ]
    return ged.EnergyTerms(
        np.concatenate([part.cross for part in parts], axis=-1),
        np.concatenate([part.samples for part in parts], axis=-1),
        parts[0].graders,
    )


def _energy(rules: Rules, drawn: _Drawn, graders: np.ndarray) -> Arrays:
    terms = _terms(rules, drawn, graders)
    return {
        "ged": terms.energy_distance,
        "cross": terms.cross,
        "sample_distance": terms.samples,
        "grader_distance": terms.graders[:, 0],
        "diversity": terms.samples[:, -1],
    }


def _floors(
    rules: Rules,
    graders: np.ndarray,
    modes: np.ndarray | None,
    mode_probs: np.ndarray | None,
) -> Arrays:
    """Returns `floor` [N, C], or nothing if the floor is not known."""
    if rules.both_empty != "zero":
        return {}
    if rules.statistic == "u":
        if rules.sampling != "independent":
            return {}
        return {"floor": np.zeros((len(graders), len(rules.counts)))}
    if modes is not None and mode_probs is not None:
        floor = ged.known_floor(
            graders,
            rules.floor_counts,
            modes=modes,
            probabilities=mode_probs,
            labels=rules.labels,
        )
        return {"floor": floor}
    if graders.shape[1] > 1:
        floor = ged.grader_floor(graders, rules.floor_counts, labels=rules.labels)
        return {"floor": floor}
    if rules.graders_vary:
        return {"floor": np.full((len(graders), len(rules.counts)), np.nan)}
    return {}


def _exact(
    rules: Rules, drawn: _Drawn, modes: np.ndarray, mode_probs: np.ndarray
) -> Arrays:
    """Returns the energy distance to the modes themselves, and its floor if known."""
    terms = _terms(rules, drawn, modes, mode_probs)
    arrays = {"mode_ged": terms.energy_distance}
    if rules.is_papers:
        arrays["mode_floor"] = ged.mode_floor(
            modes, mode_probs, rules.floor_counts, labels=rules.labels
        )
    return arrays


def _baselines(rules: Rules, graders: np.ndarray) -> Arrays:
    arrays = {}
    if rules.kind == "classes" and rules.ignore_label is not None:
        # Samples of ignored pixels do not count.
        known = np.where(graders == rules.ignore_label, 0, graders)
    else:
        known = graders
    for name, samples_of in BASELINES.items():
        samples = samples_of(known, rules.counts[-1], rules.num_classes)
        arrays[f"baseline_{name}"] = _energy(rules, _Drawn(samples), graders)["ged"]
    return arrays


def _pixels(
    samples: np.ndarray, graders: np.ndarray, weights: np.ndarray | None
) -> Arrays:
    """Returns matching, agreement and calibration of one image of binary masks."""
    weighted: dict[str, Any] = {"sample_weights": weights}
    insight = matching.collective_insight(samples, graders)
    values = {
        "collective_insight": insight.score,
        "sensitivity": insight.sensitivity,
        "best_dice": insight.max_dice,
        "diversity_agreement": insight.diversity_agreement,
        "ncc": agreement.ncc(samples, graders, **weighted),
        "brier": agreement.brier_score(samples, graders, **weighted),
        "pixel_reliability": calibration.pixel_reliability(
            samples, graders, **weighted
        ),
        "marked_reliability": calibration.pixel_reliability(
            samples, graders, marked_only=True, **weighted
        ),
        "presence_reliability": calibration.presence_reliability(
            samples, graders, **weighted
        ),
    }
    if len(graders) > 1:
        values["variance_ncc"] = agreement.variance_ncc(samples, graders, **weighted)
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def _classes(
    rules: Rules,
    samples: np.ndarray,
    graders: np.ndarray,
    weights: np.ndarray | None,
) -> Arrays:
    """Scores each class of one image by itself, as a binary mask.

    Returns:
        Each value of `_pixels`, the energy distance, the matched IoU, the presence and
        the mean area, as `class_<name>` [K - 1, ...]. The values of `_pixels` come once
        more by their own names: sums of reliability added up, others averaged over the
        classes.
    """
    if rules.ignore_label is not None:
        counts = (graders != rules.ignore_label).all(axis=0)  # [H, W]
        samples, graders = samples[:, counts], graders[:, counts]
    # No value depends on where a pixel is.
    samples = samples.reshape(len(samples), -1, 1)  # [S, P, 1]
    graders = graders.reshape(len(graders), -1, 1)
    rows = [
        _one_class(rules, samples == label, graders == label, weights)
        for label in range(1, rules.num_classes)
    ]
    by_class = _stacked(rows)
    arrays = {f"class_{name}": values for name, values in by_class.items()}
    for name in set(by_class) & _OF_CLASSES:
        is_sum = name.endswith("_reliability")
        arrays[name] = (np.sum if is_sum else np.mean)(by_class[name], axis=0)
    return arrays


# Of several classes, these are reported for all of them together too.
_OF_CLASSES = {
    "collective_insight",
    "sensitivity",
    "best_dice",
    "diversity_agreement",
    "ncc",
    "variance_ncc",
    "brier",
    "pixel_reliability",
    "marked_reliability",
    "presence_reliability",
}


def _one_class(
    rules: Rules,
    samples: np.ndarray,
    graders: np.ndarray,
    weights: np.ndarray | None,
) -> Arrays:
    """Scores binary masks [S, P, 1] and [M, P, 1] of one class."""
    number = samples.shape[1]
    present = samples.any() or graders.any()
    if number and not present:  # One pixel tells as much as all, in far less time.
        samples, graders = samples[:, :1], graders[:, :1]
    if not number:  # All pixels are ignored.
        samples, graders = (np.zeros((len(m), 1, 1)) for m in (samples, graders))
    samples, graders = samples.astype(np.uint8), graders.astype(np.uint8)
    values = _pixels(samples, graders, weights)
    if rules.graders_vary and len(graders) == 1:
        values["variance_ncc"] = np.asarray(np.nan)
    if not present:
        values["pixel_reliability"] = values["pixel_reliability"] * number
    terms = ged.energy_terms(
        samples,
        graders,
        statistic=rules.statistic,
        both_empty=rules.both_empty,
        sample_weights=weights,
    )
    cross = distance_blocks(samples[: rules.matched], graders).cross
    seen = presence(samples, graders, weights)
    areas = samples.sum(axis=(1, 2))
    return {
        **values,
        **{name: np.asarray(count) for name, count in seen.items()},
        "ged": np.asarray(terms.energy_distance),
        "hungarian_iou": np.asarray(
            matching.matched_iou(cross, sample_weights=weights)
        ),
        "num_graders": np.asarray(len(graders)),
        "sample_area": np.average(areas, weights=weights),
        "grader_area": graders.sum(axis=(1, 2)).mean(),
    }


def _switched(
    rules: Rules,
    samples: np.ndarray,
    graders: np.ndarray,
    keys: Sequence[str],
    sets: Mapping[int, np.ndarray] | None,
) -> Arrays:
    def one(place: int, key: str, maps: np.ndarray, labels: np.ndarray) -> Arrays:
        # Sets of fewer samples are scored by themselves.
        fewer = {n: maps[place] for n, maps in (sets or {}).items()}
        counts = [n for n in rules.counts if n not in fewer]
        with checks.naming(key):
            result = switched_modes.score_image(maps, labels, sample_counts=counts)
            distances = dict(result.energy_distances)
            for n, few in fewer.items():
                part = switched_modes.score_image(few, labels, sample_counts=[n])
                distances.update(part.energy_distances)
        spread = result.floors[counts[-1]] * counts[-1]
        return {
            "ged": np.array([distances[n] for n in rules.counts]),
            "floor": spread / np.array(rules.floor_counts),
            "mode_counts": result.mode_counts,
            "pixel_counts": result.pixel_counts,
            "switch_ties": result.switch_ties,
            "undecided": np.array(result.undecided),
            **{
                f"baseline_{name}": np.full(len(rules.counts), value)
                for name, value in result.baselines.items()
            },
        }

    images = enumerate(zip(keys, samples, graders[:, 0]))
    return _stacked(one(place, *image) for place, image in images)


def _stacked(rows) -> Arrays:
    rows = list(rows)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
