"""Reads images, predicts them and writes the results: all of them, or none."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from tf_probunet import exchange, files, locks
from tf_probunet.artifacts import saved_model
from tf_probunet.imaging import read_nifti
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import picture, write_dicom_seg, write_nifti, write_png
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.prediction import (
    Prediction,
    check_extent,
    check_memory,
    model_input,
    predict_image,
)
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.predict.summary import summary
from tf_probunet.progress import track

SUMMARY_NAME = "summary.json"
PICTURE_NAME = "summary.png"
STAGING = "predict"


@locks.holding("out_dir")
def predict(
    *,
    model_path: files.Path,
    inputs: Sequence[str],
    out_dir: files.Path,
    crop: CropConfig,
    config: PredictConfig,
) -> dict[str, Any]:
    """Predicts images with a SavedModel.

    Args:
        model_path: the SavedModel.
        inputs: files, or directories.
        out_dir: gets a directory for each image, and `summary.json` over all.
        crop: selects slices and a part of them.
        config: number of samples, output format and so on.

    Returns:
        The content of `summary.json`.

    Raises:
        FileNotFoundError: there is no such file or model.
        ValueError: a file cannot be read, image and model do not fit each other,
            something of that name exists, or another command is writing to `out_dir`.
    """
    out_dir = pathlib.Path(out_dir)
    exchange.recover(out_dir, STAGING, by_name=True)
    files.remove_temporaries(out_dir)
    images = read_inputs(inputs, crop)
    formats, notes = _formats(images, config.output_format)
    check_free(out_dir, [image.name for image in images], config.overwrite)
    model = saved_model.load(model_path)
    check_extent(images, model, crop, len(inputs))
    for image in images:  # Before hours of work, not after.
        check_memory(image, model, config)
        model_input(image, model, crop)
    with exchange.staged(out_dir, STAGING, last=SUMMARY_NAME) as staging:
        summaries = []
        work = track(zip(images, formats), len(images), "images")
        for image, output_format in work:
            prediction = predict_image(image, model, crop, config)
            described = summary(prediction, model, config)
            folder = staging.new / image.name
            folder.mkdir()
            _write(folder, prediction, model, output_format)
            files.write_json(folder / SUMMARY_NAME, described)
            summaries.append(described)
        result = {**described_model(model, notes), **_overview(summaries)}
        files.write_json(staging.new / SUMMARY_NAME, result)
    return result


def _formats(images: Sequence[InputImage], wanted: str) -> tuple[list[str], list[str]]:
    """Returns the format for each image, and notes for the user."""
    defaults = {
        "dicom": "dicom_seg",
        "nifti": "nifti",
        "picture": "png",
        "array": "png",
    }
    formats = [defaults[i.kind] if wanted == "auto" else wanted for i in images]
    notes = []
    if "nifti" in formats:
        read_nifti.nibabel()
    if "dicom_seg" in formats:
        try:
            write_dicom_seg.highdicom()
        except ValueError:
            if wanted != "auto":
                raise
            formats = ["png" if f == "dicom_seg" else f for f in formats]
            notes.append(
                "the label maps are PNG files: for DICOM segmentations, pip install "
                "'tf_probunet[dicom-seg]'"
            )
    for image, output_format in zip(images, formats):
        if output_format == "dicom_seg":
            if image.kind != "dicom":
                raise ValueError(
                    f"{image.describe()}: not a DICOM file, which --output_format="
                    "dicom_seg needs; expected nifti or png"
                )
            write_dicom_seg.read_source(image.source)
    return formats, notes


def check_free(out_dir: pathlib.Path, names: Sequence[str], overwrite: bool) -> None:
    """Checks that nothing is in the way that may not be replaced.

    Raises:
        ValueError: something is.
    """
    paths = [out_dir / name for name in names]
    for path in [out_dir / SUMMARY_NAME, *paths]:
        if path.exists() and not overwrite:
            raise ValueError(f"{path}: exists already; --overwrite replaces it")
    for path in paths:
        is_empty = path.is_dir() and not any(path.iterdir())
        if path.exists() and not is_empty and not (path / SUMMARY_NAME).is_file():
            raise ValueError(
                f"{path}: holds something other than results; it is not replaced"
            )


def _write(
    folder: pathlib.Path,
    prediction: Prediction,
    model: saved_model.LoadedModel,
    output_format: str,
) -> None:
    if output_format == "nifti":
        write_nifti.write_labels(folder, prediction)
        write_nifti.write_maps(folder, prediction)
    else:
        if output_format == "dicom_seg":
            write_dicom_seg.write(folder, prediction, model)
        else:
            write_png.write_labels(folder, prediction, model)
        write_png.write_maps(folder, prediction, model)
    (folder / PICTURE_NAME).write_bytes(picture.render(prediction, model))


def described_model(model: saved_model.LoadedModel, notes: list[str]) -> dict[str, Any]:
    """Returns the beginning of `summary.json` over all results."""
    return {
        "model": {
            "path": str(model.path),
            "name": model.metadata["model"],
            "trained_on": model.dataset["name"],
            "fingerprint": model.dataset["fingerprint"],
        },
        "notes": notes,
    }


def _overview(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "images": [
            {
                "image": one["image"],
                "source": one["source"],
                "slice": one["slice"],
                "presence_probability": one["presence_probability"],
                "num_samples": one["num_samples"],
                "hypotheses": [
                    {name: h[name] for name in ("probability", "is_empty")}
                    for h in one["hypotheses"]
                ],
                "explained": one["explained"],
                "notes": one["notes"],
            }
            for one in summaries
        ],
    }
