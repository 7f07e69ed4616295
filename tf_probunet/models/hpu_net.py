"""The Hierarchical Probabilistic U-Net: latent maps at several scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_probunet import seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models import latent, losses
from tf_probunet.models.base import (
    Batch,
    SegmentationModel,
    grader_maps,
    grader_weights,
)
from tf_probunet.models.blocks import (
    Encoder,
    Initializers,
    ResidualBlock,
    channels,
    merged,
)
from tf_probunet.models.f_comb import FComb

# Of the initial kernels that compute means and deviations of latents.
_LATENT_STDDEV = 1e-3


class LatentMap(NamedTuple):
    """Gaussians at all pixels of a scale, and a draw.

    Attributes:
        mean: [B, h, w, L].
        log_stddev: [B, h, w, L].
        z: [B, h, w, L].
    """

    mean: tf.Tensor
    log_stddev: tf.Tensor
    z: tf.Tensor


# (index of the scale, the coarsest first; mean; log standard deviation) -> z
Draw = Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor]


class TopDown(tf.keras.layers.Layer):
    """The decoder with latent maps at its coarsest scales."""

    def __init__(
        self, config: ModelConfig, init: Initializers, name: str, only_latents: bool
    ):
        """Makes the layers.

        Args:
            config: of the network.
            init: of the weights.
            name: of the layer.
            only_latents: leave out what comes after the last latent map.
        """
        super().__init__(name=name)
        self._up = tf.keras.layers.UpSampling2D(2, interpolation="bilinear")
        coarsest = config.num_scales - 1
        finest_latents = coarsest - config.num_latent_scales + 1
        self._scales = range(finest_latents if only_latents else 0, config.num_scales)
        self._latents = {
            # Small numbers, so that prior and posterior start near N(0, 1). The KL
            # divergence of deviations between exp(-7) and exp(7) has no bounds to
            # speak of, and its gradients would ruin the first steps.
            str(scale): init.conv(
                2 * config.num_latents,
                1,
                activation=None,
                name=f"latents_{scale}",
                kernel=init.normal(_LATENT_STDDEV),
            )
            for scale in range(finest_latents, config.num_scales)
        }
        self._blocks = {
            str(scale): ResidualBlock(
                channels(config)[scale], config.convs_per_block, init, f"block_{scale}"
            )
            for scale in self._scales
            if scale < coarsest
        }

    def call(
        self, skips: Sequence[tf.Tensor], draw: Draw
    ) -> tuple[tf.Tensor, list[LatentMap]]:
        """Decodes the encoder's feature maps.

        Args:
            skips: one map per scale, the finest first.
            draw: chooses the latents of a scale.

        Returns:
            The last feature map, and the latent maps, the coarsest first.
        """
        x = skips[-1]
        found: list[LatentMap] = []
        for scale in reversed(self._scales):
            if scale < len(skips) - 1:
                up = tf.cast(self._up(x), skips[scale].dtype)
                x = self._blocks[str(scale)](tf.concat([up, skips[scale]], axis=-1))
            if str(scale) in self._latents:
                numbers = tf.cast(self._latents[str(scale)](x), tf.float32)
                mean, raw = tf.split(numbers, 2, axis=-1)
                log_stddev = latent.bounded(raw)
                z = draw(len(found), mean, log_stddev)
                found.append(LatentMap(mean, log_stddev, z))
                x = tf.concat([x, tf.cast(z, x.dtype)], axis=-1)
        return x, found


class HPUNet(SegmentationModel):
    """The Hierarchical Probabilistic U-Net (Kohl et al., 2019).

    The coarsest scales of the decoder have a latent map each, and the latents of a
    scale depend on those of the coarser ones. The encoder runs once per image. The
    decoder runs once per sample, because the first latents enter where it starts.
    """

    is_stochastic = True

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.encoder = Encoder(config, init, "encoder", ResidualBlock)
        self.decoder = TopDown(config, init, "decoder", only_latents=False)
        self.posterior_encoder = Encoder(
            config, init, "posterior_encoder", ResidualBlock
        )
        self.posterior_decoder = TopDown(
            config, init, "posterior_decoder", only_latents=True
        )
        self.head = FComb(config.base_channels, config.num_classes, 0, init, "head")
        state = {
            "trainable": False,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self.constraint_average = tf.Variable(0.0, name="constraint_average", **state)
        self.multiplier = tf.Variable(1.0, name="multiplier", **state)

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits."""
        return self.head

    def shared(self, image: tf.Tensor) -> list[tf.Tensor]:
        """Returns the encoder's feature maps, the finest first."""
        return self.encoder(image)

    def decode(
        self, skips: Sequence[tf.Tensor], draw: Draw
    ) -> tuple[tf.Tensor, list[LatentMap]]:
        """Returns logits [B, H, W, K] and the latent maps of the prior."""
        features, latents = self.decoder(skips, draw)
        return self.head(features)[:, 0], latents

    def posterior(
        self, *, image: tf.Tensor, labels: tf.Tensor, draw: Draw
    ) -> list[LatentMap]:
        """Returns the latent maps of the posterior for labels [B, H, W]."""
        inputs = [image, tf.one_hot(labels, self.config.num_classes)]
        skips = self.posterior_encoder(tf.concat(inputs, axis=-1))
        return self.posterior_decoder(skips, draw)[1]

    @property
    def learned_variables(self) -> list[tf.Variable]:
        """All weights, or all but the posterior's if the loss has no ELBO."""
        if self.config.elbo_weight:
            return self.trainable_variables
        nets = (self.posterior_encoder, self.posterior_decoder)
        left_out = {id(v) for net in nets for v in net.trainable_variables}
        return [v for v in self.trainable_variables if id(v) not in left_out]

    def fit_terms(
        self,
        shared: list[tf.Tensor],
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the loss of GECO, or the negative evidence lower bound."""
        config, labels = self.config, grader_maps(batch)
        num_graders = labels.shape[1]
        image = tf.repeat(batch["image"], num_graders, axis=0)
        labels = merged(labels)  # [B G, H, W]

        def from_noise(index: int, mean: tf.Tensor, log_stddev: tf.Tensor) -> tf.Tensor:
            own = seeds.fold_in(seed, index)
            drawn = tf.random.stateless_normal(tf.shape(mean), own)
            return mean + tf.exp(log_stddev) * drawn

        posterior = self.posterior(image=image, labels=labels, draw=from_noise)
        logits, prior = self.decode(
            [tf.repeat(skip, num_graders, axis=0) for skip in shared],
            lambda index, mean, log_stddev: posterior[index].z,
        )
        parts = [
            tf.reduce_sum(
                losses.kl_per_dimension(_normal(q), _normal(p)), axis=[1, 2, 3]
            )
            for q, p in zip(posterior, prior)
        ]  # Each [B G].
        weights = grader_weights(batch)
        weights = None if weights is None else tf.reshape(weights, [-1])
        mask = batch.get("grader_mask")
        counted = None if mask is None else tf.reshape(mask, [-1])
        terms = losses.summed(
            nats=self.cross_entropy(logits, labels, counted),
            kl=tf.add_n(parts),
            beta=kl_weight * config.kl_beta,
            weights=weights,
        )
        for index, part in enumerate(parts):
            terms[f"kl_scale_{index}"] = losses.weighted_mean(part, weights)
        if config.hierarchy_loss == "elbo":
            return terms
        hardest, count = losses.hardest_nats(
            logits=logits,
            labels=labels,
            share=config.hardest_share,
            seed=seeds.fold_in(seed, len(parts)),
            ignore_label=config.ignore_label,
        )
        terms["constraint"] = losses.weighted_mean(hardest, weights) - config.pixel_nats
        pressure = self.multiplier * count * terms["constraint"]
        terms["loss"] = pressure + kl_weight * terms["kl"]
        terms["multiplier"] = tf.identity(self.multiplier)
        return terms

    def after_step(self, terms: dict[str, tf.Tensor]) -> None:
        """Moves the multiplier towards the constraint (GECO)."""
        if "constraint" not in terms:
            return
        constraint = terms["constraint"]
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            constraint = replica.all_reduce(tf.distribute.ReduceOp.MEAN, constraint)
        average, multiplier = losses.geco(
            constraint=constraint,
            average=tf.convert_to_tensor(self.constraint_average),
            multiplier=tf.convert_to_tensor(self.multiplier),
            scale=self.config.pixel_nats,
        )
        self.constraint_average.assign(average)
        self.multiplier.assign(multiplier)

    def energy_samples(self, shared: list[tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        """Draws samples from the prior: [B, S, H, W, K] logits."""
        count = self.config.energy_samples
        logits = self._samples(shared, count, seed)
        return tf.ensure_shape(logits, [None, count, None, None, None])

    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Runs the encoder once, and the decoder for each sample: [B, S, H, W, K]."""
        return self._samples(self.shared(image), num_samples, seed)

    def _samples(
        self, skips: list[tf.Tensor], num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        image_seeds = seeds.per_image(seed, tf.shape(skips[0])[0])

        def one(number: tf.Tensor) -> tf.Tensor:
            own = seeds.fold_in_each(image_seeds, number)

            def draw(index: int, mean: tf.Tensor, log_stddev: tf.Tensor) -> tf.Tensor:
                shape = tf.unstack(tf.shape(mean)[1:])
                drawn = seeds.normal(seeds.fold_in_each(own, index), shape)
                return mean + tf.exp(log_stddev) * drawn

            return self.decode(skips, draw)[0]

        logits = tf.map_fn(
            one,
            tf.range(num_samples),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )
        logits = tf.transpose(logits, [1, 0, 2, 3, 4])
        return tf.ensure_shape(logits, [None] * 4 + [self.config.num_classes])


def _normal(latents: LatentMap):
    return latent.gaussian(latents.mean, latents.log_stddev)
