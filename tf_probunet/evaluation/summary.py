"""Computes the results of a data set from its per-image values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet.dataset.cityscapes_labels import SWITCHES
from tf_probunet.evaluation.metrics import (
    ambiguity,
    calibration,
    statistics,
    switched_calibration,
)
from tf_probunet.evaluation.scoring import Arrays, Rules

CONFIDENCE = 0.95
NUM_RESAMPLES = 10_000
BOOTSTRAP_SEED = 0

# A bootstrap over fewer groups says little. With three groups, its bounds are the
# lowest and the highest mean of a group.
MIN_GROUPS = 10

# A share of samples between modes that visibly changes the mode frequencies.
MANY_UNDECIDED = 0.1

_BASELINE = "baseline_"  # The prefix of the per-image arrays of trivial models.


@dataclasses.dataclass(frozen=True)
class Metric:
    """A number that is reported.

    Attributes:
        name: of the per-image array and in `results.json`, with dots between levels.
        title: for tables.
        best: "low", "high", or None if neither is better.
        null: what tables show for null; None to leave the metric out.
    """

    name: str
    title: str
    best: str | None
    null: str | None = None


# Means of per-image values, with the largest number of samples.
METRICS = (
    Metric("hungarian_iou", "Hungarian-matched IoU", "high"),
    Metric("best_dice", "best Dice per grader", "high"),
    Metric("diversity", "sample diversity", None),
    Metric("collective_insight", "collective insight", "high"),
    Metric("sensitivity", "combined sensitivity", "high"),
    Metric("diversity_agreement", "diversity agreement", "high"),
    Metric("ncc", "S_NCC", "high"),
    Metric("variance_ncc", "variance correlation", "high"),
    Metric("brier", "Brier score", "low"),
    Metric("volume_crps", "CRPS of the volume", "low"),
    Metric("relative_volume_crps", "CRPS over the graders' mean volume", "low"),
    Metric("coverage_50", "graders in the 50 % interval of the volume", None),
    Metric("coverage_90", "graders in the 90 % interval of the volume", None),
    Metric("presence_brier", "squared error of the presence", "low"),
    # Those of a challenge, if its protocol was chosen.
    Metric("qubiq_dice", "QUBIQ Dice of mean maps", "high"),
    Metric("soft_dice", "soft Dice of mean maps", "high"),
    Metric("staple_dice", "Dice against STAPLE", "high"),
    Metric("d_persona_dice_soft", "D-Persona Dice_soft", "high"),
    Metric("dice_max", "D-Persona Dice_max", "high"),
    Metric("dice_match", "D-Persona Dice_match", "high"),
    Metric("consensus_dice", "CURVAS consensus Dice", "high"),
    Metric("multirater_ece", "CURVAS ECE, mean over graders", "low"),
    Metric("curvas_crps", "CURVAS CRPS of the volume, pixels", "low"),
    Metric("curvas_crps_code", "CURVAS CRPS as in its code, pixels", "low"),
)

# Numbers of the data set as a whole, without intervals.
SCALARS = (
    Metric("calibration.pixels.ece", "ECE of pixels", "low"),
    Metric("calibration.marked_pixels.ece", "ECE of marked pixels", "low"),
    Metric("calibration.presence.ece", "ECE of lesion presence", "low"),
    Metric("presence.samples", "samples that mark anything, share", None),
    Metric("presence.graders", "graders who mark anything, share", None),
    Metric("ambiguity.accuracy", "ambiguity: accuracy", "high"),
    Metric("ambiguity.always_ambiguous", 'ambiguity: always "ambiguous"', None),
    Metric("ambiguity.auroc", "ambiguity: AUROC", "high"),
    Metric("mode_calibration.kl_divergence", "KL of mode frequencies", "low"),
    Metric(
        "mode_calibration.largest_ratio",
        "largest ratio of mode frequencies",
        "low",
        null="infinite",
    ),
    Metric("mode_calibration.modes_missed", "modes never sampled", "low"),
    Metric(
        "mode_calibration.undecided", "samples that fit several modes, share", "low"
    ),
    Metric("pixel_calibration.largest_gap", "largest gap of pixel frequencies", "low"),
    Metric("folded_iou.mean", "mIoU of 19 classes, flips folded back", "high"),
)

# Of each class, where there are several: the title of a column of the table.
CLASS_METRICS = {
    "ged": "energy distance",
    "hungarian_iou": "matched IoU",
    "best_dice": "best Dice",
    "ncc": "S_NCC",
    "brier": "Brier",
}
_CLASS_AREAS = ("sample_area", "grader_area")  # Mean pixels per image.

# What the bootstrap resamples, and the arrays that name them.
UNITS = {"groups": "groups", "images": "keys"}

_RELIABILITIES = {
    "pixels": "pixel_reliability",
    "marked_pixels": "marked_reliability",
    "presence": "presence_reliability",
}


def summarise(
    arrays: Arrays,
    rules: Rules,
    *,
    num_graders: int,
    validation: Arrays | None = None,
    cross_fit: bool = False,
    class_names: Sequence[str] = (),
) -> dict[str, Any]:
    """Summarises the per-image values.

    Args:
        arrays: the result of `scoring.score` for all images, with `keys` and `groups`
            [N].
        rules: how the images were scored.
        num_graders: M, or the largest of them. If the number varies, `arrays` and
            `validation` say each image's as `num_graders` [N].
        validation: `sample_presence` and `grader_presence` of the validation split, on
            which the threshold for ambiguity is chosen; None to leave that out.
        cross_fit: choose the threshold for each half of the groups on the other half.
        class_names: of all classes, the background first; needed for several classes.

    Returns:
        A JSON object with each mean and its interval as `{"mean", "low", "high"}`,
        which are null if they are undefined. Metrics that do not apply to the data are
        left out.
    """
    found = intervals(_columns(arrays), arrays[UNITS[resampled(arrays["groups"])]])

    def by_count(name: str) -> dict[int, Any]:
        return dict(zip(rules.counts, found[name]))

    def energy(prefix: str) -> dict[str, Any]:
        names = ("ged", "floor", "excess")
        return {n: by_count(prefix + n) for n in names if prefix + n in found}

    summary: dict[str, Any] = energy("")
    if "cross" in found:
        summary["terms"] = {
            "cross": by_count("cross"),
            "samples": by_count("sample_distance"),
            "graders": found["grader_distance"],
        }
    if "mode_ged" in found:
        summary["exact_modes"] = energy("mode_")
    summary.update({m.name: found[m.name] for m in METRICS if m.name in found})
    baselines = [name for name in found if name.startswith(_BASELINE)]
    if baselines:
        summary["baselines"] = {
            name[len(_BASELINE) :]: {"ged": by_count(name)} for name in baselines
        }
    if rules.kind == "binary":
        summary.update(_binary(arrays, rules, num_graders, validation, cross_fit))
    if rules.kind == "classes":
        summary["calibration"] = _calibration(arrays)
        summary["by_class"] = _by_class(arrays, rules, class_names)
    if rules.kind == "switched":
        summary.update(_switched(arrays))
    return plain(summary)


def resampled(groups: np.ndarray) -> str:
    """Returns what the bootstrap resamples: "groups", or "images" if groups are few.

    Args:
        groups: [N], the group of each image.
    """
    number = len(set(groups))
    few = number < min(MIN_GROUPS, len(groups))  # Groups of one image are images.
    return "images" if few else "groups"


def intervals(columns: Mapping[str, np.ndarray], groups: np.ndarray) -> dict[str, Any]:
    """Returns means and bootstrap intervals of per-image values, by groups.

    Args:
        columns: [N] or [N, C] by name. Images whose value is NaN are left out of its
            mean, and counted.
        groups: [N].

    Returns:
        By name `mean`, `low`, `high` and, if images were left out, `left_out`; for
        [N, C] a list of C of these.
    """
    flat = {
        (name, place): column
        for name, values in columns.items()
        for place, column in enumerate(values.reshape(len(values), -1).T)
    }
    # Columns without NaN share their resamples, so one bootstrap is enough for them.
    whole = [place for place, column in flat.items() if np.isfinite(column).all()]
    found = {}
    if whole:
        table = np.stack([flat[place] for place in whole], axis=1)
        found = dict(zip(whole, _bootstrap(table, groups)))
    for place, column in flat.items():
        if place not in found:
            found[place] = _with_gaps(column, groups)
    return {
        name: found[name, 0]
        if values.ndim == 1
        else [found[name, place] for place in range(values.shape[1])]
        for name, values in columns.items()
    }


def plain(value: Any) -> Any:
    """Converts a value to JSON types; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _columns(arrays: Arrays) -> dict[str, np.ndarray]:
    """Returns all values whose mean is reported, and the excess over the floors."""
    names = {metric.name for metric in METRICS}
    names |= {name for name in arrays if name.startswith(_BASELINE)}
    names |= {"ged", "floor", "cross", "sample_distance", "grader_distance"}
    names |= {"mode_ged", "mode_floor"}
    columns = {name: arrays[name] for name in sorted(names & set(arrays))}
    for prefix in ("", "mode_"):
        if f"{prefix}floor" in arrays:
            excess = arrays[f"{prefix}ged"] - arrays[f"{prefix}floor"]
            columns[f"{prefix}excess"] = excess
    return columns


