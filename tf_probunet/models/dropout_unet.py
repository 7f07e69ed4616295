"""The Dropout U-Net: a U-Net that drops activations in sampling too."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet import seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models.base import Batch, SegmentationModel, grader_mean
from tf_probunet.models.blocks import BlockInput, Initializers
from tf_probunet.models.f_comb import FComb
from tf_probunet.models.unet import UNetCore

NUM_DROPPED_BLOCKS = 3


class DropoutUNet(SegmentationModel):
    """A U-Net with dropout on the inputs of the innermost encoder and decoder blocks.

    Three blocks of each path have dropout. Each sample is another random choice of
    activations.
    """

    is_stochastic = True

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.unet = UNetCore(config, init)
        self.head = FComb(config.base_channels, config.num_classes, 0, init, "head")

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits."""
        return self.head

    def logits(self, image: tf.Tensor, image_seeds: tf.Tensor) -> tf.Tensor:
        """Segments each image once, with random activations dropped.

        Args:
            image: [B, H, W, C].
            image_seeds: int32[B, 2].

        Returns:
            [B, H, W, K].
        """
        scales = self.config.num_scales
        encoder_blocks = range(max(0, scales - NUM_DROPPED_BLOCKS), scales)
        decoder_blocks = range(max(0, scales - 1 - NUM_DROPPED_BLOCKS), scales - 1)
        features = self.unet(
            image,
            encoder_input=self._dropper(image_seeds, encoder_blocks, 0),
            decoder_input=self._dropper(image_seeds, decoder_blocks, scales),
        )
        return self.head(features)[:, 0]

    def fit_terms(
        self,
        shared: tf.Tensor,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the mean cross-entropy of the batch as `loss`."""
        del kl_weight  # There are no latents.
        logits = self.logits(shared, seeds.per_image(seed, tf.shape(shared)[0]))
        nats = self.grader_cross_entropy(logits[:, None], batch)
        return {"loss": grader_mean(nats[:, :, 0], batch)}

    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Runs the network once per sample: [B, S, H, W, K] logits."""
        image_seeds = seeds.per_image(seed, tf.shape(image)[0])
        logits = tf.map_fn(
            lambda i: self.logits(image, seeds.fold_in_each(image_seeds, i)),
            tf.range(num_samples),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )
        return tf.transpose(logits, [1, 0, 2, 3, 4])

    def _dropper(
        self, image_seeds: tf.Tensor, blocks: range, first_layer: int
    ) -> BlockInput:
        """Returns a function that drops activations at the input of `blocks`."""
        rate = self.config.dropout_rate

        def drop(scale: int, x: tf.Tensor) -> tf.Tensor:
            if scale not in blocks or not rate:
                return x
            layer_seeds = seeds.fold_in_each(image_seeds, first_layer + scale)
            uniform = seeds.uniform(layer_seeds, tf.shape(x)[1:])
            kept = tf.cast(uniform >= rate, x.dtype)
            return x * kept / (1.0 - rate)

        return drop
