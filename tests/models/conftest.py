"""A batch for the tests of single models."""

import pytest


@pytest.fixture(scope="session")
def batch():
    """Two images of 16x16 pixels with random labels."""
    import tensorflow as tf

    image = tf.random.stateless_uniform([2, 16, 16, 1], [1, 1])
    labels = tf.cast(tf.random.stateless_uniform([2, 16, 16], [2, 2]) > 0.6, tf.int32)
    return {"image": image, "labels": labels}