def _bootstrap(table: np.ndarray, groups: np.ndarray) -> list[dict[str, Any]]:
    """Returns an interval for each column of a table [N, C] of finite values."""
    bounds = statistics.group_bootstrap(
        table,
        groups,
        seed=BOOTSTRAP_SEED,
        confidence=CONFIDENCE,
        num_resamples=NUM_RESAMPLES,
    )
    return [dict(zip(("mean", "low", "high"), column)) for column in zip(*bounds)]


def _with_gaps(column: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    kept = np.isfinite(column)
    left_out = {"left_out": int((~kept).sum())}
    if not kept.any():
        return {"mean": None, "low": None, "high": None, **left_out}
    return {**_bootstrap(column[kept][:, None], groups[kept])[0], **left_out}


def _binary(
    arrays: Arrays,
    rules: Rules,
    num_graders: int,
    validation: Arrays | None,
    cross_fit: bool,
) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "calibration": _calibration(arrays),
        "presence": {
            "samples": (arrays["sample_presence"] / rules.presence_steps).mean(),
            "graders": (
                arrays["grader_presence"] / arrays.get("num_graders", num_graders)
            ).mean(),
        },
        "by_presence": _strata(arrays, num_graders),
    }
    # One grader can't disagree with another.
    several = np.broadcast_to(
        arrays.get("num_graders", num_graders) > 1, len(arrays["keys"])
    )
    if several.any():
        summary["ambiguity"] = _ambiguity(
            arrays, validation, rules.presence_steps, num_graders
        )
        groups = arrays["groups"][several]
        if cross_fit and len(set(groups)) > 1:
            summary["ambiguity"]["accuracy"] = ambiguity.cross_fitted_accuracy(
                *_presences(arrays, num_graders), groups, rules.presence_steps
            )
    return summary


