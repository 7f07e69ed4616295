"""The U-Net: one segmentation, whatever the number of samples and the seed."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models, seeds
from tf_probunet.models import losses


def test_all_samples_are_the_one_segmentation(batch):
    model = models.build(tiny.network(name="unet"), 3)
    samples = model.sample(batch["image"], 3, seeds.root(0)).numpy()
    assert samples.shape == (2, 3, 16, 16, 2)
    expected = model.head(model.unet(batch["image"])).numpy()[:, 0]
    for s in range(3):
        np.testing.assert_allclose(samples[:, s], expected, atol=1e-6)


def test_the_loss_is_the_mean_cross_entropy(batch):
    model = models.build(tiny.network(name="unet"), 3)
    logits = model.logits(batch["image"])[:, 0]
    nats = losses.cross_entropy(logits=logits, labels=batch["labels"])
    terms = model.objective(batch, seeds.root(0))
    assert set(terms) == {"loss"}
    assert float(terms["loss"]) == pytest.approx(np.mean(nats), rel=1e-5)


def test_pooled_input_is_averaged_and_features_are_enlarged(batch):
    pooled, plain = (
        models.build(tiny.network(name="unet", input_pooling=pooling), 3)
        for pooling in (2, 1)
    )
    image = batch["image"]
    small = plain.unet(tf.nn.avg_pool2d(image, 2, 2, "VALID"))
    np.testing.assert_allclose(pooled.unet(image, enlarged=False), small, atol=1e-6)
    large = tf.image.resize(small, [16, 16])
    np.testing.assert_allclose(pooled.unet(image), large, atol=1e-6)
    expected = plain.head(large)
    np.testing.assert_allclose(pooled.logits(image), expected, atol=1e-5)
