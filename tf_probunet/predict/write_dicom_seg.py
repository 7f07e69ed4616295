"""Writes hypotheses as a DICOM segmentation object that refers to the CT slice."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pydicom

from tf_probunet import __version__
from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.imaging import dicom
from tf_probunet.predict.lesion import Lesion
from tf_probunet.predict.prediction import Prediction
from tf_probunet.predict.summary import area_text, foreground_classes

NAME = "hypotheses.dcm"
MEAN_NAME = "mean.dcm"

_SERIES_NUMBER = 900
# Attributes that a segmentation repeats from its source, where they may be empty.
_MAY_BE_EMPTY = (
    "AccessionNumber",
    "PatientBirthDate",
    "PatientID",
    "PatientName",
    "PatientSex",
    "ReferringPhysicianName",
    "StudyDate",
    "StudyID",
    "StudyTime",
)
_NEEDED = (
    "FrameOfReferenceUID",
    "ImageOrientationPatient",
    "ImagePositionPatient",
    "SOPInstanceUID",
    "StudyInstanceUID",
)


def highdicom() -> Any:
    """Imports highdicom.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import highdicom
    except ImportError as error:
        raise ValueError(
            "DICOM segmentations need the package highdicom: pip install "
            "'tf_probunet[dicom-seg]', or choose --output_format=png"
        ) from error
    return highdicom


def read_source(path: str) -> pydicom.Dataset:
    """Reads the slice that a segmentation will refer to.

    Raises:
        ValueError: it is damaged, or lacks what a segmentation must repeat.
    """
    dataset = dicom.read_dataset(path, path)
    if dataset is None:
        raise ValueError(f"{path}: not a DICOM file, expected a CT slice")
    missing = [name for name in _NEEDED if not dataset.get(name)]
    if missing:
        raise ValueError(
            f"{path}: lacks {', '.join(missing)}, which a DICOM segmentation needs; "
            "--output_format=png does not"
        )
    for name in _MAY_BE_EMPTY:
        if name not in dataset:
            setattr(dataset, name, None)
    if "SliceThickness" not in dataset:
        dataset.SliceThickness = 1.0
    return dataset


def write(folder: pathlib.Path, prediction: Prediction, model: LoadedModel) -> None:
    """Writes `hypotheses.dcm`, with a segment for each hypothesis that shows something.

    With several foreground classes there is a segment for each of them. The
    description holds the probability and the area. If all hypotheses are empty there is
    nothing to write, and no file.
    """
    hd = highdicom()
    masks, descriptions = [], []
    for rank, hypothesis in enumerate(prediction.hypotheses.found, start=1):
        labels = prediction.labels[hypothesis.sample]
        for label, name in foreground_classes(model):
            mask = labels == label
            if mask.any():
                masks.append(mask)
                text = (
                    f"probability {hypothesis.probability:.1%}, "
                    f"{area_text(mask, prediction)}"
                )
                descriptions.append(
                    _segment(hd, len(masks), f"Hypothesis {rank}: {name}", text, model)
                )
    if not masks:
        return
    _save(
        folder / NAME,
        [read_source(prediction.image.source)],
        np.stack(masks, axis=-1)[None].astype(np.uint8),  # [1, H, W, N]
        descriptions,
        _content(prediction),
        model,
    )


def write_lesion(folder: pathlib.Path, lesion: Lesion, model: LoadedModel) -> None:
    """Writes a lesion over the slices of its series.

    `hypotheses.dcm` is BINARY, with a segment for each hypothesis that shows something;
    `mean.dcm` is FRACTIONAL, with the mean probability as its only segment. If all
    samples are empty there is nothing to write, and no file.
    """
    hd = highdicom()
    name = foreground_classes(model)[0][1]
    count, sizes = len(lesion.labels), lesion.volumes_mm3
    masks, descriptions = [], []
    for rank, (sample, weight) in enumerate(zip(*lesion.hypotheses[:2]), start=1):
        if lesion.labels[sample].any():
            masks.append(lesion.labels[sample])
            label = f"Hypothesis {rank}: {name}, {weight:.0%}"
            text = f"Probability {weight:.1%}, {sizes[sample]:.0f} mm3"
            descriptions.append(_segment(hd, len(masks), label, text, model))
    if not masks:
        return
    images = lesion.volume.images[lesion.first :][: lesion.labels.shape[1]]
    sources = [read_source(image.source) for image in images]
    empty = float((sizes == 0).mean())
    content = f"{count} samples, {empty:.1%} of them empty"
    hypotheses = np.moveaxis(np.stack(masks), 0, -1)  # [Z, h, w, N]
    _save(
        folder / NAME,
        sources,
        _on_slices(hypotheses, lesion),
        descriptions,
        content,
        model,
    )
    mean = _segment(hd, 1, f"Probability: {name}", f"Mean of {count} samples", model)
    _save(
        folder / MEAN_NAME,
        sources,
        _on_slices(lesion.mean[..., None], lesion),
        [mean],
        content,
        model,
        fractional=True,
    )


def _on_slices(box: np.ndarray, lesion: Lesion) -> np.ndarray:
    """Puts [Z, h, w, N] into whole slices, [Z, H, W, N]."""
    whole = np.zeros((len(box), *lesion.volume.shape[1:], box.shape[-1]), box.dtype)
    rows, cols = lesion.box.slices
    whole[:, rows, cols] = box
    return whole


def _save(
    path: pathlib.Path,
    sources: list[pydicom.Dataset],
    pixels: np.ndarray,
    descriptions: list[Any],
    content: str,
    model: LoadedModel,
    *,
    fractional: bool = False,
) -> None:
    hd = highdicom()
    types, settings = hd.seg.SegmentationTypeValues, {}
    if fractional:
        settings["fractional_type"] = (
            hd.seg.SegmentationFractionalTypeValues.PROBABILITY
        )
    segmentation = hd.seg.Segmentation(
        source_images=sources,
        pixel_array=pixels,
        segmentation_type=types.FRACTIONAL if fractional else types.BINARY,
        segment_descriptions=descriptions,
        series_instance_uid=hd.UID(),
        series_number=_SERIES_NUMBER + fractional,
        sop_instance_uid=hd.UID(),
        instance_number=1,
        manufacturer="tf_probunet",
        manufacturer_model_name=model.metadata["model"],
        software_versions=__version__,
        device_serial_number=model.dataset["fingerprint"],
        content_label="PROBABILITY" if fractional else "HYPOTHESES",
        content_description=content,
        series_description=(
            "Segmentation probability" if fractional else "Segmentation hypotheses"
        ),
        **settings,
    )
    segmentation.save_as(path)


def _content(prediction: Prediction) -> str:
    chosen, number = prediction.hypotheses, len(prediction.labels)
    # At most 64 characters.
    return (
        f"{len(chosen.found)} of {number} samples ({chosen.explained:.0%}), "
        f"nothing: {chosen.empty_probability:.1%}"
    )


def _segment(hd: Any, number: int, label: str, text: str, model: LoadedModel) -> Any:
    codes = hd.sr.CodedConcept
    description = hd.seg.SegmentDescription(
        segment_number=number,
        segment_label=label[:64],
        segmented_property_category=codes(
            "49755003", "SCT", "Morphologically Altered Structure"
        ),
        segmented_property_type=codes("52988006", "SCT", "Lesion"),
        algorithm_type=hd.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=hd.AlgorithmIdentificationSequence(
            name=f"tf_probunet {model.metadata['model']}",
            version=__version__,
            family=codes("123110", "DCM", "Artificial Intelligence"),
        ),
    )
    description.SegmentDescription = text
    return description
