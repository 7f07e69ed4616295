"""Noise for sets of samples: strata, margins, seeds."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tf_probunet import noise, seeds


def _image_seeds(number, root=0):
    return seeds.per_image(seeds.root(root), number)


def _strata(values, num_samples):
    return np.floor(stats.norm.cdf(values) * num_samples).astype(int)


@pytest.mark.parametrize("midpoints", [False, True])
@pytest.mark.parametrize("num_samples", [1, 2, 7, 16])
def test_each_stratum_of_each_dimension_is_hit_once(num_samples, midpoints):
    z = noise.stratified(_image_seeds(5), num_samples, 3, midpoints=midpoints).numpy()
    assert z.shape == (5, num_samples, 3)
    expected = np.broadcast_to(np.arange(num_samples)[:, None], z.shape)
    np.testing.assert_array_equal(np.sort(_strata(z, num_samples), axis=1), expected)


@pytest.mark.parametrize("num_samples, is_still", [(1, False), (2, True), (15, True)])
def test_a_minor_dimension_stays_at_0_in_sets_of_midpoints(num_samples, is_still):
    settings = ("stratified", _image_seeds(3), num_samples, 3)
    z = noise.draw(*settings, 1).numpy()
    free = noise.stratified(*settings[1:], midpoints=is_still, crossed=1).numpy()
    np.testing.assert_array_equal(z[..., [0, 2]], free[..., [0, 2]])
    expected = 0 * free[..., 1] if is_still else free[..., 1]
    np.testing.assert_array_equal(z[..., 1], expected)
    alone = noise.draw("independent", *settings[1:], 1).numpy()
    assert np.all(alone != 0)


@pytest.mark.parametrize("num_samples", [1, 4, 16, 18, 25])
def test_a_crossed_dimension_keeps_one_sample_in_each_stratum(num_samples):
    z = noise.stratified(_image_seeds(5), num_samples, 3, crossed=1).numpy()
    expected = np.broadcast_to(np.arange(num_samples)[:, None], z.shape)
    np.testing.assert_array_equal(np.sort(_strata(z, num_samples), axis=1), expected)


@pytest.mark.parametrize("side", [2, 4, 5])
def test_a_crossed_dimension_has_a_sample_in_each_cell_with_each_other_one(side):
    z = noise.stratified(_image_seeds(10), side**2, 4, crossed=2).numpy()
    cells = _strata(z, side)  # [B, S, L]
    for other in (0, 1, 3):
        found = np.sort(side * cells[..., 2] + cells[..., other], axis=1)
        expected = np.broadcast_to(np.arange(side**2), found.shape)
        np.testing.assert_array_equal(found, expected)


def test_samples_with_a_crossed_dimension_are_normal_and_independent():
    z = noise.stratified(_image_seeds(2000), 4, 3, crossed=2).numpy()
    for sample in range(4):
        for dimension in range(3):
            assert stats.kstest(z[:, sample, dimension], "norm").pvalue > 1e-4
    strata = _strata(z[:, 0], 4)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        pairs = np.bincount(4 * strata[:, first] + strata[:, second], minlength=16)
        assert stats.chisquare(pairs).pvalue > 1e-4


def test_midpoints_are_the_middles_of_the_strata():
    z = noise.stratified(_image_seeds(2), 4, 2, midpoints=True).numpy()
    middles = stats.norm.ppf([0.125, 0.375, 0.625, 0.875])[:, None]
    np.testing.assert_allclose(
        np.sort(z, axis=1), np.broadcast_to(middles, z.shape), atol=1e-5
    )


@pytest.mark.parametrize("draw", [noise.independent, noise.stratified])
def test_a_single_sample_is_standard_normal(draw):
    z = draw(_image_seeds(1500), 3, 2).numpy()
    for sample in range(3):
        for dimension in range(2):
            values = z[:, sample, dimension]
            assert stats.kstest(values, "norm").pvalue > 1e-4


def test_dimensions_are_permuted_independently():
    z = _strata(noise.stratified(_image_seeds(1000), 3, 2).numpy(), 3)
    # All nine pairs of strata are as frequent for the first sample.
    pairs = np.bincount(3 * z[:, 0, 0] + z[:, 0, 1], minlength=9)
    assert stats.chisquare(pairs).pvalue > 1e-4


@pytest.mark.parametrize("draw", [noise.independent, noise.stratified])
def test_an_images_noise_depends_on_its_own_seed_alone(draw):
    together = draw(_image_seeds(3), 4, 2).numpy()
    alone = draw(_image_seeds(3)[1:2], 4, 2).numpy()
    np.testing.assert_array_equal(together[1:2], alone)
    other = draw(_image_seeds(3, root=1), 4, 2).numpy()
    assert np.all(together != other)
    assert np.all(together[0] != together[1])


@pytest.mark.parametrize("num_samples", [1, 2, 15, 16, 40])
def test_few_stratified_samples_are_midpoints_and_many_are_random(num_samples):
    z = noise.draw("stratified", _image_seeds(300), num_samples, 2).numpy()
    places = stats.norm.cdf(z) * num_samples % 1
    if 1 < num_samples < 16:
        np.testing.assert_allclose(places, 0.5, atol=1e-4)
    else:
        assert stats.kstest(places.ravel(), "uniform").pvalue > 1e-4


def test_independent_noise_is_the_seeds_own():
    z = noise.draw("independent", _image_seeds(2), 4, 3)
    np.testing.assert_array_equal(z, seeds.normal(_image_seeds(2), [4, 3]))


def test_the_number_of_samples_may_be_a_tensor():
    draw = tf.function(lambda n: noise.draw("stratified", _image_seeds(2), n, 3))
    for n in (5, 20):
        result = draw(tf.constant(n)).numpy()
        expected = noise.draw("stratified", _image_seeds(2), n, 3)
        np.testing.assert_array_equal(result, expected)


def test_the_ends_of_the_unit_interval_stay_finite(monkeypatch):
    for value in (0.0, 1.0 - 2.0**-24):
        ends = lambda seeds, shape, v=value: tf.fill([2, *shape], v)  # noqa: E731
        monkeypatch.setattr(seeds, "uniform", ends)
        assert np.isfinite(noise.stratified(_image_seeds(2), 3, 2)).all()
