"""Follows lesions through a scan and writes them as volumes: all of them, or none."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from tf_probunet import exchange, files, locks
from tf_probunet.artifacts import saved_model
from tf_probunet.imaging import read_nifti
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.volume import Volume, volumes_of
from tf_probunet.predict import (
    lesion_picture,
    points,
    write_dicom_seg,
    write_nifti,
)
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.lesion import Lesion, check_model, predict_lesion
from tf_probunet.predict.lesion_summary import summary
from tf_probunet.predict.predict import (
    PICTURE_NAME,
    STAGING,
    SUMMARY_NAME,
    check_free,
    described_model,
)
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.progress import track


@locks.holding("out_dir")
def predict_lesions(
    *,
    model_path: files.Path,
    inputs: Sequence[str],
    out_dir: files.Path,
    crop: CropConfig,
    config: PredictConfig,
    rules: LesionConfig,
) -> dict[str, Any]:
    """Segments lesions through the slices of one scan.

    Args:
        model_path: the SavedModel.
        inputs: a DICOM series or a NIfTI file.
        out_dir: gets a directory for each lesion, and `summary.json` over all.
        crop: has the voxel of a lesion, and how frames become the model's inputs.
        config: number of samples, output format and so on.
        rules: which lesions are followed, and where they end.

    Returns:
        The content of `summary.json`.

    Raises:
        FileNotFoundError: there is no such file or model.
        ValueError: a file cannot be read, scan and model do not fit each other, a
            point is outside of the scan, something of that name exists, or another
            command is writing to `out_dir`.
    """
    out_dir = pathlib.Path(out_dir)
    exchange.recover(out_dir, STAGING, by_name=True)
    files.remove_temporaries(out_dir)
    images, found = find_lesions(inputs, crop, rules)
    name = _scan_name(images)
    names = [f"{name}_{point.name or 'lesion'}" for point, _, _ in found]
    formats, notes = _formats(images, config.output_format)
    check_free(out_dir, names, config.overwrite)
    model = saved_model.load(model_path)
    check_model(model)
    with exchange.staged(out_dir, STAGING, last=SUMMARY_NAME) as staging:
        summaries = []
        work = track(zip(names, found), len(names), "lesions")
        for folder_name, (_, volume, place) in work:
            lesion = predict_lesion(
                volume,
                place,
                folder_name,
                model,
                crop=crop,
                config=config,
                rules=rules,
            )
            described = summary(lesion, config, rules)
            folder = staging.new / folder_name
            folder.mkdir()
            _write(folder, lesion, model, formats)
            files.write_json(folder / SUMMARY_NAME, described)
            summaries.append(described)
        result = {**described_model(model, notes), **_overview(summaries)}
        files.write_json(staging.new / SUMMARY_NAME, result)
    return result


def find_lesions(
    inputs: Sequence[str], crop: CropConfig, rules: LesionConfig
) -> tuple[list[InputImage], list[tuple[points.Point, Volume, tuple[int, int, int]]]]:
    """Reads a scan, and the points of the lesions in it.

    Returns:
        The slices; and each point with its volume, and slice, row and column there.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, is no volume, or a point lies outside.
    """
    _check_flags(crop, rules)
    images = _one_scan(read_inputs(inputs, dataclasses.replace(crop, center=None)))
    volumes = volumes_of(images)
    found = [(point, *point.find(volumes)) for point in _points(images, crop, rules)]
    return images, found


def _check_flags(crop: CropConfig, rules: LesionConfig) -> None:
    ways = {
        "center": crop.center,
        "point_mm": rules.point_mm,
        "points": rules.points,
    }
    given = [f"{name} {value}" for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"{' and '.join(given)} are given, expected one only")
    others = {
        "region": crop.region,
        "slice": crop.slice,
        "instance_number": crop.instance_number,
        "z_mm": crop.z_mm,
        "whole": crop.whole or None,
    }
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"{name} is {value}, expected none: a lesion is followed through all "
                "slices from its point"
            )


def _one_scan(images: list[InputImage]) -> list[InputImage]:
    """Checks that all images are slices of one DICOM series or NIfTI file."""
    first = images[0]
    for image in images:
        if image.kind not in ("dicom", "nifti"):
            raise ValueError(
                f"{image.describe()}: not a volume, expected a DICOM series or a NIfTI "
                "file to follow a lesion through"
            )
        if (image.kind, _scan_name([image])) != (first.kind, _scan_name([first])):
            raise ValueError(
                f"{image.source}: a second scan besides {first.source}, expected one"
            )
    return images


def _scan_name(images: Sequence[InputImage]) -> str:
    """Returns the name of a scan: that of its slices without their numbers."""
    image = images[0]
    if image.slice_index is None:
        return image.name
    return image.name[: -len(f"_{image.slice_index:03d}")]


def _points(
    images: Sequence[InputImage], crop: CropConfig, rules: LesionConfig
) -> list[points.Point]:
    if rules.points is not None:
        return points.read(rules.points, images)
    if rules.point_numbers is not None:
        return [points.from_mm(rules.point_numbers, images[0].kind)]
    assert crop.center_numbers is not None
    return [points.from_center(crop.center_numbers)]


def _formats(images: Sequence[InputImage], wanted: str) -> tuple[set[str], list[str]]:
    """Returns the formats to write, and notes for the user."""
    is_dicom = images[0].kind == "dicom"
    if wanted == "png" or (wanted == "dicom_seg" and not is_dicom):
        raise ValueError(
            f"output_format is {wanted!r}, expected auto, nifti"
            f"{' or dicom_seg' if is_dicom else ''} for volumes of {images[0].kind}"
        )
    checks = {"nifti": read_nifti.nibabel}
    if is_dicom:
        checks["dicom_seg"] = write_dicom_seg.highdicom
    if wanted != "auto":
        checks = {wanted: checks[wanted]}
    formats, notes = set(), []
    for name, check in checks.items():
        try:
            check()
        except ValueError as error:
            if wanted != "auto":
                raise
            notes.append(f"no {name} files are written: {error}")
        else:
            formats.add(name)
    if "dicom_seg" in formats:
        write_dicom_seg.read_source(images[0].source)
    return formats, notes


def _write(
    folder: pathlib.Path,
    lesion: Lesion,
    model: saved_model.LoadedModel,
    formats: set[str],
) -> None:
    if "nifti" in formats:
        write_nifti.write_lesion(folder, lesion)
    if "dicom_seg" in formats:
        write_dicom_seg.write_lesion(folder, lesion, model)
    (folder / PICTURE_NAME).write_bytes(lesion_picture.render(lesion))


def _overview(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "lesions": [
            {
                "lesion": one["lesion"],
                "source": one["source"],
                "point": one["point"],
                "slices": [one["slices"][0], one["slices"][-1]],
                "presence_probability": one["presence_probability"],
                "volume_mm3": _short(one["volume_mm3"]),
                "diameter_mm": _short(one["diameter_mm"]),
                "probabilities": [h["probability"] for h in one["hypotheses"]],
                "notes": one["notes"],
            }
            for one in summaries
        ],
    }


def _short(distribution: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in distribution.items() if k != "samples"}
