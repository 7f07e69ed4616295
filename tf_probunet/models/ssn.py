"""The Stochastic Segmentation Network: a low-rank normal distribution over logits."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_probunet import noise, seeds
from tf_probunet.config import SAMPLINGS, ModelConfig
from tf_probunet.models import latent, losses
from tf_probunet.models.base import Batch, SegmentationModel, grader_mean
from tf_probunet.models.blocks import Initializers
from tf_probunet.models.f_comb import FComb
from tf_probunet.models.unet import UNetCore


class LogitNormal(NamedTuple):
    """A normal distribution over the logits of an image, N(mean, D + P P^T).

    Attributes:
        mean: [B, H, W, K].
        stddev: [B, H, W, K], the square root of the diagonal D.
        factor: [B, H, W, K, R], the rows of P. Neighbouring pixels vary together by it.
    """

    mean: tf.Tensor
    stddev: tf.Tensor
    factor: tf.Tensor


class SSN(SegmentationModel):
    """The Stochastic Segmentation Network (Monteiro et al., 2020).

    A U-Net computes mean and covariance of the logits of all pixels together. The
    covariance is diagonal plus low rank and is never built: R numbers and one number
    per logit make a sample.
    """

    is_stochastic = True
    samplings = SAMPLINGS

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.unet = UNetCore(config, init)
        base, classes = config.base_channels, config.num_classes
        self.head = FComb(base, classes, 0, init, "head")
        outputs = classes * (1 + config.covariance_rank)
        self.covariance_head = FComb(base, outputs, 0, init, "covariance_head")

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the mean of the logits."""
        return self.head

    def shared(self, image: tf.Tensor) -> LogitNormal:
        """Returns the distribution of the logits of images [B, H, W, C]."""
        config, features = self.config, self.unet(image)
        classes, rank = config.num_classes, config.covariance_rank
        covariance = self.covariance_head(features)[:, 0]  # [B, H, W, K (1 + R)]
        log_stddev, *columns = tf.split(covariance, 1 + rank, axis=-1)
        stddev = tf.exp(latent.bounded(log_stddev))
        factor = tf.stack(columns, axis=-1)  # [B, H, W, K, R]
        if config.background_value is not None:
            seen = tf.reduce_any(image > config.background_value, -1, keepdims=True)
            seen = tf.cast(seen, stddev.dtype)  # [B, H, W, 1]
            stddev, factor = stddev * seen, factor * seen[..., None]
        mean = self.head(features)[:, 0]
        return LogitNormal(
            tf.ensure_shape(mean, [None, None, None, classes]), stddev, factor
        )

    def fit_terms(
        self,
        shared: LogitNormal,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the Monte-Carlo estimate of -log p(Y | X), Eq. 5 of its paper.

        During the warm-up, all samples are the mean, so only the mean is learned.
        """
        warm = tf.cast(tf.convert_to_tensor(kl_weight) >= 1.0, tf.float32)
        sampled = shared._replace(
            stddev=warm * shared.stddev, factor=warm * shared.factor
        )
        count, rank = self.config.logit_samples, self.config.covariance_rank
        image_seeds = seeds.per_image(seed, tf.shape(shared.mean)[0])
        common = noise.independent(image_seeds, count, rank)
        nats = self.grader_cross_entropy(
            self.draw(sampled, common, image_seeds), batch
        )  # [B, G, M]
        mean = self.grader_cross_entropy(shared.mean[:, None], batch)
        return {
            "loss": grader_mean(losses.mixture_nats(nats), batch),
            "cross_entropy": grader_mean(mean[:, :, 0], batch),
        }

    def energy_samples(self, shared: LogitNormal, seed: tf.Tensor) -> tf.Tensor:
        """Draws the logits of `energy_samples` samples."""
        config = self.config
        image_seeds = seeds.per_image(seed, tf.shape(shared.mean)[0])
        common = noise.NOISES[config.energy_noise](
            image_seeds, config.energy_samples, config.covariance_rank
        )
        logits = self.draw(shared, common, image_seeds)
        return tf.ensure_shape(logits, [None, config.energy_samples] + [None] * 3)

    def draw(
        self, normal: LogitNormal, common: tf.Tensor, image_seeds: tf.Tensor
    ) -> tf.Tensor:
        """Draws samples of the logits.

        Args:
            normal: their distribution.
            common: [B, S, R] standard normal, what the pixels of a sample share.
            image_seeds: int32[B, 2], for the numbers that each logit has of its own.

        Returns:
            [B, S, H, W, K].
        """
        shape = [tf.shape(common)[1], *tf.unstack(tf.shape(normal.mean)[1:])]
        own = seeds.normal(seeds.fold_in_each(image_seeds, 2), shape)
        logits = normal.mean[:, None] + normal.stddev[:, None] * own
        logits += tf.einsum("bsr,bhwkr->bshwk", common, normal.factor)
        static = [None, common.shape[1], None, None, self.config.num_classes]
        return tf.ensure_shape(logits, static)

    def sample(
        self,
        image: tf.Tensor,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
        sampling: str = "independent",
    ) -> tf.Tensor:
        """Draws logits, [B, S, H, W, K]; the U-Net runs once.

        `sampling` is one of `samplings`. It is about the R numbers that the pixels of
        a sample share; see `noise.draw`. The others are always independent.
        """
        image_seeds = seeds.per_image(seed, tf.shape(image)[0])
        rank = self.config.covariance_rank
        common = noise.draw(sampling, image_seeds, num_samples, rank)
        return self.draw(self.shared(image), common, image_seeds)
