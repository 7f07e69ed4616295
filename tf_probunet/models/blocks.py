"""The parts of all networks: initialisers, blocks, encoder, decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow as tf

from tf_probunet.config import ModelConfig

# Changes the input of block i of a path (for dropout). The finest scale is block 0.
BlockInput = Optional[Callable[[int, tf.Tensor], tf.Tensor]]

_BIAS_STDDEV = 0.001


class Initializers:
    """Returns initialisers, each with its own seed, in the order of construction.

    Kernels are orthogonal with gain 1, or He-normal. Biases are drawn from a truncated
    normal distribution with a standard deviation of 0.001 (the paper's appendix).
    """

    def __init__(self, kind: str, seed: int) -> None:
        self._kind, self._seed, self._count = kind, seed, 0

    def kernel(self) -> tf.keras.initializers.Initializer:
        """Returns an initialiser for the next kernel."""
        if self._kind == "he_normal":
            return tf.keras.initializers.HeNormal(seed=self._next())
        return tf.keras.initializers.Orthogonal(gain=1.0, seed=self._next())

    def bias(self) -> tf.keras.initializers.Initializer:
        """Returns an initialiser for the next bias."""
        return self.normal(_BIAS_STDDEV)

    def normal(self, stddev: float) -> tf.keras.initializers.Initializer:
        """Returns an initialiser that draws from a truncated normal distribution."""
        return tf.keras.initializers.TruncatedNormal(stddev=stddev, seed=self._next())

    def _next(self) -> int:
        self._count += 1
        return (self._seed * 1_000_003 + self._count) % 2**31

    def linear_kernel(self) -> tf.keras.initializers.Initializer:
        """Returns one for a kernel whose inputs are not the outputs of a ReLU.

        He's variance is twice as large, because a ReLU halves the mean square.
        """
        if self._kind == "he_normal":
            return tf.keras.initializers.LecunNormal(seed=self._next())
        return self.kernel()

    def conv(
        self,
        filters: int,
        kernel_size: int,
        *,
        activation: str | None,
        name: str,
        kernel: tf.keras.initializers.Initializer | None = None,
    ) -> tf.keras.layers.Conv2D:
        """Returns an initialised convolution that keeps the size of the image."""
        return tf.keras.layers.Conv2D(
            filters,
            kernel_size,
            padding="same",
            activation=activation,
            kernel_initializer=self.kernel() if kernel is None else kernel,
            bias_initializer=self.bias(),
            name=name,
        )


class ConvBlock(tf.keras.layers.Layer):
    """A few 3x3 convolutions, each followed by a ReLU."""

    def __init__(self, filters: int, num_convs: int, init: Initializers, name: str):
        super().__init__(name=name)
        self._convs = [
            init.conv(filters, 3, activation="relu", name=f"conv_{i}")
            for i in range(num_convs)
        ]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [B, H, W, C] to [B, H, W, filters]."""
        for conv in self._convs:
            x = conv(x)
        return x


class ResidualBlock(tf.keras.layers.Layer):
    """A few 3x3 convolutions, each after a ReLU, that are added to the input."""

    def __init__(self, filters: int, num_convs: int, init: Initializers, name: str):
        super().__init__(name=name)
        self._convs = [
            init.conv(filters, 3, activation=None, name=f"conv_{i}")
            for i in range(num_convs)
        ]
        # The input has other channels than the output wherever a scale begins.
        self._project = init.conv(
            filters, 1, activation=None, name="project", kernel=init.linear_kernel()
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [B, H, W, C] to [B, H, W, filters]."""
        residual = x
        for conv in self._convs:
            residual = conv(tf.nn.relu(residual))
        return self._project(x) + residual


class Encoder(tf.keras.layers.Layer):
    """The contracting path: blocks with bilinear down-sampling by 2 in between.

    Bilinear down-sampling by 2 is the mean of 2x2 pixels, which is average pooling.
    """

    def __init__(
        self,
        config: ModelConfig,
        init: Initializers,
        name: str,
        block: type[tf.keras.layers.Layer] = ConvBlock,
    ):
        super().__init__(name=name)
        self._pool = tf.keras.layers.AveragePooling2D(2)
        self._blocks = [
            block(filters, config.convs_per_block, init, f"block_{scale}")
            for scale, filters in enumerate(channels(config))
        ]

    def call(self, x: tf.Tensor, block_input: BlockInput = None) -> list[tf.Tensor]:
        """Maps [B, H, W, C] to one feature map per scale, the finest first."""
        outputs = []
        for scale, block in enumerate(self._blocks):
            x = self._pool(x) if scale else x
            x = block_input(scale, x) if block_input else x
            x = block(x)
            outputs.append(x)
        return outputs


class Decoder(tf.keras.layers.Layer):
    """The expanding path: bilinear up-sampling, the skip connection, a block."""

    def __init__(self, config: ModelConfig, init: Initializers, name: str):
        super().__init__(name=name)
        self._up = tf.keras.layers.UpSampling2D(2, interpolation="bilinear")
        self._blocks = [
            ConvBlock(filters, config.convs_per_block, init, f"block_{scale}")
            for scale, filters in enumerate(channels(config)[:-1])
        ]

    def call(
        self, skips: Sequence[tf.Tensor], block_input: BlockInput = None
    ) -> tf.Tensor:
        """Maps the encoder's feature maps to [B, H, W, base_channels]."""
        x = skips[-1]
        for scale in reversed(range(len(self._blocks))):
            # Bilinear resizing returns float32 even if activations have 16 bits.
            up = tf.cast(self._up(x), skips[scale].dtype)
            x = tf.concat([up, skips[scale]], axis=-1)
            x = block_input(scale, x) if block_input else x
            x = self._blocks[scale](x)
        return x


def merged(x: tf.Tensor) -> tf.Tensor:
    """Reshapes [B, S, ...] to [B S, ...]."""
    shape = tf.shape(x)
    size = tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0)
    return tf.ensure_shape(tf.reshape(x, size), [None, *x.shape[2:]])


def channels(config: ModelConfig) -> list[int]:
    """Returns the channels at each scale. They double at each down-sampling."""
    return [config.base_channels * 2**scale for scale in range(config.num_scales)]
