"""Training on the energy distance: the same samples as a user's, and what learns."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.goldens import GOLDENS

from tf_probunet import seeds
from tf_probunet.models import losses
from tf_probunet.models.base import grader_maps

SIZE, BATCH, GRADERS = 8, 2, 3
NAMED = {golden.name: golden for golden in GOLDENS}


def _batch():
    """The graders mark a part of the bright half each; one of them marks nothing."""
    columns = tf.range(SIZE)[None, None, None] < tf.constant([0, 2, 4])[:, None, None]
    labels = tf.broadcast_to(tf.cast(columns, tf.int32), [BATCH, GRADERS, SIZE, SIZE])
    noise = tf.random.stateless_uniform([BATCH, SIZE, SIZE, 1], [1, 1])
    bright = tf.cast(labels[:, -1, ..., None], tf.float32)
    return {"image": 0.5 * noise + bright, "labels": labels}


def _distance(logits, batch):
    return losses.energy_distance(
        probabilities=tf.nn.softmax(logits), labels=grader_maps(batch)
    )


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_loss_has_the_energy_distance_of_the_samples_a_user_gets(golden):
    batch = _batch()
    model = golden.on_energy(energy_samples=2, elbo_weight=0.5).build(1)
    terms = model.objective(batch, seeds.root(3))
    own = golden.build(1).objective(batch, seeds.root(3))
    count = 1 if golden.name == "unet" else 2
    samples = model.sample(batch["image"], count, seeds.fold_in(seeds.root(3), 1))
    distance = float(tf.reduce_mean(_distance(samples, batch)))
    assert float(terms["energy_distance"]) == pytest.approx(distance, rel=1e-4)
    expected = 0.5 * float(own["loss"]) + 100.0 * distance
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-4)
    assert set(terms) == {*own, "energy_distance"}


def test_all_heads_are_samples_whatever_the_number():
    golden = NAMED["m_heads"].on_energy(energy_samples=1)
    batch, model = _batch(), golden.build(1)
    distance = tf.reduce_mean(
        _distance(model.sample(batch["image"], 2, seeds.root(3)), batch)
    )
    terms = model.objective(batch, seeds.root(3))
    assert float(terms["energy_distance"]) == pytest.approx(float(distance), rel=1e-4)


def test_stratified_latents_are_spread_over_the_prior():
    golden = NAMED["prob_unet"].on_energy(energy_noise="stratified", energy_samples=4)
    model = golden.build(1)
    prior = model.prior(_batch()["image"])
    drawn = []
    model.decode = lambda features, z: drawn.append(z)  # [B, S, L]
    model.energy_samples((None, prior), seeds.root(3))
    noise = (drawn[0] - prior.mean()[:, None]) / prior.stddev()[:, None]
    strata = tf.floor(4.0 * tf.math.sigmoid(1.702 * noise))  # About the normal's cdf.
    np.testing.assert_array_equal(
        np.sort(strata, axis=1), np.broadcast_to([[[0], [1], [2], [3]]], noise.shape)
    )


def _trained(golden, steps):
    model = golden.build(1)
    optimizer = tf.keras.optimizers.Adam(0.02)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer)
    step = model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(_batch()).repeat(steps))
    distances = []
    for _ in range(steps):
        model.reset_metrics()
        distances.append(float(step(batches)["energy_distance"]))
    return model, distances


def test_without_the_elbo_all_but_the_posterior_learn():
    golden = NAMED["prob_unet"].on_energy(
        elbo_weight=0.0, energy_noise="stratified", energy_overlap="min"
    )
    before = golden.build(1)
    model, distances = _trained(golden, 40)
    assert model.term_names == [
        "loss",
        "energy_distance",
        "weight_decay",
        "gradient_norm",
    ]
    # Graders mark 0, 2 and 4 columns. The best single outline, of 2, has
    # 2 (1 + 0 + 1/2) / 3 - 2 (1 + 1 + 1/2) / 9 = .44.
    assert np.mean(distances[-5:]) < 0.3 < 0.6 < distances[0]
    posterior = {id(v) for v in model.posterior_net.trainable_variables}
    assert posterior
    for old, new in zip(before.trainable_variables, model.trainable_variables):
        changed = np.any(old.numpy() != new.numpy())
        assert changed == (id(new) not in posterior), new.name
