"""M-Heads: a U-Net with M output layers, in which the best one learns most."""

from __future__ import annotations

import tensorflow as tf

from tf_probunet.config import ModelConfig
from tf_probunet.models import losses
from tf_probunet.models.base import Batch, SegmentationModel, grader_mean
from tf_probunet.models.blocks import Initializers
from tf_probunet.models.f_comb import FComb
from tf_probunet.models.unet import UNetCore


class MHeads(SegmentationModel):
    """A U-Net with M heads (Rupprecht et al., 2017). The samples are its heads."""

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.max_samples = config.num_heads
        self.unet = UNetCore(config, init)
        outputs = config.num_heads * config.num_classes
        self.heads = FComb(config.base_channels, outputs, 0, init, "heads")

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits of all heads."""
        return self.heads

    def logits(self, image: tf.Tensor, enlarged: bool = True) -> tf.Tensor:
        """Returns the segmentation of each head, [B, M, H, W, K].

        If `enlarged` is false, they are pooled as the U-Net's input.
        """
        features = self.unet(image, enlarged=enlarged)
        x = self.heads(features)[:, 0]  # [B, H, W, M K]
        heads = [*tf.split(x, self.config.num_heads, axis=-1)]
        return tf.stack(heads, axis=1)

    def shared(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the heads' logits, pooled as the U-Net's input."""
        return self.logits(image, enlarged=False)

    def fit_terms(
        self,
        shared: tf.Tensor,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the weighted loss, and the best head's loss as `cross_entropy`."""
        del seed, kl_weight  # Nothing here is random, and there are no latents.
        nats = self.grader_cross_entropy(shared, batch)
        heads = tf.reshape(nats, [-1, self.config.num_heads])  # [B G, M]
        loss = losses.best_head(heads, self.config.head_epsilon)
        return {
            "loss": grader_mean(tf.reshape(loss, tf.shape(nats)[:2]), batch),
            "cross_entropy": grader_mean(tf.reduce_min(nats, axis=2), batch),
        }

    def energy_samples(self, shared: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Returns all heads' logits."""
        del seed
        return shared

    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Returns the first `num_samples` heads: [B, S, H, W, K] logits."""
        del seed
        num_samples = checked_count(num_samples, self.config.num_heads, "heads")
        return self.logits(image)[:, :num_samples]


def checked_count(num_samples: int | tf.Tensor, available: int, what: str) -> tf.Tensor:
    """Returns `num_samples` after checking that this many samples exist."""
    num_samples = tf.convert_to_tensor(num_samples)
    message = (
        f"num_samples must be at most {available}: the model has {available} {what}"
    )
    check = tf.debugging.assert_less_equal(num_samples, available, message)
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(num_samples)
