"""f_comb: three 1x1 convolutions that join the U-Net's features with a latent."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tf_probunet.models.blocks import Initializers

# The most activations of f_comb that are held at once (4 MB), unless a single sample of
# the batch has more. On a CPU, 2 to 16 MB take the same time and 64 MB take longer.
_MAX_ACTIVATIONS = 2**20


class FComb(tf.keras.layers.Layer):
    """Maps U-Net features, and a latent if there is one, to logits (Eq. 2).

    The paper broadcasts z over the image, concatenates it to the features f and
    convolves. Since z is the same at every pixel, the first convolution splits:

        W [f, z] + b = (W_f f + b) + W_z z

    The first part is computed once per image, and the second is one vector per sample.
    The function and its weights are the same as in the concatenated form.
    """

    def __init__(
        self,
        num_channels: int,
        num_classes: int,
        latent_dim: int,
        init: Initializers,
        name: str = "f_comb",
    ):
        super().__init__(name=name)
        self._num_channels, self._latent_dim = num_channels, latent_dim
        sizes = [num_channels, num_channels, num_classes]
        self._layers = [
            (size, init.kernel(), init.bias(), f"conv_{i}")
            for i, size in enumerate(sizes)
        ]

    def build(self, input_shape: tf.TensorShape) -> None:
        """Makes the weights for features of [B, H, W, F]."""
        incoming = int(input_shape[-1]) + self._latent_dim
        self._kernels, self._biases = [], []
        for size, kernel, bias, name in self._layers:
            # The shape of a 1x1 convolution matters to the initialiser.
            self._kernels.append(
                self.add_weight(f"{name}/kernel", [1, 1, incoming, size], None, kernel)
            )
            self._biases.append(self.add_weight(f"{name}/bias", [size], None, bias))
            incoming = size

    @property
    def last_bias(self) -> tf.Variable:
        """The bias of the last convolution, one number per logit."""
        return self._biases[-1]

    def call(self, features: tf.Tensor, z: tf.Tensor | None = None) -> tf.Tensor:
        """Computes the logits.

        Args:
            features: [B, H, W, F].
            z: [B, S, L], or None for a network without latents (S = 1).

        Returns:
            [B, S, H, W, K] float32.
        """
        return self.combine(self.project(features), z)

    def project(self, features: tf.Tensor) -> tf.Tensor:
        """Computes W_f f + b, which is the same for all samples: [B, H, W, C]."""
        kernel = self._weights_of(self._kernels[0])[:, :, : features.shape[-1]]
        return self._convolve(features, kernel, self._biases[0])

    def combine(self, projected: tf.Tensor, z: tf.Tensor | None = None) -> tf.Tensor:
        """Computes the logits from the result of `project` and the latents."""
        x = projected[:, None]
        if self._latent_dim:
            z = tf.cast(z, self.compute_dtype)
            kernel = self._weights_of(self._kernels[0])[0, 0, -self._latent_dim :]
            shift = tf.einsum("bsl,lc->bsc", z, kernel)
            x = x + shift[:, :, None, None, :]  # [B, S, H, W, C]
        shape = tf.shape(x)
        # TensorFlow fuses convolution, bias and ReLU for tensors of this rank.
        merged = tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0)
        x = tf.reshape(x, merged)  # [B S, H, W, C]
        for kernel, bias in zip(self._kernels[1:], self._biases[1:]):
            x = self._convolve(tf.nn.relu(x), self._weights_of(kernel), bias)
        x = tf.reshape(x, tf.concat([shape[:-1], [x.shape[-1]]], axis=0))
        return tf.cast(x, tf.float32)  # [B, S, H, W, K]

    def _convolve(
        self, x: tf.Tensor, kernel: tf.Tensor, bias: tf.Variable
    ) -> tf.Tensor:
        x = tf.nn.conv2d(x, kernel, 1, "SAME")
        return tf.nn.bias_add(x, self._weights_of(bias))

    def _weights_of(self, variable: tf.Variable) -> tf.Tensor:
        return tf.cast(variable, self.compute_dtype)


def chunk_size(features: tf.Tensor) -> tf.Tensor:
    """Returns how many samples of features [B, H, W, F] to decode at a time."""
    return tf.maximum(1, _MAX_ACTIVATIONS // tf.size(features))


def decode_in_chunks(
    decode: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    shared: tf.Tensor,
    z: tf.Tensor,
    chunk: tf.Tensor,
    num_classes: int,
) -> tf.Tensor:
    """Decodes a few samples at a time, which bounds the memory.

    Args:
        decode: maps `shared` and latents [B, s, L] to logits [B, s, H, W, K].
        shared: what all samples have in common.
        z: [B, S, L].
        chunk: s, the number of samples to decode at a time.
        num_classes: K.

    Returns:
        Logits, [B, S, H, W, K].
    """
    num_chunks = -(-tf.shape(z)[1] // chunk)

    def decode_chunk(i: tf.Tensor, outputs: tf.TensorArray):
        logits = decode(shared, z[:, i * chunk : (i + 1) * chunk])
        # With the samples first, chunks of unequal size can be joined.
        return i + 1, outputs.write(i, tf.transpose(logits, [1, 0, 2, 3, 4]))

    outputs = tf.TensorArray(tf.float32, num_chunks, infer_shape=False)
    _, outputs = tf.while_loop(
        lambda i, _: i < num_chunks,
        decode_chunk,
        (tf.constant(0), outputs),
        parallel_iterations=1,
    )
    logits = tf.transpose(outputs.concat(), [1, 0, 2, 3, 4])
    return tf.ensure_shape(logits, [None] * 4 + [num_classes])
