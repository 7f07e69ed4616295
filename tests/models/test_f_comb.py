"""f_comb in its split form against the concatenated form of the paper."""

import numpy as np
import tensorflow as tf

from tf_probunet.models.blocks import Initializers
from tf_probunet.models.f_comb import FComb


def _concatenated(layer, features, z):
    """Broadcasts z over the image, concatenates and convolves, sample by sample."""
    height, width = features.shape[1:3]
    results = []
    for s in range(z.shape[1]):
        plane = tf.tile(z[:, s, None, None, :], [1, height, width, 1])
        x = tf.concat([features, plane], axis=-1)
        for i, (kernel, bias) in enumerate(zip(*_weights(layer))):
            x = tf.nn.conv2d(tf.nn.relu(x) if i else x, kernel, 1, "SAME") + bias
        results.append(x)
    return tf.stack(results, axis=1)


def _weights(layer):
    kernels = [w for w in layer.weights if "kernel" in w.name]
    return kernels, [w for w in layer.weights if "bias" in w.name]


def test_split_form_equals_concatenated_form():
    layer = FComb(8, 3, 6, Initializers("orthogonal", 1))
    features = tf.random.stateless_normal([2, 5, 7, 8], [0, 1])
    z = tf.random.stateless_normal([2, 4, 6], [2, 3])
    result = layer(features, z)
    assert np.abs(result.numpy()).max() > 0.1
    np.testing.assert_allclose(result, _concatenated(layer, features, z), atol=1e-5)


def test_first_kernel_is_initialised_as_one_convolution():
    layer = FComb(8, 3, 6, Initializers("orthogonal", 1))
    layer(tf.zeros([1, 2, 2, 8]), tf.zeros([1, 1, 6]))
    kernel = _weights(layer)[0][0].numpy().reshape(14, 8)
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(8), atol=1e-5)


def test_latents_reach_every_pixel_alike():
    layer = FComb(8, 2, 2, Initializers("orthogonal", 1))
    z = np.array([1.0, -2.0], np.float32)
    logits = layer(tf.zeros([1, 4, 4, 8]), z[None, None]).numpy()
    kernels, biases = ([w.numpy() for w in kind] for kind in _weights(layer))
    x = z @ kernels[0][0, 0, 8:] + biases[0]  # The features are 0.
    for kernel, bias in zip(kernels[1:], biases[1:]):
        x = x.clip(min=0) @ kernel[0, 0] + bias
    assert np.abs(x).max() > 0.1
    np.testing.assert_allclose(logits, np.broadcast_to(x, logits.shape), atol=1e-5)


def test_without_latents_there_is_one_sample():
    layer = FComb(8, 2, 0, Initializers("orthogonal", 1))
    features = tf.random.stateless_normal([2, 4, 4, 8], [0, 1])
    expected = _concatenated(layer, features, layer(features)[:, :, 0, 0, :0])
    np.testing.assert_allclose(layer(features), expected, atol=1e-5)
