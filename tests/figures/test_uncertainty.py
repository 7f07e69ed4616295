"""Maps against brute force and SciPy."""

import itertools

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from helpers import results_writer
from hypothesis import given, settings

from tf_probunet.figures import uncertainty


def brute_force_distance(first, second):
    union = (first | second).sum()
    return 1 - (first & second).sum() / union if union else 0.0


@settings(max_examples=40)
@given(hnp.arrays(np.uint8, (5, 3, 3), elements=st.integers(0, 1)))
def test_most_different_pair_is_what_brute_force_finds(samples):
    pair = uncertainty.most_different(samples)
    every = {
        (i, j): brute_force_distance(samples[i], samples[j])
        for i, j in itertools.combinations(range(5), 2)
    }
    assert pair.distance == pytest.approx(max(every.values()))
    assert every[pair.first, pair.second] == pytest.approx(pair.distance)


def test_most_different_pair_of_street_scenes():
    labels = results_writer.street_scene(0)
    labels[labels == 255] = 0
    other = np.where(labels == 13, 21, labels)
    far = np.full_like(labels, 2)
    pair = uncertainty.most_different(np.stack([labels, other, labels, far]))
    assert pair.second == 3 and pair.distance > 0.5


def test_the_background_of_many_classes_is_not_scored():
    samples = np.zeros((3, 8, 8), np.uint8)
    samples[0, :4, :4], samples[1, :4, :4], samples[2, 4:, 4:] = 28, 28, 29
    assert uncertainty.most_different(samples, 30) == (0, 2, 1.0)
    shares = uncertainty.class_shares(samples, 30)
    assert shares[28, 0, 0] == pytest.approx(2 / 3) and shares[29, 7, 7] > 0.3


def test_of_equally_different_pairs_the_one_that_marks_most_is_taken():
    samples = np.zeros((3, 4, 4), np.uint8)
    samples[1, 0, 0] = 1
    samples[2, :3, :3] = 1  # Overlaps with the single pixel; the first one is empty.
    assert uncertainty.most_different(samples) == (0, 2, 1.0)


def test_equal_samples_have_distance_0_and_one_is_too_few():
    samples = np.ones((3, 2, 2), np.uint8)
    assert uncertainty.most_different(samples) == (0, 1, 0.0)
    with pytest.raises(ValueError, match="there is 1 sample"):
        uncertainty.most_different(samples[:1])


def test_entropy_is_scipys():
    shares = np.random.default_rng(0).dirichlet(np.ones(4), (5, 6)).transpose(2, 0, 1)
    shares[:, 0, 0] = [1, 0, 0, 0]
    expected = scipy.stats.entropy(shares, base=2, axis=0)
    np.testing.assert_allclose(uncertainty.entropy_bits(shares), expected, atol=1e-12)


def test_shares_of_classes():
    samples = np.array([[[0, 23]], [[0, 1]], [[2, 1]], [[0, 1]]])
    shares = uncertainty.class_shares(samples)
    assert shares[[0, 2], 0, 0].tolist() == [0.75, 0.25]
    assert shares[[1, 23], 0, 1].tolist() == [0.75, 0.25]
    assert (shares.sum(axis=0) == 1).all()


def test_row_of_maps_for_lesions():
    images, graders, samples = results_writer.lesions(2, size=24)
    figure = uncertainty.draw(
        images=images, graders=graders, samples=samples, keys=["a", "b"]
    )
    for row in range(2):
        axes = figure.axes[6 * row : 6 * row + 6]
        mean = samples[row].mean(axis=0)
        np.testing.assert_allclose(axes[2].images[0].get_array(), mean)
        entropy = scipy.stats.entropy([mean, 1 - mean], base=2, axis=0)
        np.testing.assert_allclose(axes[3].images[0].get_array(), entropy, atol=1e-12)
        bands = axes[4].images[1].get_array()
        np.testing.assert_array_equal(bands.mask, mean < 0.05)
        np.testing.assert_allclose(bands.data, 100 * mean)
        pair = uncertainty.most_different(samples[row])
        drawn = sum(bool(samples[row][place].any()) for place in pair[:2])
        assert len(axes[5].collections) == drawn
    assert figure.axes[-1].get_xticks() == pytest.approx([5, 25, 50, 75, 95])
    texts = [text.get_text() for text in figure.texts]
    assert {"a", "b", "most different pair"} <= set(texts)


def test_street_scenes_show_the_most_frequent_class():
    labels = results_writer.street_scene(0)
    flipped = np.where(labels == 0, 23, labels)
    samples = np.stack([labels, flipped, flipped])
    samples[samples == 255] = 0
    figure = uncertainty.draw(
        images=np.zeros((1, *labels.shape, 3)),
        graders=labels[None, None],
        samples=samples[None],
        keys=["a"],
    )
    entropy = figure.axes[3].images[0].get_array()
    thirds = scipy.stats.entropy([1 / 3, 2 / 3], base=2)
    np.testing.assert_allclose(entropy[labels == 0], thirds)
    np.testing.assert_allclose(entropy[labels != 0], 0, atol=1e-12)
    shown = figure.axes[2].images[0].get_array()[labels == 0]
    assert (shown == (90, 0, 200)).all()  # Road 2


def test_the_scale_of_street_scenes_ends_at_the_largest_entropy():
    labels = results_writer.street_scene(0)
    samples = np.tile(np.where(labels == 255, 0, labels), (2, 16, 1, 1))
    samples[1, :, 0, 0] = np.arange(16)  # 16 different classes: four bits.
    figure = uncertainty.draw(
        images=np.zeros((2, *labels.shape, 3)),
        graders=np.stack([labels, labels])[:, None],
        samples=samples,
        keys=["a", "b"],
    )
    for row in range(2):
        assert figure.axes[6 * row + 3].images[0].get_clim() == pytest.approx((0, 4))
    figure = uncertainty.draw(
        images=np.zeros((1, *labels.shape, 3)),
        graders=labels[None, None],
        samples=samples[:1],
        keys=["a"],
    )
    assert figure.axes[3].images[0].get_clim() == (0, 1)  # No entropy anywhere.