def _calibration(arrays: Arrays) -> dict[str, Any]:
    return {
        name: _reliability(arrays[array])
        for name, array in _RELIABILITIES.items()
        if array in arrays
    }


def _by_class(
    arrays: Arrays, rules: Rules, class_names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Returns the results of each class but the background, for the largest count."""
    columns = {
        name: arrays[f"class_{name}"]
        for name in (*CLASS_METRICS, *_CLASS_AREAS)
        if f"class_{name}" in arrays
    }
    found = intervals(columns, arrays[UNITS[resampled(arrays["groups"])]])
    shares = {
        "samples": arrays["class_sample_presence"] / rules.presence_steps,
        "graders": arrays["class_grader_presence"] / arrays["class_num_graders"],
    }
    result = {}
    for place, name in enumerate(class_names[1:]):
        values = {metric: found[metric][place] for metric in columns}
        result[name] = {
            **{metric: values[metric] for metric in columns if metric in CLASS_METRICS},
            "presence": {who: share[:, place].mean() for who, share in shares.items()},
            "area": {area[:-5] + "s": values[area]["mean"] for area in _CLASS_AREAS},
            "calibration": _calibration(
                {a: arrays[f"class_{a}"][:, place] for a in _RELIABILITIES.values()}
            ),
        }
    return result


def _reliability(sums: np.ndarray) -> dict[str, Any]:
    """Returns the calibration from the sums [N, 3, B] of the images."""
    total = calibration.Reliability(*sums.sum(axis=0))
    predicted, observed = total.curve()
    return {
        "ece": total.expected_calibration_error(),
        "count": total.number,
        "predicted": predicted,
        "observed": observed,
    }


def _strata(arrays: Arrays, num_graders: int) -> dict[Any, dict[str, Any]]:
    """Returns results by number of non-empty graders, for the largest count.

    If the number of graders varies, the strata are none, some and all of them.
    """
    columns = {"ged": arrays["ged"][:, -1], "hungarian_iou": arrays["hungarian_iou"]}
    if "floor" in arrays:
        columns["floor"] = arrays["floor"][:, -1]
    present = arrays["grader_presence"]
    names: list[Any] = list(range(num_graders + 1))
    if "num_graders" in arrays:
        present = 1 * (present > 0) + (present == arrays["num_graders"])
        names = ["none", "some", "all"]
    strata: dict[Any, dict[str, Any]] = {
        name: {"images": int((present == number).sum())}
        for number, name in enumerate(names)
    }
    for column, values in columns.items():
        kept = np.isfinite(values)
        split = statistics.by_presence(values[kept], present[kept], len(names) - 1)
        for number, stratum in split.items():
            strata[names[number]][column] = stratum.mean
    return strata


def _ambiguity(
    arrays: Arrays, validation: Arrays | None, num_samples: int, num_graders: int
) -> dict[str, Any]:
    counts, ambiguous = _presences(arrays, num_graders)
    both = ambiguity.histograms(counts, ambiguous, num_samples)
    result = {
        "num_samples": num_samples,
        "always_ambiguous": ambiguous.mean(),
        "auroc": ambiguity.auroc(-counts, ambiguous),
        "auroc_of_mixed": ambiguity.auroc(
            np.minimum(counts, num_samples - counts), ambiguous
        ),
        "histograms": dict(zip(("ambiguous", "unambiguous"), both)),
    }
    if validation is not None:
        validation_counts, validation_ambiguous = _presences(validation, num_graders)
        detection = ambiguity.detect(
            validation_counts=validation_counts,
            validation_ambiguous=validation_ambiguous,
            test_counts=counts,
            test_ambiguous=ambiguous,
            num_samples=num_samples,
        )
        result.update(
            auroc=detection.auroc,
            threshold=detection.rule.threshold,
            direction=detection.rule.direction,
            accuracy=detection.accuracy,
            validation_accuracy=detection.validation_accuracy,
            validation_images=len(validation_counts),
        )
    return result


def _presences(arrays: Arrays, num_graders: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the samples with a lesion, and whether the graders disagree on it.

    Images with a single grader are left out.
    """
    return ambiguity.presence_of_several(
        arrays["sample_presence"],
        arrays["grader_presence"],
        arrays.get("num_graders", num_graders),
    )


def _switched(arrays: Arrays) -> dict[str, Any]:
    modes = switched_calibration.mode_calibration(arrays["mode_counts"].sum(axis=0))
    counts = arrays["pixel_counts"].sum(axis=0)
    pixels = switched_calibration.pixel_calibration(counts)
    ties = switched_calibration.undecided_shares(arrays["switch_ties"].sum(axis=0))
    names = [switch.name for switch in SWITCHES]
    return {
        "mode_calibration": {
            **dataclasses.asdict(modes),
            "undecided": arrays["undecided"].sum() / arrays["mode_counts"].sum(),
            "undecided_by_class": dict(zip(names, ties)),
        },
        "pixel_calibration": {"classes": names, **dataclasses.asdict(pixels)},
        "folded_iou": dataclasses.asdict(switched_calibration.folded_iou(counts)),
    }
