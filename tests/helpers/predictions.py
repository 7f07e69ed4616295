"""Predictions of files, and of made-up samples without a model."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import PIL.Image
from helpers.threshold_model import probability

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.evaluation.metrics.distances import LabelSet
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import predict as predict_lib
from tf_probunet.predict import sampling as sampling_lib
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.grid import Grid, Region
from tf_probunet.predict.hypotheses import choose
from tf_probunet.predict.prediction import Prediction


def with_classes(model: LoadedModel, names: list[str]) -> LoadedModel:
    """Returns a model that says it has classes of these names."""
    dataset = {**model.dataset, "class_names": names}
    return dataclasses.replace(model, dataset=dataset)


def made_up_prediction(
    num_classes: int, number: int = 12, shape: tuple[int, int] = (8, 12)
) -> Prediction:
    """Returns a prediction of random samples."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1.0] * num_classes, size=(number, *shape))
    labels = probabilities.argmax(-1).astype(np.uint8)
    mean = probabilities.mean(0).astype(np.float32)
    return Prediction(
        image=InputImage("x", "x.npy", "array", np.zeros((*shape, 1)), "hu"),
        grid=Grid(Region(0, 0, *shape), shape, shape),
        shown=np.zeros((*shape, 1)),
        labels=labels,
        mean=mean,
        entropy=-(mean * np.log(mean)).sum(-1),
        hypotheses=choose(labels, 3, LabelSet.of_foreground(num_classes, None)),
        notes=[],
    )


def predict_files(
    model: LoadedModel,
    out_dir: pathlib.Path,
    *inputs: pathlib.Path,
    crop: dict | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Predicts files with four independent samples and the seed 5."""
    defaults = {"num_samples": 4, "seed": 5, "sampling": "independent"}
    return predict_lib.predict(
        model_path=model.path,
        inputs=[str(path) for path in inputs],
        out_dir=out_dir,
        crop=CropConfig(**(crop or {})),
        config=PredictConfig(**{**defaults, **settings}),
    )


def sample_labels(folder: pathlib.Path, number: int = 4) -> np.ndarray:
    """Reads the label maps [S, H, W] of the samples of an image."""
    return np.stack(
        [
            np.array(PIL.Image.open(folder / f"sample_{i:03d}.png"))
            for i in range(number)
        ]
    )


def hounsfield_units(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Returns random values from -1000 to 399."""
    return np.random.default_rng(seed).integers(-1000, 400, shape).astype(np.int16)


def closed_form(
    model: LoadedModel,
    values: np.ndarray,
    number: int = 4,
    seed: int = 5,
    sampling: str = "independent",
) -> np.ndarray:
    """Returns probabilities [S, H, W] at values in 0..1."""
    z = sampling_lib.draw_latents(
        model, values[..., None], count=number, seed=seed, sampling=sampling, about="x"
    )
    return np.stack([probability(values, level) for level in z[:, 0]])
