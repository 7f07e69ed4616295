"""M-Heads: its loss, and its heads as samples."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models, seeds
from tf_probunet.models import losses


def test_m_heads_loss_chooses_the_best_head_for_each_image(batch):
    config = tiny.network(name="m_heads", num_heads=4, head_epsilon=0.2)
    model = models.build(config, 3)
    logits = model.logits(batch["image"])
    nats = np.stack(
        [
            losses.cross_entropy(logits=logits[:, m], labels=batch["labels"])
            for m in range(4)
        ],
        axis=1,
    )
    best = nats.min(1)
    expected = 0.8 * best + 0.2 / 3 * (nats.sum(1) - best)
    terms = model.objective(batch, seeds.root(0))
    np.testing.assert_allclose(terms["loss"], expected.mean(), rtol=1e-5)
    np.testing.assert_allclose(terms["cross_entropy"], best.mean(), rtol=1e-5)


def test_m_heads_samples_are_its_heads_and_no_more(batch):
    model = models.build(tiny.network(name="m_heads", num_heads=3), 3)
    samples = model.sample(batch["image"], 2, seeds.root(0))
    np.testing.assert_allclose(samples, model.logits(batch["image"])[:, :2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 3.*3 heads"):
        model.sample(batch["image"], 4, seeds.root(0))
