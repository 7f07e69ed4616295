"""Larger networks that begin as a smaller one."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models, seeds
from tf_probunet.models import growth

IMAGE = np.random.default_rng(0).random([2, 16, 16, 1], np.float32)
SMALL = {"num_scales": 3, "base_channels": 2}


def _weights(model):
    return {v.name: v.numpy() for v in model.trainable_variables}


def _sample(model):
    return model.sample(IMAGE, 3, seeds.root(0)).numpy()


@pytest.mark.parametrize("name", growth.MODELS)
@pytest.mark.parametrize(
    "larger", [{"base_channels": 5}, {"convs_per_block": 3}, {"base_channels": 3}]
)
def test_a_grown_network_computes_the_same_and_can_learn_more(name, larger):
    small = models.build(tiny.network(name=name, **SMALL), 1)
    large = models.build(tiny.network(name=name, **{**SMALL, **larger}), 2)
    assert np.abs(_sample(large) - _sample(small)).max() > 1e-3
    weights = growth.grown(large, small.config, _weights(small))
    for variable, weight in zip(large.trainable_variables, weights):
        variable.assign(weight)
    np.testing.assert_allclose(_sample(large), _sample(small), atol=1e-5)
    # What new channels do is random, and what others make of it is 0 but learns.
    labels = tf.constant(IMAGE[..., 0] > 0.5)
    batch = {"image": tf.constant(IMAGE), "labels": tf.cast(labels, tf.int32)}
    with tf.GradientTape() as tape:
        loss = large.objective(batch, seeds.root(0))["loss"]
    kernel = next(
        v
        for v in large.trainable_variables
        if "decoder/block_0/conv_0/kernel" in v.name
    )
    gradient = tape.gradient(loss, kernel).numpy()
    if "base_channels" in larger:
        new = np.s_[:, :, 4 : 2 * larger["base_channels"], :2]
        assert not kernel.numpy()[new].any()
        assert np.abs(gradient[new]).max() > 0


@pytest.mark.parametrize(
    "small, large, message",
    [
        ({"name": "unet"}, {}, "name is unet, expected prob_unet"),
        ({"latent_dim": 1}, {}, "latent_dim is 1, expected 2"),
        ({"base_channels": 6}, {}, "base_channels is 6, expected at most 4"),
        *(
            (same, same, "only the models prob_unet and unet, with latents at the end")
            for same in ({"name": "ssn"}, {"injection": "start"})
        ),
    ],
)
def test_networks_that_can_not_grow_into_each_other_are_named(small, large, message):
    with pytest.raises(ValueError, match=message):
        growth.check(tiny.network(**small), tiny.network(**large))
