"""Trained models as functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from helpers import saved_models
from scipy import stats

import tf_probunet as pu
from tf_probunet.artifacts import saved_model
from tf_probunet.dataset import records
from tf_probunet.evaluation import sources


def test_samples_are_those_that_are_scored(lidc, lesion):
    frames = np.stack([lesion, np.roll(lesion, 3, axis=0)])[..., None]
    keys = ["first", "second"]
    source = sources.SavedModel(lidc.path, seed=2)
    scored = source.draw(keys, (frames / 255).astype(np.float32), 4, with_mean=True)
    seeds = [sources.image_seed(2, key) for key in keys]
    samples = lidc.sample(frames, num_samples=4, seed=seeds)
    assert samples.dtype == np.uint8
    np.testing.assert_array_equal(samples, scored.labels)
    assert 50 < samples[0, 0].sum() < 300  # The disc has 109 pixels.
    probabilities = lidc.probabilities(frames, num_samples=4, seed=seeds)
    np.testing.assert_array_equal(probabilities.argmax(-1), samples)
    np.testing.assert_allclose(probabilities.mean(axis=1), scored.mean, atol=1e-6)


@pytest.mark.parametrize("num_samples", [2, 16])
def test_stratified_samples_are_spread_over_the_areas_of_many(
    lidc, lesion, num_samples
):
    seeds = [5, 9]
    batch = np.stack([lesion, lesion[::-1]])[..., None]
    samples = lidc.sample(batch, num_samples, seed=seeds, sampling="stratified")
    loaded = saved_model.load(lidc.path)
    for image, seed, found in zip(batch, seeds, samples):
        seen = image[None, 32:96, 32:96].astype(np.float32) / 255
        latents = loaded.call(
            "stratified_latents", seen, num_samples, [seed], about="x"
        )
        np.testing.assert_array_equal(found, lidc.decode(image, latents["z"][0]))
    # Sorted by area, they are near the quantiles of many samples.
    many = lidc.sample(lesion, 1024, seed=2).sum(axis=(1, 2))
    middles = np.quantile(many, (np.arange(num_samples) + 0.5) / num_samples)
    copies = np.stack([lesion] * 20)[..., None]
    off = {}
    for sampling in ("independent", "stratified"):
        drawn = lidc.sample(copies, num_samples, seed=0, sampling=sampling)
        areas = np.sort(drawn.sum(axis=(2, 3)), axis=1)
        off[sampling] = np.abs(areas - middles).mean()
    assert off["stratified"] < 0.5 * off["independent"]
    mean = lidc.mean(batch, num_samples, seed=seeds, sampling="stratified")
    maps = lidc.probabilities(batch, num_samples, seed=seeds, sampling="stratified")
    np.testing.assert_allclose(mean.probabilities, maps.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(
        mean.entropy, stats.entropy(mean.probabilities, axis=-1), atol=1e-5
    )


def test_a_batch_is_its_images_with_consecutive_seeds(lidc, lesion):
    batch = np.stack([lesion, lesion])[..., None]
    together = lidc.sample(tf.constant(batch), num_samples=2, seed=3)
    alone = [lidc.sample(lesion, num_samples=2, seed=3 + b) for b in range(2)]
    np.testing.assert_array_equal(together, alone)
    assert (together[0] != together[1]).any()


def test_mean_prior_and_decode_fit_together(lidc, lesion):
    mean, prior = lidc.mean(lesion, num_samples=4, seed=1), lidc.prior(lesion)
    assert prior.mean.shape == prior.stddev.shape == (7,)
    decoded = lidc.decode(lesion, prior.mean[None])
    np.testing.assert_array_equal(decoded[0], mean.labels)
    samples = lidc.probabilities(lesion, num_samples=4, seed=1)
    np.testing.assert_allclose(mean.probabilities, samples.mean(axis=0), atol=1e-6)
    assert mean.entropy[0, 0] == 0
    assert 0.1 < mean.entropy.max() <= np.log(2) + 1e-6
    batch = lidc.prior(np.stack([lesion] * 2)[..., None])
    np.testing.assert_allclose(batch.mean, [prior.mean] * 2, rtol=1e-5)


def test_the_likelihood_prefers_the_lesion_to_another_mask(lidc, lesion):
    disc = lesion > 100
    likely = lidc.log_likelihood(lesion, disc)
    assert likely > lidc.log_likelihood(lesion, np.roll(disc, 12, axis=0)) + 50
    posterior, prior = lidc.posterior(lesion, disc), lidc.prior(lesion)
    assert posterior.stddev.prod() < prior.stddev.prod()


def test_latents_that_do_not_fit_are_refused(lidc, lesion):
    with pytest.raises(
        ValueError, match=r"z has shape \(6,\); expected \[samples, 7\]"
    ):
        lidc.decode(lesion, np.zeros(6))
    with pytest.raises(ValueError, match=r"\(1, 2, 6\); expected \[2, samples, 7\]"):
        lidc.decode(np.stack([lesion] * 2)[..., None], np.zeros([1, 2, 6]))


def test_arguments_that_do_not_fit_are_refused(lidc, lesion):
    with pytest.raises(ValueError, match="num_samples is 0, expected at least 1"):
        lidc.sample(lesion, num_samples=0)
    with pytest.raises(ValueError, match="sampling is 'sobol', expected one of"):
        lidc.sample(lesion, sampling="sobol")


def test_a_path_or_a_name_is_loaded(lidc, tmp_path):
    assert repr(lidc) == (
        "Predictor('prob_unet', classes: background, lesion, frames of 64x64 to "
        "128x128)"
    )
    with pytest.raises(FileNotFoundError, match="lidc_gpu: no such dir.*lidc_cpu"):
        pu.load("lidc_gpu")
    with pytest.raises(
        FileNotFoundError, match="lidc_gpu: no such pretrained model, expected lidc_cpu"
    ):
        pu.pretrained("lidc_gpu")
    with pytest.raises(FileNotFoundError, match="not a SavedModel"):
        pu.load(tmp_path)


def test_a_model_without_latents_says_so(phantom_dir, tmp_path):
    info = records.read_info(phantom_dir)
    path = saved_models.save(tmp_path / "model", saved_models.levels, info)
    model, image = pu.load(path), np.zeros([32, 32], np.int16)
    assert model.sample(image, num_samples=2).shape == (2, 32, 32)
    with pytest.raises(ValueError, match="the made_up in .*model has no latents"):
        model.sample(image, sampling="stratified")
    for function, arguments in (("prior", ()), ("decode", (np.zeros([1, 6]),))):
        with pytest.raises(ValueError, match=f"model made_up has no {function}"):
            getattr(model, function)(image, *arguments)
