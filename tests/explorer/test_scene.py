"""Tests that the page's numbers give what the SavedModel computes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tf_probunet.config import DataConfig
from tf_probunet.evaluation.metrics.representatives import representatives
from tf_probunet.explorer import page, scene
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict import sampling

_SETTINGS = {"num_samples": 3, "seed": 5}


@pytest.fixture(scope="module")
def shown(model, phantom_dir):
    return scene.scene_of_record(
        model, data_dir=phantom_dir, split="test", key=None, **_SETTINGS
    )


def _f_comb(features, shown, z):
    """f_comb with NumPy, from a scene: logits [H, W, K]."""
    x = features + z @ shown.latent_kernel
    for layer in shown.layers:
        x = np.maximum(x, 0) @ layer.kernel + layer.bias
    return x


def _probability(logits):
    return 1 / (1 + np.exp(logits[..., 0] - logits[..., 1]))


def test_features_and_weights_make_the_decoder(model, shown):
    rng = np.random.default_rng(0)
    for _ in range(5):
        z = rng.normal(size=4).astype(np.float32)
        expected = model.call("decode", shown.image[None], z[None, None], about="x")
        found = _probability(_f_comb(shown.features, shown, z))
        truth = expected["probabilities"][0, 0, ..., 1]
        np.testing.assert_allclose(found, truth, atol=1e-5)
        assert 0.01 < truth.mean() < 0.99


def test_rounded_features_change_next_to_nothing(shown):
    low, step, numbers = page.quantise(shown.features)
    restored = low + step * numbers
    assert np.abs(restored - shown.features).max() <= step.max() / 2 + 1e-6
    z = shown.prior_mean
    exact = _probability(_f_comb(shown.features, shown, z))
    rounded = _probability(_f_comb(restored, shown, z))
    np.testing.assert_allclose(rounded, exact, atol=1e-4)


def test_a_flat_channel_is_rounded_too():
    features = np.full((2, 2, 1), 3.5)
    low, step, numbers = page.quantise(features)
    np.testing.assert_array_equal(low + step * numbers, features)


def test_samples_are_the_saved_models_own(model, shown):
    drawn = sampling.draw_set(
        model, shown.image[None], count=3, seed=5, sampling="stratified", about="x"
    )
    for z, expected in zip(shown.samples, drawn["probabilities"][0, ..., 1]):
        found = _probability(_f_comb(shown.features, shown, z))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_hypotheses_are_chosen_from_the_samples(model, shown):
    outputs = model.call("decode", shown.image[None], shown.samples[None], about="x")
    labels = outputs["labels"][0]
    chosen = representatives(labels, 4)
    found = [(h.sample, h.probability) for h in shown.hypotheses.found]
    assert found == list(zip(chosen.indices, chosen.weights))
    data = page.page_data(shown)
    assert [h["sample"] for h in data["hypotheses"]] == chosen.indices.tolist()
    weights = [h["probability"] for h in data["hypotheses"]]
    np.testing.assert_allclose(weights, chosen.weights, atol=1e-4)
    assert data["explained"] == pytest.approx(chosen.explained, abs=1e-4)


def test_graders_stand_at_their_posteriors(model, shown):
    assert shown.graders.shape == (4, 32, 32)
    assert shown.grader_names == [f"grader {i}" for i in (1, 2, 3, 4)]
    for labels, z in zip(shown.graders, shown.grader_latents):
        posterior = model.call(
            "posterior", shown.image[None], labels[None].astype(np.int32), about="x"
        )
        np.testing.assert_allclose(z, posterior["mean"][0], atol=1e-5)


def test_the_axes_are_those_that_matter(shown):
    def change(dim):
        step = np.zeros(4)
        step[dim] = 2 * shown.prior_stddev[dim]
        low, high = (
            _probability(_f_comb(shown.features, shown, shown.prior_mean + s * step))
            for s in (-1, 1)
        )
        return np.abs(high - low).sum()

    changes = [change(dim) for dim in range(4)]
    assert list(shown.axes) == list(np.argsort(changes)[::-1][:2])


def test_starts_at_the_median_of_the_samples_that_mark_anything():
    assert scene.middle_sample([0, 0, 0, 9, 3, 5]) == 5
    assert scene.middle_sample([4, 0, 2]) == 2
    assert scene.middle_sample([0, 0]) is None


def test_an_image_of_ones_own(model, tmp_path):
    hounsfield = np.random.default_rng(0).integers(-1000, 400, (31, 30))
    np.save(tmp_path / "x.npy", hounsfield.astype(np.int16))
    crop = CropConfig(pad=True, spacing_mm="0.5,0.6")
    shown = scene.scene_of_file(
        model, path=str(tmp_path / "x.npy"), crop=crop, **_SETTINGS
    )
    assert shown.title == "x"
    assert shown.image.shape == (32, 30, 1)
    assert shown.graders.shape == (0, 32, 30)
    assert shown.pixel_mm2 == pytest.approx(0.3)
    assert shown.notes == []


def test_what_was_done_to_the_image_is_noted(model, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(32 * 32, dtype=np.int16).reshape(32, 32))
    shown = scene.scene_of_file(
        model, path=str(tmp_path / "x.npy"), crop=CropConfig(), **_SETTINGS
    )
    assert "no value is below 0, which is odd for Hounsfield units" in shown.notes


def test_an_image_of_the_scored_size(model, tmp_path):
    """What the page shows is what the network sees."""
    data = DataConfig(crop_size=16, eval_size=16, scored_size=32)
    framed = dataclasses.replace(model, data=data)
    hounsfield = np.random.default_rng(0).integers(-1000, 400, (32, 32))
    np.save(tmp_path / "x.npy", hounsfield.astype(np.int16))
    shown = scene.scene_of_file(
        framed, path=str(tmp_path / "x.npy"), crop=CropConfig(), **_SETTINGS
    )
    values = (hounsfield[8:24, 8:24, None] + 1000) / 1400
    np.testing.assert_allclose(shown.image, values, atol=1e-6)
    drawn = sampling.draw_set(
        model, shown.image[None], count=3, seed=5, sampling="stratified", about="x"
    )
    for z, expected in zip(shown.samples, drawn["probabilities"][0, ..., 1]):
        found = _probability(_f_comb(shown.features, shown, z))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_key_that_is_not_there(model, phantom_dir):
    with pytest.raises(ValueError, match="no image 'nobody' among the 8 of the split"):
        scene.scene_of_record(
            model, data_dir=phantom_dir, split="test", key="nobody", **_SETTINGS
        )


def test_a_stack_needs_a_slice(model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 32, 32, 1), np.int16))
    with pytest.raises(ValueError, match="holds 2 slices; choose one by --slice"):
        scene.scene_of_file(
            model, path=str(tmp_path / "x.npy"), crop=CropConfig(), **_SETTINGS
        )


def test_a_model_without_features(model, phantom_dir):
    class Bare:
        sample = staticmethod(lambda: None)

    bare = dataclasses.replace(model, module=Bare())
    with pytest.raises(ValueError, match="without the function `features`, expected"):
        scene.scene_of_record(
            bare, data_dir=phantom_dir, split="test", key=None, **_SETTINGS
        )


def test_all_modes_of_a_street_scene_are_shown():
    labels = np.array([[0, 1, 8, 11, 13, 2, 255]], np.uint8)
    maps, names = scene.switched_modes(labels)
    assert len(maps) == len(names) == len(np.unique(maps, axis=0)) == 32
    assert names[0] == "mode 0: nothing flipped, 10.9 %"
    assert names[-1] == (
        "mode 31: sidewalk 2 + person 2 + car 2 + vegetation 2 + road 2, 0.5 %"
    )
    np.testing.assert_array_equal(maps[0], labels)
    np.testing.assert_array_equal(maps[-1], [[23, 19, 22, 20, 21, 2, 255]])
    place = next(i for i, name in enumerate(names) if name.startswith("mode 4: "))
    assert "mode 4: car 2, 5.9 %" == names[place]
    np.testing.assert_array_equal(maps[place], [[0, 1, 8, 11, 21, 2, 255]])


def test_modes_that_look_alike_are_one():
    maps, names = scene.switched_modes(np.array([[0, 13]], np.uint8))
    # Road and car only: 13/17 11/17, 13/17 6/17, 4/17 11/17, 4/17 6/17.
    assert names == [
        "mode 0: nothing flipped, 49.5 %",
        "mode 4: car 2, 27.0 %",
        "mode 16: road 2, 15.2 %",
        "mode 20: car 2 + road 2, 8.3 %",
    ]
    assert maps[:, 0].tolist() == [[0, 13], [0, 21], [23, 13], [23, 21]]


def test_the_scene_of_a_street_has_its_modes(street_model, street_dir):
    shown = scene.scene_of_record(
        street_model, data_dir=street_dir, split="test", key=None, **_SETTINGS
    )
    assert len(shown.grader_names) == len(shown.graders) == 32
    z = street_model.call(
        "posterior",
        shown.image[None],
        shown.graders[5][None].astype(np.int32),
        about="x",
    )["mean"][0]
    np.testing.assert_allclose(shown.grader_latents[5], z, atol=1e-5)
    # Of equal latents the modes would be of no use.
    assert np.ptp(shown.grader_latents, axis=0).max() > 1e-4
    data = page.page_data(shown)
    assert [g["name"] for g in data["graders"]] == shown.grader_names
    assert len(data["classes"]) == 24
