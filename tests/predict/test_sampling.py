"""Tests of drawing: the SavedModel's own samples, and tiles that share latents."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.threshold_model import STDDEV, probability
from scipy import stats

from tf_probunet.predict import sampling


@pytest.fixture
def image():
    """A dark and a bright half: parts have other means than the whole."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 0.4, size=(64, 96, 1)).astype(np.float32)
    values[:, 48:] += 0.5
    return values


def _draw(model, image, **changes):
    settings = {"count": 5, "seed": 7, "tile_size": 512, "about": "x"}
    return np.concatenate(list(sampling.draw(model, image, **{**settings, **changes})))


def test_a_whole_image_gets_the_saved_models_own_samples(hu_model, image):
    expected = hu_model.call("sample", image[None], 5, 7, about="x")
    drawn = _draw(hu_model, image)
    np.testing.assert_allclose(drawn, expected["probabilities"][0], atol=1e-6)


@pytest.mark.parametrize("count", [4, 16])
def test_stratified_samples_are_the_same_whole_and_in_tiles(hu_model, image, count):
    settings = {"count": count, "sampling": "stratified"}
    whole = _draw(hu_model, image, **settings)
    one = sampling.draw_set(hu_model, image[None], seed=7, about="x", **settings)
    np.testing.assert_allclose(whole, one["probabilities"][0], atol=1e-6)
    tiled = _draw(hu_model, image, tile_size=32, **settings)
    np.testing.assert_allclose(tiled, whole, atol=1e-5)
    z = sampling.draw_latents(hu_model, image, seed=7, about="x", **settings)
    strata = np.floor(stats.norm.cdf((z - image.mean()) / STDDEV) * count)
    assert sorted(strata[:, 0]) == [*range(count)]


def test_a_model_without_latents_cannot_stratify(hu_model, picture_model, image):
    with pytest.raises(ValueError, match="'stratified', but .* has no latents"):
        _draw(picture_model, image, sampling="stratified")
    assert sampling.default_sampling(picture_model) == "independent"
    assert sampling.default_sampling(hu_model) == "stratified"
    with pytest.raises(ValueError, match="sampling is 'sobol', expected one of"):
        _draw(hu_model, image, sampling="sobol")


def test_latents_come_from_the_prior(hu_model, image):
    z = sampling.draw_latents(hu_model, image, count=4000, seed=1, about="x")
    assert z.shape == (4000, 1)
    assert z.mean() == pytest.approx(image.mean(), abs=5 * STDDEV / 4000**0.5)
    assert z.std() == pytest.approx(STDDEV, rel=0.05)


@pytest.mark.parametrize("tile_size", [24, 32, 64])
def test_tiles_share_the_prior_of_the_whole_image(hu_model, image, tile_size):
    z = sampling.draw_latents(hu_model, image, count=5, seed=7, about="x")
    expected = np.stack([probability(image[..., 0], level) for level in z[:, 0]])
    drawn = _draw(hu_model, image, tile_size=tile_size)
    np.testing.assert_allclose(drawn[..., 1], expected, atol=1e-5)
    np.testing.assert_allclose(drawn.sum(-1), 1, atol=1e-5)


def test_samples_in_chunks_are_the_same(hu_model, image, monkeypatch):
    expected = _draw(hu_model, image)
    monkeypatch.setattr(sampling, "_MAX_BYTES", 2 * 64 * 96 * 2 * 4)
    settings = {"count": 5, "seed": 7, "tile_size": 512, "about": "x"}
    chunks = list(sampling.draw(hu_model, image, **settings))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    np.testing.assert_allclose(np.concatenate(chunks), expected, atol=1e-6)


def test_the_prior_sees_huge_images_made_smaller(hu_model, image, monkeypatch):
    seen = {}

    def call(model, function, *tensors, about):
        seen[function] = tensors[0].shape
        return type(model).call(model, function, *tensors, about=about)

    monkeypatch.setattr(sampling, "_MAX_PRIOR_PIXELS", 64 * 96 // 4)
    spy = dataclasses.replace(hu_model)
    object.__setattr__(spy, "call", lambda *a, **k: call(hu_model, *a, **k))
    z = sampling.draw_latents(spy, image, count=3, seed=7, about="x")
    assert seen["prior"] == (1, 32, 48, 1)
    monkeypatch.undo()
    whole = sampling.draw_latents(hu_model, image, count=3, seed=7, about="x")
    np.testing.assert_allclose(z, whole, atol=0.01)


def test_without_latents_all_tiles_get_the_same_seed(picture_model, image):
    whole = _draw(picture_model, image, count=3)
    tiled = _draw(picture_model, image, count=3, tile_size=32)
    np.testing.assert_allclose(tiled, whole, atol=1e-5)


def test_no_more_samples_than_there_are(hu_model, picture_model):
    assert sampling.num_samples(hu_model, 16) == 16
    assert sampling.num_samples(picture_model, 16) == 3
    metadata = {**hu_model.metadata, "is_stochastic": False}
    fixed = dataclasses.replace(hu_model, metadata=metadata)
    assert sampling.num_samples(fixed, 16) == 1


@pytest.mark.parametrize(
    "settings, way, count",
    [
        ({"prior_components": 3}, "independent", 50),
        ({"prior_components": 2, "outline_stddev": 1.7}, "stratified", 20),
        ({"outline_stddev": 1.7}, "stratified", 5),
    ],
)
def test_latents_are_those_that_the_model_draws(settings, way, count):
    from helpers import run_dirs

    from tf_probunet import seeds
    from tf_probunet.export.signatures import Signatures

    model = run_dirs.tiny_model(**settings)
    functions, image = Signatures(model).functions(), run_dirs.images(1, 8, 8, 1)

    class Loaded:
        size_divisor = 2
        network = model.config

        def has(self, name):
            return name in functions

        def call(self, name, *tensors, about):
            return {k: v.numpy() for k, v in functions[name](*tensors).items()}

    z = sampling.draw_latents(
        Loaded(), image[0], count=count, seed=4, sampling=way, about="x"
    )
    seed = seeds.fold_in(seeds.root(4), 0)[None]
    prior, features = model.prior(image), model.features(image)
    if way == "independent":
        expected = model.sample_latents(prior, count, seed)[0]
    else:
        expected = model.stratified_latents(features, prior, count, seed)[0]
    np.testing.assert_allclose(z, expected, atol=1e-5)
