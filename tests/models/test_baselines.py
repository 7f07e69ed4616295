"""What is special to each baseline."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tf_probunet import models, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models import losses
from tf_probunet.models.unet_ensemble import UNetEnsemble

CONFIG = ModelConfig(base_channels=4, num_scales=2, convs_per_block=1)


@pytest.fixture(scope="module")
def batch():
    image = tf.random.stateless_uniform([2, 16, 16, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([2, 16, 16], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}


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
    config = dataclasses.replace(CONFIG, name="dropout_unet", num_scales=5)
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
    model = models.build(dataclasses.replace(CONFIG, name="dropout_unet"), 1)
    image = tf.repeat(batch["image"][:1], 2, axis=0)
    samples = model.sample(image, 3, seeds.root(1)).numpy()
    assert np.abs(samples[0, 0] - samples[0, 1]).max() > 1e-4
    assert np.abs(samples[0, 0] - samples[1, 0]).max() > 1e-4
    again = model.sample(image, 3, seeds.root(1)).numpy()
    np.testing.assert_array_equal(samples, again)


def test_dropout_keeps_the_expected_activation(batch):
    model = models.build(dataclasses.replace(CONFIG, name="dropout_unet"), 1)
    drop = model._dropper(tf.zeros([1, 2], tf.int32), range(1), 0)
    dropped = drop(0, tf.ones([1, 64, 64, 16])).numpy()
    assert dropped.mean() == pytest.approx(1.0, abs=0.02)


def test_m_heads_loss_chooses_the_best_head_for_each_image(batch):
    config = dataclasses.replace(CONFIG, name="m_heads", num_heads=4, head_epsilon=0.2)
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
    model = models.build(dataclasses.replace(CONFIG, name="m_heads", num_heads=3), 3)
    samples = model.sample(batch["image"], 2, seeds.root(0))
    np.testing.assert_allclose(samples, model.logits(batch["image"])[:, :2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 3.*3 heads"):
        model.sample(batch["image"], 4, seeds.root(0))


def test_image2image_vae_is_the_model_with_all_three_ablations(batch):
    config = dataclasses.replace(CONFIG, name="image2image_vae")
    model = models.build(config)
    assert (model.config.latent_dim, model.config.beta) == (3, 10.0)
    np.testing.assert_array_equal(model.prior(batch["image"]).mean(), np.zeros((2, 3)))
    one = model.posterior(**batch).mean()
    other = model.posterior(image=0 * batch["image"], labels=batch["labels"]).mean()
    np.testing.assert_array_equal(one, other)
    assert model.unet.encoder.weights[0].shape[2] == 1 + 3


def test_prob_unet_defaults_are_the_papers():
    config = models.with_defaults(ModelConfig())
    assert (config.latent_dim, config.beta) == (6, 1.0)
    assert models.with_defaults(ModelConfig(beta=4.0)).beta == 4.0


def test_ensemble_samples_are_its_members_in_order(batch):
    members = [
        models.build(dataclasses.replace(CONFIG, name="unet"), s) for s in (1, 2)
    ]
    ensemble = UNetEnsemble(members)
    samples = ensemble.sample(batch["image"], 2, seeds.root(0)).numpy()
    for s, member in enumerate(members):
        np.testing.assert_allclose(
            samples[:, s], member.logits(batch["image"])[:, 0], atol=1e-5
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 2.*2 members"):
        ensemble.sample(batch["image"], 3, seeds.root(0))


def test_ensemble_needs_members():
    with pytest.raises(ValueError, match="at least one member"):
        UNetEnsemble([])


@pytest.mark.parametrize("name", ["unet", "dropout_unet", "m_heads"])
def test_several_graders_count_like_as_many_batches(name, batch):
    config = dataclasses.replace(CONFIG, name=name, num_heads=3)
    model = models.build(config, 3)
    graders = tf.stack([batch["labels"], 1 - batch["labels"]], axis=1)
    together = model.objective({**batch, "labels": graders}, seeds.root(0))
    alone = [
        model.objective({**batch, "labels": graders[:, g]}, seeds.root(0))
        for g in range(2)
    ]
    for term, value in together.items():
        expected = np.mean([terms[term] for terms in alone])
        assert float(value) == pytest.approx(expected, rel=1e-5)
