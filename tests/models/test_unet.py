"""The U-Net: one segmentation, whatever the number of samples and the seed."""

import numpy as np
import pytest
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
