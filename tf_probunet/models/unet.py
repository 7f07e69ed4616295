"""The U-Net core that all models share, and the deterministic U-Net."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet.config import ModelConfig
from tf_probunet.models.base import Batch, SegmentationModel, grader_mean
from tf_probunet.models.blocks import BlockInput, Decoder, Encoder, Initializers
from tf_probunet.models.f_comb import FComb


class UNetCore(tf.keras.layers.Layer):
    """The U-Net of Ronneberger et al. with bilinear down- and up-sampling.

    With `input_pooling`, it sees the image at a lower resolution.
    """

    def __init__(self, config: ModelConfig, init: Initializers, name: str = "unet"):
        super().__init__(name=name)
        pooling = config.input_pooling
        self._pool: tf.keras.layers.Layer | None = None
        self._enlarge: tf.keras.layers.Layer | None = None
        if pooling > 1:
            self._pool = tf.keras.layers.AveragePooling2D(pooling)
            self._enlarge = tf.keras.layers.UpSampling2D(
                pooling, interpolation="bilinear"
            )
        self.encoder = Encoder(config, init, "encoder")
        self.decoder = Decoder(config, init, "decoder")

    def call(
        self,
        image: tf.Tensor,
        encoder_input: BlockInput = None,
        decoder_input: BlockInput = None,
        enlarged: bool = True,
    ) -> tf.Tensor:
        """Maps an image [B, H, W, C] to features [B, H, W, base_channels].

        If `enlarged` is false, the features stay at the pooled resolution.
        """
        return self.decode(self.encode(image, encoder_input), decoder_input, enlarged)

    def encode(
        self, image: tf.Tensor, encoder_input: BlockInput = None
    ) -> list[tf.Tensor]:
        """Maps an image to the encoder's feature maps, the finest first."""
        if self._pool is not None:
            image = self._pool(image)
        return self.encoder(image, encoder_input)

    def decode(
        self,
        skips: list[tf.Tensor],
        decoder_input: BlockInput = None,
        enlarged: bool = True,
    ) -> tf.Tensor:
        """Maps the result of `encode` to the features that a call returns."""
        x = self.decoder(skips, decoder_input)
        if self._enlarge is not None and enlarged:
            x = tf.cast(self._enlarge(x), x.dtype)  # It returns float32, whatever x is.
        return x


class UNet(SegmentationModel):
    """The deterministic U-Net, with one segmentation per image."""

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.unet = UNetCore(config, init)
        self.head = FComb(config.base_channels, config.num_classes, 0, init, "head")

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits."""
        return self.head

    def logits(self, image: tf.Tensor, enlarged: bool = True) -> tf.Tensor:
        """Maps [B, H, W, C] to [B, 1, H, W, K]; see `UNetCore` for `enlarged`."""
        return self.head(self.unet(image, enlarged=enlarged))

    def shared(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the one segmentation, pooled as the U-Net's input."""
        return self.logits(image, enlarged=False)

    def fit_terms(
        self,
        shared: tf.Tensor,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the mean cross-entropy of the batch as `loss`."""
        del seed, kl_weight  # Nothing here is random, and there are no latents.
        nats = self.grader_cross_entropy(shared, batch)
        return {"loss": grader_mean(nats[:, :, 0], batch)}

    def energy_samples(self, shared: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Returns the one segmentation."""
        del seed
        return shared

    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Returns the one segmentation, `num_samples` times: [B, S, H, W, K]."""
        del seed
        return tf.repeat(self.logits(image), num_samples, axis=1)
