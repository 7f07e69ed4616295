"""Latents of shared noise, against the formula and the model's own samples."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tf_probunet.predict import latents


def test_each_slice_has_its_own_prior_and_all_share_the_noise():
    prior = {
        "mean": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "stddev": np.array([[0.1, 0.2], [0.3, 0.4]]),
    }
    noise = np.array([[1.0, -1.0], [0.0, 2.0]])
    assert latents.dimensions(prior) == 2
    np.testing.assert_allclose(
        latents.from_noise(prior, noise),
        [[[1.1, 1.8], [1.0, 2.4]], [[3.3, 3.6], [3.0, 4.8]]],
        rtol=1e-6,
    )


def test_last_number_chooses_the_component_of_a_mixture():
    prior = {
        "mean": np.zeros((1, 1)),
        "stddev": np.ones((1, 1)),
        "component_weights": np.array([[0.25, 0.5, 0.25]]),
        "component_means": np.array([[[10.0], [20.0], [30.0]]]),
        "component_stddevs": np.array([[[1.0], [2.0], [3.0]]]),
    }
    shares = np.array([0.2, 0.3, 0.7, 0.8])
    noise = np.stack([np.ones(4), stats.norm.ppf(shares)], axis=1)
    assert latents.dimensions(prior) == 2
    found = latents.from_noise(prior, noise)[0, :, 0]
    np.testing.assert_allclose(found, [11, 22, 22, 33])


def test_noise_depends_on_the_seed_and_is_normal():
    drawn = latents.draw_noise(4000, 2, seed=7)
    np.testing.assert_array_equal(drawn, latents.draw_noise(4000, 2, seed=7))
    assert not np.allclose(drawn, latents.draw_noise(4000, 2, seed=8))
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 0.001
