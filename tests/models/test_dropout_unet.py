"""The Dropout U-Net: where it drops, what it keeps, and what its samples share."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models, seeds


def _spy_on_dropout(model, image):
    """Returns the share of zeros that dropout adds to each block's input, by path."""
    added = {}
    original = model._dropper

    def dropper(image_seeds, blocks, first_layer):
        drop = original(image_seeds, blocks, first_layer)
        path = "decoder" if first_layer else "encoder"

        def note(scale, x):
            ones = drop(scale, tf.ones_like(x))
            added[path, scale] = float(tf.reduce_mean(tf.cast(ones == 0, tf.float32)))
            if added[path, scale]:
                # What is kept is scaled up so that the mean stays.
                assert float(tf.reduce_max(ones)) == pytest.approx(2.0)
            return drop(scale, x)

        return note

    model._dropper = dropper
    model.logits(image, seeds.per_image(seeds.root(0), image.shape[0]))
    return added


def test_dropout_hits_the_three_innermost_blocks_of_each_path(batch):
    config = tiny.network(name="dropout_unet", num_scales=5)
    shares = _spy_on_dropout(models.build(config), batch["image"])
    dropped = {place for place, share in shares.items() if share > 0}
    assert set(shares) == {("encoder", i) for i in range(5)} | {
        ("decoder", i) for i in range(4)
    }
    assert dropped == {
        ("encoder", 2), ("encoder", 3), ("encoder", 4),
        ("decoder", 1), ("decoder", 2), ("decoder", 3),
    }  # fmt: skip
    assert shares["decoder", 1] == pytest.approx(0.5, abs=0.06)


def test_dropout_differs_between_samples_images_and_seeds(batch):
    model = models.build(tiny.network(name="dropout_unet"), 1)
    image = tf.repeat(batch["image"][:1], 2, axis=0)
    samples = model.sample(image, 3, seeds.root(1)).numpy()
    assert np.abs(samples[0, 0] - samples[0, 1]).max() > 1e-4
    assert np.abs(samples[0, 0] - samples[1, 0]).max() > 1e-4
    again = model.sample(image, 3, seeds.root(1)).numpy()
    np.testing.assert_array_equal(samples, again)


def test_dropout_keeps_the_expected_activation(batch):
    model = models.build(tiny.network(name="dropout_unet"), 1)
    drop = model._dropper(tf.zeros([1, 2], tf.int32), range(1), 0)
    dropped = drop(0, tf.ones([1, 64, 64, 16])).numpy()
    assert dropped.mean() == pytest.approx(1.0, abs=0.02)
