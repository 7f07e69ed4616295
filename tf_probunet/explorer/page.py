"""Writes a scene as a single HTML file that works offline."""

from __future__ import annotations

import base64
import html
import json
import pathlib
from typing import Any

import numpy as np

from tf_probunet.explorer.scene import Scene, SliceView
from tf_probunet.figures.palette import colors
from tf_probunet.predict.intensity import brightened

_FOLDER = pathlib.Path(__file__).parent
_LEVELS = 2**16 - 1


def render(scene: Scene) -> str:
    """Returns the page.

    The features are rounded to 65536 levels between the smallest and the largest value
    of each channel. Probabilities differ from the model's by about 1e-4 at most, and
    labels only where two classes are that close.
    """
    text = (_FOLDER / "page.html").read_text(encoding="utf-8")
    parts = {
        "{{TITLE}}": html.escape(scene.title),
        "{{MODEL}}": html.escape(scene.model),
        "{{STYLE}}": (_FOLDER / "page.css").read_text(encoding="utf-8"),
        "{{SCRIPT}}": (_FOLDER / "page.js").read_text(encoding="utf-8"),
        "{{DATA}}": _script_safe(json.dumps(page_data(scene), allow_nan=False)),
    }
    for name, value in parts.items():
        text = text.replace(name, value)
    return text


def page_data(scene: Scene) -> dict[str, Any]:
    """Returns what the page's script reads, as a JSON object."""
    height, width, channels = scene.image.shape
    single = SliceView(
        0, scene.image, scene.features, scene.prior_mean, scene.prior_stddev
    )
    return {
        "height": height,
        "width": width,
        "channels": 3 if channels == 3 else 1,
        "slices": [_slice_data(view) for view in scene.slices or (single,)],
        "slice": scene.slice,
        "classes": scene.class_names,
        "colors": colors(scene.class_names).tolist(),
        "latentKernel": _numbers(scene.latent_kernel),
        "outlineStddev": scene.outline_stddev,
        "outlineSharpness": scene.outline_sharpness,
        "layers": [
            {"kernel": _numbers(layer.kernel), "bias": _numbers(layer.bias)}
            for layer in scene.layers
        ],
        "samples": [_numbers(z) for z in scene.samples],
        "hypotheses": [
            {"sample": one.sample, "probability": round(one.probability, 4)}
            for one in scene.hypotheses.found
        ],
        "explained": round(scene.hypotheses.explained, 4),
        "graders": [
            {"name": name, "latent": _numbers(z), "labels": _base64(labels)}
            for name, z, labels in zip(
                scene.grader_names, scene.grader_latents, scene.graders
            )
        ],
        "axes": list(scene.axes),
        "start": scene.start,
        "pixelMm2": scene.pixel_mm2,
        "stepMm": scene.step_mm,
    }


def _slice_data(view: SliceView) -> dict[str, Any]:
    low, step, quantised = quantise(view.features)
    return {
        "number": view.number,
        "image": _base64(_picture(view.image)),
        "features": _base64(quantised.astype("<u2")),
        "low": _numbers(low),
        "step": _numbers(step),
        "mean": _numbers(view.prior_mean),
        "stddev": _numbers(view.prior_stddev),
    }


def quantise(features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rounds features [H, W, D] to 16 bits: low + step * number gives them back.

    Returns:
        low: [D].
        step: [D], half of which is the largest error.
        numbers: [H, W, D] uint16.
    """
    low = features.min(axis=(0, 1)).astype(np.float64)
    spread = features.max(axis=(0, 1)) - low
    step = np.where(spread > 0, spread / _LEVELS, 1.0)
    return low, step, np.rint((features - low) / step).astype(np.uint16)


def _picture(image: np.ndarray) -> np.ndarray:
    shown = image if image.shape[-1] == 3 else brightened(image[..., :1])
    return np.rint(255 * shown.clip(0, 1)).astype(np.uint8)


def _numbers(array: np.ndarray) -> list:
    """Returns nested lists of numbers that give the same float32 when read back."""
    return [float(f"{v:.9g}") for v in np.ravel(array)]


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _script_safe(text: str) -> str:
    """Escapes what could end a script element."""
    return text.replace("<", "\\u003c")
