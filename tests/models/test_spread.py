"""Sets that are chosen among candidates: groups by area, centres, seeds."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tf_probunet import seeds
from tf_probunet.models import spread


def _image_seeds(number):
    return seeds.per_image(seeds.root(0), number)


def _marked(num_images, num_candidates, pixels=40):
    """Candidates of very different areas, some of them empty."""
    rng = np.random.default_rng(1)
    share = rng.uniform(-0.2, 0.9, (num_images, num_candidates, 1))
    return (rng.random((num_images, num_candidates, pixels)) < share).astype("float32")


def _nested(num_images, num_candidates):
    """Candidate i, in a shuffled order, marks the first i pixels; and the order."""
    rng = np.random.default_rng(2)
    order = rng.permuted(np.tile(np.arange(num_candidates), (num_images, 1)), axis=1)
    return (np.arange(num_candidates) < order[..., None]).astype("float32"), order


@pytest.mark.parametrize(
    "num_samples, each",
    [(1, 1), (2, 64), (3, 43), (16, 8), (100, 2), (127, 2), (128, 1), (1000, 1)],
)
def test_few_samples_have_many_candidates(num_samples, each):
    assert spread.candidates_each(num_samples) == each
    assert spread.candidates_each(tf.constant(num_samples)) == each


def test_small_sets_take_the_centre_of_each_group():
    marked = _marked(3, 24)
    found = spread.choose(marked, 4, _image_seeds(3)).numpy()
    for masks, places in zip(marked.astype(bool), found):
        expected = []
        for group in np.argsort(masks.sum(1), kind="stable").reshape(4, 6):
            overlaps = [
                sum(
                    (masks[i] & masks[j]).sum() / max((masks[i] | masks[j]).sum(), 1)
                    if (masks[i] | masks[j]).any()
                    else 1.0
                    for j in group
                )
                for i in group
            ]
            expected.append(group[np.argmax(overlaps)])
        assert sorted(places) == sorted(expected)


def test_a_group_of_mostly_empty_candidates_is_represented_by_an_empty_one():
    marked = np.zeros((1, 8, 10), np.float32)
    marked[0, 3, :1] = 1  # With three empty ones in the first of two groups.
    marked[0, 4:, :9] = 1
    places = spread.choose(marked, 2, _image_seeds(1)).numpy()[0]
    assert sorted(marked[0, places].sum(axis=1)) == [0, 9]


def test_large_sets_take_the_same_place_in_each_group():
    marked, order = _nested(400, 64)
    places = spread.choose(marked, 16, _image_seeds(400)).numpy()
    ranks = np.sort(np.take_along_axis(order, places, axis=1), axis=1)  # [B, S]
    np.testing.assert_array_equal(ranks // 4, np.tile(np.arange(16), (400, 1)))
    assert (ranks % 4 == ranks[:, :1] % 4).all()
    # Each place is as probable, so that the set is unbiased.
    assert stats.chisquare(np.bincount(ranks[:, 0], minlength=4)).pvalue > 1e-4


@pytest.mark.parametrize("num_samples", [4, 16])
def test_the_order_is_random_and_the_images_own(num_samples):
    marked, order = _nested(200, 64)
    image_seeds = _image_seeds(200)
    choose = tf.function(spread.choose)
    places = choose(marked, tf.constant(num_samples), image_seeds).numpy()
    alone = choose(marked[7:8], tf.constant(num_samples), image_seeds[7:8])
    np.testing.assert_array_equal(alone, places[7:8])
    group = order[np.arange(200), places[:, 0]] // (64 // num_samples)
    counts = np.bincount(group, minlength=num_samples)
    assert stats.chisquare(counts).pvalue > 1e-4
