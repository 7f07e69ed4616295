"""Maps stored values to the 0..1 that a network is trained on."""

from __future__ import annotations

import numpy as np

from tf_probunet.config import DataConfig

# A few very bright or dark pixels must not decide about all others.
_PERCENTILES = (0.5, 99.5)


def training_window(intensity: str, data: DataConfig) -> tuple[float, float]:
    """Returns the values that became 0 and 1 in training.

    `dataset.input_pipeline.normalise` applies the same window in TensorFlow.

    Args:
        intensity: of the data set: "hu" (Hounsfield units) or "uint8".
        data: holds the window for Hounsfield units.
    """
    if intensity == "hu":
        return data.window_low, data.window_high
    return 0.0, 255.0


def file_window(pixels: np.ndarray, rule: str) -> tuple[float, float]:
    """Returns the values of an image file that become 0 and 1.

    Args:
        pixels: all values of the file.
        rule: "minmax" for the smallest and largest, "percentiles" for 0.5 and 99.5 %.
    """
    if rule == "minmax":
        return float(pixels.min()), float(pixels.max())
    low, high = np.percentile(pixels, _PERCENTILES)
    return float(low), float(high)


def apply_window(pixels: np.ndarray, low: float, high: float) -> np.ndarray:
    """Maps `low` to 0 and `high` to 1, and clips: float32 of the same shape."""
    scaled = (pixels - low) / max(high - low, float(np.finfo(np.float32).tiny))
    return scaled.clip(0.0, 1.0).astype(np.float32)


def describe(intensity: str, data: DataConfig) -> str:
    """Says how values become 0..1, for model cards and messages."""
    low, high = training_window(intensity, data)
    if intensity == "hu":
        return f"Hounsfield units, {low:g} to {high:g} mapped to 0..1 and clipped"
    return f"8-bit values divided by {high:g}"
