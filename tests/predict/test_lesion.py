"""Lesions through the slices: a rod that moves, against the model's closed form."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions import probability
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import saved_model
from tf_probunet.evaluation.metrics import volumes as metric
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import Geometry, InputImage
from tf_probunet.imaging.volume import volumes_of
from tf_probunet.predict import latents, lesion_picture
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.lesion import predict_lesion
from tf_probunet.predict.lesion_summary import distribution, summary

# The rod goes from slice 3 to slice 12, by two rows a slice: further than a frame.
_FIRST, _LAST = 3, 12
_OUTER, _INNER = -260.0, 330.0  # 0.53 and 0.95 in the model's window.
_COUNT = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Marks what is brighter than the frame's mean plus 0.4 +- 0.1."""
    path = tmp_path_factory.mktemp("model") / "model"
    return saved_model.load(save_threshold_model(path, offset=0.4))


@pytest.fixture(scope="module")
def scan():
    stack = np.full((18, 48, 40), -1000.0, np.float32)
    for index in range(_FIRST, _LAST + 1):
        row = _row(index)
        stack[index, row - 3 : row + 4, 17:24] = _OUTER
        stack[index, row - 2 : row + 3, 18:23] = _INNER
    return stack


def _row(index):
    return 10 + 2 * index


def _volume(stack, step_mm=2.0):
    images = []
    for i, pixels in enumerate(stack):
        affine = np.diag([-0.8, -0.5, step_mm, 1.0])
        affine[2, 3] = step_mm * i
        images.append(
            InputImage(
                f"scan_{i:03d}",
                "scan.nii",
                "nifti",
                pixels[..., None],
                "hu",
                spacing_mm=(0.5, 0.8),
                slice_index=i,
                geometry=Geometry(affine),
            )  # fmt: skip
        )
    return volumes_of(images)[0]


def _predict(volume, model, place=(7, 24, 20), sampling=None, **rules):
    return predict_lesion(
        volume,
        place,
        "rod",
        model,
        crop=CropConfig(),
        config=PredictConfig(num_samples=_COUNT, seed=5, sampling=sampling),
        rules=LesionConfig(**{"smooth_slices": 0.0, **rules}),
    )


@pytest.fixture(scope="module")
def rod(scan, model):
    return _predict(_volume(scan), model)


def test_lesion_is_followed_and_ends_after_two_empty_slices(rod):
    assert rod.slice_numbers == list(range(_FIRST - 2, _LAST + 3))
    assert rod.ended == ("absent", "absent")
    np.testing.assert_array_equal(rod.slice_presence, [0, 0, *[1] * 10, 0, 0])
    assert rod.presence == 1
    assert rod.notes == []


def test_samples_share_their_noise_and_have_the_closed_form(rod, scan):
    noise = latents.draw_noise(_COUNT, 1, 5, "stratified")[:, 0]
    expected = np.zeros((_COUNT, *scan.shape), np.uint8)
    for index in range(_FIRST, _LAST + 1):
        values = ((scan[index] + 1000) / 1400).clip(0, 1)
        row = _row(index)
        frame = values[row - 8 : row + 8, 12:28]  # Centred on what was found.
        levels = frame.mean() + 0.4 + 0.1 * noise
        for s, level in enumerate(levels):
            expected[s, index] = probability(values, level) > 0.5
    whole = np.zeros_like(expected)
    rows, cols = rod.box.slices
    whole[:, rod.first : rod.first + rod.labels.shape[1], rows, cols] = rod.labels
    np.testing.assert_array_equal(whole, expected)
    # Some samples see the rim as well, on all slices or on none.
    sizes = rod.labels.sum(axis=(2, 3))[:, 2:-2]  # [S, Z]
    assert {25, 49} == set(np.unique(sizes)) and (sizes == sizes[:, :1]).all()
    np.testing.assert_allclose(rod.volumes_mm3, sizes.sum(axis=1) * 0.8)
    rim = sizes[:, 0] == 49
    np.testing.assert_allclose(
        rod.diameters_mm,
        [metric.diameter_mm(np.ones((n, n)), (0.5, 0.8)) for n in np.where(rim, 7, 5)],
    )
    assert rod.hypotheses.weights == pytest.approx(
        sorted([rim.mean(), 1 - rim.mean()], reverse=True)
    )


