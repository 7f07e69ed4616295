"""The summary of a lesion as JSON: volumes, diameters, presence and hypotheses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tf_probunet.evaluation.metrics import volumes
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.lesion import ENDS, Lesion


def summary(
    lesion: Lesion, config: PredictConfig, rules: LesionConfig
) -> dict[str, Any]:
    """Returns the summary of one lesion as a JSON object."""
    volume, images = lesion.volume, lesion.volume.images
    sizes, lengths = lesion.volumes_mm3, lesion.diameters_mm
    index, row, col = lesion.point
    z_mm = _heights(lesion)
    return {
        "lesion": lesion.name,
        "source": images[lesion.first].source,
        "point": {"slice": volume.first + index, "row": row, "col": col},
        "slices": lesion.slice_numbers,
        "box": dataclasses.asdict(lesion.box),
        "spacing_mm": [round(mm, 6) for mm in volume.spacing_mm],
        "step_mm": round(volume.step_mm, 6),
        "voxel_mm3": round(volume.voxel_mm3, 6),
        "num_samples": len(lesion.labels),
        "seed": config.seed,
        "rules": dataclasses.asdict(rules),
        "ended": {
            where: ENDS[end] for where, end in zip(("below", "above"), lesion.ended)
        },
        "presence_probability": lesion.presence,
        "slice_presence": [
            {"slice": number, "z_mm": z, "presence": float(share)}
            for number, z, share in zip(
                lesion.slice_numbers, z_mm, lesion.slice_presence
            )
        ],
        "volume_mm3": distribution(sizes),
        "diameter_mm": distribution(lengths),
        "hypotheses": [
            {
                "probability": float(weight),
                "sample": int(sample),
                "volume_mm3": round(float(sizes[sample]), 3),
                "diameter_mm": round(float(lengths[sample]), 3),
                "is_empty": not lesion.labels[sample].any(),
            }
            for sample, weight in zip(*lesion.hypotheses[:2])
        ],
        "explained": float(lesion.hypotheses.explained),
        "notes": lesion.notes,
    }


def distribution(values: np.ndarray) -> dict[str, Any]:
    """Returns the median, the central intervals and all values.

    Args:
        values: [S], of the samples. Empty samples count with 0.
    """
    return {
        "median": round(float(np.median(values)), 3),
        "intervals": {
            f"{100 * share:.0f}": [
                round(end, 3) for end in volumes.central_interval(values, share)
            ]
            for share in volumes.SHARES
        },
        "samples": [round(float(value), 3) for value in values],
    }


def size_text(sizes: np.ndarray, unit: str) -> str:
    """Returns the median and the 90 % interval for people."""
    low, high = volumes.central_interval(sizes, 0.9)
    places = 0 if np.median(sizes) >= 100 else 1
    return f"{np.median(sizes):.{places}f} {unit} ({low:.{places}f}-{high:.{places}f})"


def _heights(lesion: Lesion) -> list[float]:
    """Returns the height of the middle of each slice's first pixel, in mm."""
    affine = lesion.volume.affine
    places = lesion.first + np.arange(lesion.labels.shape[1])
    return [round(float(affine[2, 3] + affine[2, 2] * k), 3) for k in places]
