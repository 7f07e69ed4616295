"""The parts of the networks: resampling identities, initialisation, sizes."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models
from tf_probunet.config import ModelConfig
from tf_probunet.models import blocks


def test_average_pooling_is_bilinear_downsampling_by_two():
    x = tf.random.stateless_normal([2, 12, 20, 3], [1, 2])
    pooled = tf.keras.layers.AveragePooling2D(2)(x)
    resized = tf.image.resize(x, [6, 10], method="bilinear")
    np.testing.assert_allclose(pooled, resized, atol=1e-6)


def test_encoder_scales_halve_and_channels_double():
    config = tiny.network(num_scales=3)
    encoder = blocks.Encoder(config, blocks.Initializers("orthogonal", 0), "encoder")
    outputs = encoder(tf.zeros([1, 16, 8, 1]))
    shapes = [tuple(output.shape[1:]) for output in outputs]
    assert shapes == [(16, 8, 4), (8, 4, 8), (4, 2, 16)]


def test_kernels_are_orthogonal_with_gain_one():
    conv = blocks.Initializers("orthogonal", 3).conv(6, 3, activation=None, name="c")
    conv.build([None, None, None, 5])
    matrix = conv.kernel.numpy().reshape(-1, 6)  # [3 3 5, 6]
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(6), atol=1e-5)


def test_biases_are_small_truncated_normals():
    bias = blocks.Initializers("orthogonal", 0).bias()([20_000]).numpy()
    assert np.abs(bias).max() <= 0.002 + 1e-9
    # A normal cut at two standard deviations has 0.88 of its standard deviation.
    assert bias.std() == pytest.approx(0.00088, rel=0.03)


def test_he_normal_scales_by_the_incoming_weights():
    conv = blocks.Initializers("he_normal", 0).conv(64, 3, activation=None, name="c")
    conv.build([None, None, None, 32])
    expected = np.sqrt(2 / (9 * 32))
    assert conv.kernel.numpy().std() == pytest.approx(expected, rel=0.03)


def test_each_kernel_has_its_own_seed_and_the_same_in_every_run():
    def kernels():
        init = blocks.Initializers("orthogonal", 7)
        return [init.kernel()([4, 4]).numpy() for _ in range(2)]

    first, second = kernels(), kernels()
    np.testing.assert_array_equal(first[0], second[0])
    assert np.abs(first[0] - first[1]).max() > 0.1


def _conv(size, incoming, outgoing):
    return size * size * incoming * outgoing + outgoing


def _path(first, channels, convs):
    """Parameters of a contracting path."""
    total, incoming = 0, first
    for filters in channels:
        for _ in range(convs):
            total += _conv(3, incoming, filters)
            incoming = filters
    return total


def _expected_parameters(image_channels, classes, base, scales, latents):
    channels = [base * 2**i for i in range(scales)]
    unet = _path(image_channels, channels, 3)
    for scale in reversed(range(scales - 1)):
        merged = channels[scale + 1] + channels[scale]
        unet += _path(merged, [channels[scale]], 3)
    head = _conv(1, channels[-1], 2 * latents)
    prior = _path(image_channels, channels, 3) + head
    posterior = _path(image_channels + classes, channels, 3) + head
    f_comb = _conv(1, base + latents, base) + _conv(1, base, base)
    return unet + prior + posterior + f_comb + _conv(1, base, classes)


def test_the_papers_network_has_the_papers_layers():
    model = models.build(ModelConfig())
    count = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert count == _expected_parameters(1, 2, base=32, scales=5, latents=6)


def test_one_more_scale_for_cityscapes():
    config = ModelConfig(
        num_scales=6, num_classes=24, image_channels=3, base_channels=4
    )
    count = sum(int(np.prod(v.shape)) for v in models.build(config).trainable_variables)
    assert count == _expected_parameters(3, 24, base=4, scales=6, latents=6)


def test_block_inputs_are_called_from_the_finest_scale_on():
    config = tiny.network(base_channels=2, num_scales=3)
    init = blocks.Initializers("orthogonal", 0)
    encoder = blocks.Encoder(config, init, "encoder")
    decoder = blocks.Decoder(config, init, "decoder")
    seen = []

    def note(scale, x):
        seen.append((scale, x.shape[1], x.shape[-1]))
        return x

    decoder(encoder(tf.zeros([1, 8, 8, 1]), note), note)
    # The decoder's blocks see the up-sampled features beside the skip connection.
    assert seen == [(0, 8, 1), (1, 4, 2), (2, 2, 4), (1, 4, 12), (0, 8, 6)]
