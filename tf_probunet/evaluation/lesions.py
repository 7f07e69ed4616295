"""Scores whole lesions: the samples and graders of a lesion's slices as volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet.dataset import lesion_keys
from tf_probunet.evaluation import summary
from tf_probunet.evaluation.metrics import checks, ged, matching, volumes
from tf_probunet.evaluation.metrics.distances import intersections, volume_blocks
from tf_probunet.evaluation.scoring import Arrays, Rules

# How a sample goes through the slices of a lesion, for tables. The first that an
# evaluation has is the one that it reports; the others are compared with it.
WAYS = {
    "stacked": "sample k of each slice",
    "shared": "one noise for all slices",
    "smoothed": "the same, priors smoothed",
    "independent": "own noise for each slice",
    "majority": "majority of the samples",
    "prior_mean": "mean of the prior",
}
# What is compared between them.
COMPARED = (
    "ged",
    "hungarian_iou",
    "volume_crps",
    "relative_volume_crps",
    "presence_brier",
    *(f"coverage_{100 * share:.0f}" for share in volumes.SHARES),
)


def slice_counts(samples: np.ndarray, graders: np.ndarray) -> np.ndarray:
    """Counts the shared pixels of one slice, for each way of drawing.

    Args:
        samples: [W, S, H, W'] binary, the samples of W ways.
        graders: [M, H, W'] binary.

    Returns:
        [W, S + M, S + M] int32.
    """
    counts = [intersections(one, graders) for one in samples]
    return np.stack(counts).astype(np.int32)


def smoothed(
    priors: Mapping[str, np.ndarray], keys: Sequence[str], sigma: float
) -> dict[str, np.ndarray]:
    """Smooths the means of the priors along the slices of each lesion.

    Args:
        priors: the mean [L] of each slice, by key.
        keys: of all slices.
        sigma: of the Gaussian, in slices.

    Returns:
        The means by key.
    """
    apart = lesion_keys.distances_mm(keys)
    result: dict[str, np.ndarray] = {}
    for indices in lesion_keys.by_lesion(keys).values():
        names = [keys[i] for i in indices]
        slices = [lesion_keys.parse(name) for name in names]
        step = apart.get(slices[0].scan, 1.0) if slices[0].in_mm else 1.0
        weights = volumes.smoothing_weights([one.place / step for one in slices], sigma)
        result.update(zip(names, weights @ np.stack([priors[name] for name in names])))
    return result


def score(rules: Rules, arrays: Arrays, ways: Sequence[str]) -> dict[str, Arrays]:
    """Scores the lesions.

    Args:
        rules: how they are scored.
        arrays: of all slices: `keys` and `groups` [N], `intersections`
            [N, W, S + M, S + M] and `pixel_mm` [N, 2], NaN where unknown.
        ways: the names of the W ways.

    Returns:
        For each way, arrays [L, ...] of the lesions by name; `keys` are the lesions.

    Raises:
        ValueError: a key names no slice of a lesion.
    """
    keys = [str(key) for key in arrays["keys"]]
    lesions = lesion_keys.by_lesion(keys)
    voxels = _voxels_mm3(keys, lesions, arrays["pixel_mm"])
    known = np.isfinite(voxels)
    # A data set is scored in mm3 if it knows them, and else in voxels.
    units = voxels if known.any() else np.ones(len(voxels))
    shared = {
        "keys": np.array(list(lesions)),
        "groups": np.array([arrays["groups"][i[0]] for i in lesions.values()]),
        "slices": np.array([len(i) for i in lesions.values()]),
        "voxel_mm3": voxels,
    }
    result = {}
    for place, way in enumerate(ways):
        rows = []
        for (lesion, indices), unit in zip(lesions.items(), units):
            counts = arrays["intersections"][indices, place].sum(axis=0)
            with checks.naming(lesion):
                rows.append(_lesion(rules, counts.astype(np.float64), unit))
        columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        result[way] = {**shared, **columns}
    return result


def _lesion(rules: Rules, counts: np.ndarray, voxel: float) -> Arrays:
    """Returns the scores of one lesion; those of its volume are NaN without a unit."""
    num_samples = rules.counts[-1]
    blocks = volume_blocks(counts, num_samples, both_empty=rules.both_empty)
    terms = ged.block_terms(blocks, counts=rules.counts, statistic=rules.statistic)
    cross = volume_blocks(counts, num_samples).cross[: rules.matched]
    sizes = np.diagonal(counts)
    samples, graders = sizes[:num_samples], sizes[num_samples:]
    off = volumes.crps(samples, graders).mean()
    found = {
        "ged": terms.energy_distance,
        "hungarian_iou": matching.matched_iou(cross),
        "diversity": terms.samples[-1],
        "sample_volumes": samples * voxel,
        "grader_volumes": graders * voxel,
        "volume_crps": off * voxel,
        "relative_volume_crps": off / graders.mean() if graders.any() else np.nan,
        "presence_brier": ((samples > 0).mean() - (graders > 0).mean()) ** 2,
    }
    for share in volumes.SHARES:
        name = f"coverage_{100 * share:.0f}"
        found[name] = volumes.coverage(samples, graders, share)
    if rules.is_papers and len(graders) > 1:
        distances = blocks.graders[np.triu_indices(len(graders), k=1)]
        parts = 1 / np.array(rules.floor_counts) + 1 / len(graders)
        found["floor"] = distances.mean() * parts
    return {name: np.asarray(value, np.float64) for name, value in found.items()}


def _voxels_mm3(
    keys: Sequence[str], lesions: Mapping[str, list[int]], pixel_mm: np.ndarray
) -> np.ndarray:
    """Returns the volume of a voxel of each lesion; NaN where it is not known."""
    apart = lesion_keys.distances_mm(keys)
    return np.array(
        [
            apart.get(lesion_keys.parse(keys[indices[0]]).scan, np.nan)
            * pixel_mm[indices[0]].prod()
            for indices in lesions.values()
        ]
    )


def summarise(rules: Rules, scored: Mapping[str, Arrays]) -> dict[str, Any]:
    """Summarises lesions, and compares the ways with the first.

    Args:
        rules: how they were scored.
        scored: by way, as `score` returns them.

    Returns:
        A JSON object with each mean and its interval by patient: those of the first
        way, and under `ways` those of each, with the `difference` of the others from
        the first.
    """
    first, *others = scored
    arrays = scored[first]
    groups = arrays[summary.UNITS[summary.resampled(arrays["groups"])]]
    names = [*COMPARED, "diversity", *({"floor"} & set(arrays))]
    found = summary.intervals({name: arrays[name] for name in names}, groups)
    found = {
        name: dict(zip(rules.counts, value)) if isinstance(value, list) else value
        for name, value in found.items()
    }
    ways = {}
    for way, columns in scored.items():
        means = {name: _last(columns[name]) for name in COMPARED}
        ways[way] = summary.intervals(means, groups)
        if way in others:
            apart = {n: means[n] - _last(arrays[n]) for n in COMPARED}
            ways[way]["difference"] = summary.intervals(apart, groups)
    unit = "mm3" if np.isfinite(arrays["voxel_mm3"]).any() else "voxels"
    return summary.plain({**found, "volume_unit": unit, "way": first, "ways": ways})


def _last(values: np.ndarray) -> np.ndarray:
    """Returns the values with the largest number of samples."""
    return values[:, -1] if values.ndim > 1 else values