def test_mean_is_that_of_the_probabilities(rod):
    assert rod.mean.shape == rod.labels.shape[1:]
    marked = rod.labels.mean(axis=0)
    assert (rod.mean[marked == 1] > 0.5).all() and (rod.mean[marked == 0] < 0.5).all()


def test_reach_is_in_mm(scan, model):
    found = _predict(_volume(scan, step_mm=3.0), model, reach_mm=6.5)
    assert found.slice_numbers == [5, 6, 7, 8, 9]
    assert found.ended == ("reach", "reach")
    assert "the lesion may go on below: the reach is over" in found.notes


def test_ends_of_the_scan_and_gaps_are_told(scan, model):
    found = _predict(_volume(scan[5:10]), model, place=(2, 24, 20))
    assert found.ended == ("last", "last") and len(found.slice_numbers) == 5
    assert "the lesion may go on above: the last slice" in found.notes


def test_a_single_empty_slice_is_bridged(scan, model):
    broken = scan.copy()
    broken[9] = -1000
    found = _predict(_volume(broken), model)
    assert found.slice_numbers[-1] == _LAST + 2
    assert found.slice_presence[9 - found.first] == 0


def test_nothing_at_the_point(scan, model):
    found = _predict(_volume(scan), model, place=(15, 8, 8))
    assert found.presence == 0 and found.slice_numbers == [13, 14, 15, 16, 17]
    assert found.hypotheses.weights == pytest.approx([1.0])
    assert "no sample marks anything around the point" in found.notes
    assert lesion_picture.render(found).startswith(b"\x89PNG")


def test_smoothing_levels_the_priors(scan, model):
    bright = scan.copy()
    bright[7] += 280  # The rim and its surroundings: 0.73 and 0.2.
    found = _predict(_volume(bright), model, smooth_slices=1.0)
    values = ((bright + 1000) / 1400).clip(0, 1)
    frames = {i: values[i, _row(i) - 8 : _row(i) + 8, 12:28] for i in range(3, 13)}
    means = [frames[i].mean() if i in frames else 0.0 for i in found.slice_numbers]
    weights = metric.smoothing_weights(np.arange(len(means)), 1.0)
    at = 7 - found.first
    level = weights[at] @ means + 0.4
    assert level < means[at] + 0.35  # It is lower than without its neighbours.
    noise = latents.draw_noise(_COUNT, 1, 5, "stratified")[:, 0]
    expected = [probability(frames[7], level + 0.1 * n) > 0.5 for n in noise]
    row, col = _row(7) - 8 - found.box.row, 12 - found.box.col
    drawn = found.labels[:, at, row : row + 16, col : col + 16]
    np.testing.assert_array_equal(drawn, expected)


def test_summary(rod):
    found = summary(rod, PredictConfig(num_samples=_COUNT, seed=5), LesionConfig())
    assert found["point"] == {"slice": 7, "row": 24, "col": 20}
    assert found["volume_mm3"]["samples"] == pytest.approx(rod.volumes_mm3)
    assert sum(h["probability"] for h in found["hypotheses"]) == pytest.approx(1)
    for hypothesis in found["hypotheses"]:
        size = rod.volumes_mm3[hypothesis["sample"]]
        assert hypothesis["volume_mm3"] == pytest.approx(size)
    heights = {one["slice"]: one["z_mm"] for one in found["slice_presence"]}
    assert heights[7] == 14 and found["slice_presence"][0]["presence"] == 0


def test_distribution_by_hand():
    found = distribution(np.arange(19.0))
    assert found["median"] == 9
    assert found["intervals"] == {"50": [4, 14], "90": [0, 18]}


def test_models_of_other_things_are_refused(tmp_path, scan):
    whole = saved_model.load(save_threshold_model(tmp_path / "whole", eval_size=0))
    with pytest.raises(ValueError, match="a model of whole images, expected one of"):
        _predict(_volume(scan), whole)
    fixed = save_threshold_model(tmp_path / "fixed", with_latents=False)
    with pytest.raises(ValueError, match="'stratified', but the model has no latents"):
        _predict(_volume(scan), saved_model.load(fixed), sampling="stratified")
