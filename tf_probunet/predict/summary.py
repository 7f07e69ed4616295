"""What the samples of an image say, in numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.prediction import Prediction, target_mm


def summary(
    prediction: Prediction, model: LoadedModel, config: PredictConfig
) -> dict[str, Any]:
    """Returns the summary of one image as a JSON object."""
    image, planned = prediction.image, prediction.grid
    return {
        "image": image.name,
        "source": image.source,
        "slice": image.slice_index,
        "shape": list(image.shape),
        "spacing_mm": None if image.spacing_mm is None else list(image.spacing_mm),
        "region": dataclasses.asdict(planned.region),
        "model_resolution": {
            "shape": list(planned.shape),
            "seen": dataclasses.asdict(planned.seen),
            "spacing_mm": target_mm(image, model) or model.spacing_mm,
        },
        "num_samples": len(prediction.labels),
        "seed": config.seed,
        "sampling": prediction.sampling,
        "presence_probability": presence(prediction, model),
        "classes": _classes(prediction, model),
        **hypotheses(prediction, model),
        "notes": prediction.notes,
    }


def hypotheses(prediction: Prediction, model: LoadedModel) -> dict[str, Any]:
    """Returns the hypotheses, and how much of the distribution they stand for."""
    return {
        "hypotheses": [
            {
                "probability": hypothesis.probability,
                "sample": hypothesis.sample,
                "is_empty": hypothesis.is_empty and model.has_background,
                "areas": {
                    name: area(
                        prediction.labels[hypothesis.sample] == label, prediction
                    )
                    for label, name in foreground_classes(model)
                },
            }
            for hypothesis in prediction.hypotheses.found
        ],
        "explained": prediction.hypotheses.explained,
        "energy_distance": prediction.hypotheses.energy_distance,
    }


def presence(prediction: Prediction, model: LoadedModel) -> float | None:
    """Returns the share of samples that show anything; None without a background."""
    if not model.has_background:
        return None
    return float(prediction.labels.any(axis=(1, 2)).mean())


def foreground_classes(model: LoadedModel) -> list[tuple[int, str]]:
    """Returns the labels and names of the classes whose areas are of interest."""
    names = list(enumerate(model.class_names))
    return names[1:] if model.has_background else names


def area(mask: np.ndarray, prediction: Prediction) -> dict[str, Any]:
    """Returns the area of a mask [H, W] in pixels, and in mm² where that is known."""
    pixels = int(np.count_nonzero(mask))
    spacing = prediction.image.spacing_mm
    if spacing is None:
        return {"pixels": pixels, "mm2": None}
    return {"pixels": pixels, "mm2": round(pixels * spacing[0] * spacing[1], 3)}


def area_text(mask: np.ndarray, prediction: Prediction) -> str:
    """Returns the area of a mask for people."""
    measured = area(mask, prediction)
    if measured["mm2"] is None:
        return f"{measured['pixels']} px"
    decimals = 0 if measured["mm2"] >= 100 else 1
    return f"{measured['mm2']:.{decimals}f} mm²"


def _classes(prediction: Prediction, model: LoadedModel) -> dict[str, Any]:
    """Per class: how many samples show it, and the range of its area in those."""
    spacing = prediction.image.spacing_mm
    unit = 1.0 if spacing is None else spacing[0] * spacing[1]
    result = {}
    for label, name in foreground_classes(model):
        pixels = (prediction.labels == label).sum(axis=(1, 2))
        shown = pixels[pixels > 0] * unit
        result[name] = {
            "label": label,
            "presence_probability": float((pixels > 0).mean()),
            "area_unit": "pixels" if spacing is None else "mm2",
            "area_where_present": (
                {
                    "least": round(float(shown.min()), 3),
                    "median": round(float(np.median(shown)), 3),
                    "most": round(float(shown.max()), 3),
                }
                if shown.size
                else None
            ),
        }
    return result
