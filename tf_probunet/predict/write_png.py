"""Writes label maps, mean and entropy as PNG."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.figures.palette import colors
from tf_probunet.predict.prediction import Prediction


def write_labels(
    folder: pathlib.Path, prediction: Prediction, model: LoadedModel
) -> None:
    """Writes `sample_000.png`, ...: pixels are labels, shown in their colours."""
    for i, labels in enumerate(prediction.labels):
        _write_palette(folder / f"sample_{i:03d}.png", labels, model)


def write_maps(
    folder: pathlib.Path, prediction: Prediction, model: LoadedModel
) -> None:
    """Writes `mean.png` and `entropy.png` to look at, and `maps.npz` to compute with.

    With two classes the mean is the probability of the second, black to white; with
    more, it is the most probable class in its colour. The entropy is white at its
    largest possible value, log K.
    """
    mean, entropy = prediction.mean, prediction.entropy
    if mean.shape[-1] == 2:
        _write_grey(folder / "mean.png", mean[..., 1])
    else:
        _write_palette(folder / "mean.png", mean.argmax(-1), model)
    _write_grey(folder / "entropy.png", entropy / np.log(mean.shape[-1]))
    np.savez_compressed(folder / "maps.npz", mean=mean, entropy=entropy)


def _write_grey(path: pathlib.Path, values: np.ndarray) -> None:
    grey = np.rint(255 * values.clip(0, 1)).astype(np.uint8)
    PIL.Image.fromarray(grey).save(path)


def _write_palette(path: pathlib.Path, labels: np.ndarray, model: LoadedModel) -> None:
    picture = PIL.Image.fromarray(labels.astype(np.uint8)).convert("P")
    picture.putpalette(colors(model.class_names).tobytes())
    picture.save(path)
