"""The shipped model on real lesions, as scanners with other pixel sizes show them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import real_data

from tf_probunet.artifacts import pretrained, saved_model
from tf_probunet.evaluation.metrics import ged
from tf_probunet.imaging import dicom
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.resampling import resample
from tf_probunet.predict import prediction
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.prediction import predict_image
from tf_probunet.preparation.lidc import (
    annotation_xml,
    scans,
)
from tf_probunet.preparation.lidc import (
    annotations as lidc_annotations,
)
from tf_probunet.preparation.lidc import (
    lesions as lidc_lesions,
)
from tf_probunet.preparation.runner import UnitResult

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def lesions(tmp_path_factory):
    """Slices in Hounsfield units, pixel sizes and the four graders' masks."""
    root = tmp_path_factory.mktemp("dicom")
    real_data.unpack("lidc_dicom_sample.tar.xz", root)
    found = []
    for scan in scans.find_scans(root).scans:
        stack, _ = dicom.stack_slices(scan.headers)
        readings = annotation_xml.read_readings(root / scan.annotation_file)
        annotations = lidc_annotations.read_annotations(
            readings, stack, scan.annotation_file, UnitResult(problems=[])
        )
        for lesion in lidc_lesions.group(annotations):
            indices = sorted({i for annotation in lesion for i in annotation.pixels})
            for index in indices[1::3]:
                path = root / stack.slices[index].path
                image, spacing_mm = dicom.read_pixels(path, str(path))
                masks = lidc_lesions.grader_masks(lesion, index, image.shape, 4)
                found.append((image.astype(np.float32), spacing_mm[0], masks))
    return found


def _at(values, shape):
    """Resamples [N, H, W]."""
    return np.moveaxis(resample(np.moveaxis(values, 0, -1), shape), -1, 0)


def _energy_distances(model, lesions, spacing_mm):
    """Means with the pixel size known and unknown, for pixels of that size."""
    distances = []
    for image, own_mm, masks in lesions:
        factor = 1 if spacing_mm is None else own_mm / spacing_mm
        shape = tuple(round(side * factor) for side in image.shape)
        pixels = _at(image[None], shape)[0][..., None]
        truth = _at(masks.astype(np.float32), shape) >= 0.5
        if not truth.any():  # A lesion of few pixels, which larger ones hide.
            continue
        marked = np.argwhere(truth.any(0))
        row, col = (marked.min(0) + marked.max(0)) // 2
        crop = CropConfig(center=f"{row},{col}")
        pair = []
        for known in ((own_mm / factor,) * 2, None):
            one = InputImage("x", "x", "dicom", pixels, "hu", known)
            labels = predict_image(one, model, crop, PredictConfig()).labels
            terms = ged.energy_terms(labels[None], truth[None])
            pair.append(terms.energy_distance[0])
        distances.append(pair)
    return np.mean(distances, axis=0)


@pytest.mark.parametrize(
    "spacing_mm, least_gain", [(0.4, 0.1), (0.5, 0.03), (None, -0.02), (0.9, -0.02)]
)
def test_resampling_to_a_typical_pixel_size_helps(lesions, spacing_mm, least_gain):
    model = saved_model.load(pretrained.model_path())
    known, unknown = _energy_distances(model, lesions, spacing_mm)
    print(f"{spacing_mm}: {known:.3f} resampled, {unknown:.3f} as it is")
    assert unknown - known > least_gain


def test_enlarging_coarse_pixels_would_not_help(lesions, monkeypatch):
    model = saved_model.load(pretrained.model_path())
    monkeypatch.setattr(prediction, "COARSEST_LIDC_MM", 0.77)
    enlarged, left_alone = _energy_distances(model, lesions, 0.9)
    assert enlarged > left_alone + 0.01
