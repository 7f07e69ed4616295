"""A mixture of stochastic experts: explicit weights for a few kinds of samples."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_probunet import noise, seeds
from tf_probunet.config import SAMPLINGS, ModelConfig
from tf_probunet.models import latent, losses
from tf_probunet.models.base import (
    Batch,
    SegmentationModel,
    grader_maps,
    map_weights,
)
from tf_probunet.models.blocks import Initializers, merged
from tf_probunet.models.f_comb import FComb, chunk_size, decode_in_chunks
from tf_probunet.models.unet import UNetCore


class Gated(NamedTuple):
    """What all samples of an image share.

    Attributes:
        features: [B, H, W, F], the U-Net's last feature map.
        weights: [B, E], the probabilities of the experts.
    """

    features: tf.Tensor
    weights: tf.Tensor


class Mixture(SegmentationModel):
    """A mixture of stochastic experts (Gao et al., 2023).

    A gate gives each of E experts a probability. An expert is a Gaussian over a latent,
    the same for all images, and the latent shifts and scales the U-Net's features:
    (f + r(z)) s(z). Training couples weighted samples of all experts with the graders.
    """

    is_stochastic = True
    samplings = SAMPLINGS
    has_weights = True

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self.unet = UNetCore(config, init)
        base, experts = config.base_channels, config.num_experts
        self.gate = [
            init.conv(base, 1, activation="relu", name="gate_hidden"),
            init.conv(experts, 1, activation=None, name="gate"),
        ]
        self.modulation = [
            [
                init.conv(base, 1, activation="relu", name=f"{name}_hidden"),
                init.conv(base, 1, activation=None, name=name),
            ]
            for name in ("shift", "scale")
        ]
        self.head = FComb(base, config.num_classes, 0, init, "head")
        size = [experts * config.num_latents]
        # A single axis, so that weight decay leaves them alone.
        self.expert_means = self.add_weight(
            "expert_means", size, None, init.normal(1.0)
        )
        self.expert_log_stddevs = self.add_weight(
            "expert_log_stddevs", size, None, init.bias()
        )

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits."""
        return self.head

    def shared(self, image: tf.Tensor) -> Gated:
        """Returns the features and the experts' weights of images [B, H, W, C]."""
        skips = self.unet.encode(image)
        x = tf.reduce_mean(skips[-1], axis=[1, 2], keepdims=True)
        for layer in self.gate:
            x = layer(x)
        weights = tf.nn.softmax(tf.cast(x[:, 0, 0], tf.float32))
        return Gated(self.unet.decode(skips), weights)

    def experts(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns means and standard deviations of the experts' latents, [E, L]."""
        shape = [self.config.num_experts, self.config.num_latents]
        log_stddev = latent.bounded(tf.convert_to_tensor(self.expert_log_stddevs))
        means = tf.convert_to_tensor(self.expert_means)
        return tf.reshape(means, shape), tf.reshape(tf.exp(log_stddev), shape)

    def decode(self, features: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Returns the segmentations for given latents.

        Args:
            features: [B, H, W, F].
            z: [B, S, L].

        Returns:
            Logits, [B, S, H, W, K].
        """
        vectors = tf.cast(merged(z)[:, None, None], features.dtype)  # [B S, 1, 1, L]
        shift, scale = vectors, vectors
        for first, second in zip(*self.modulation):
            shift, scale = first(shift), second(scale)  # [B S, 1, 1, F]
        lead = tf.shape(z)[:2]
        size = tf.concat([lead, tf.shape(shift)[1:]], axis=0)
        shift, scale = (tf.reshape(x, size) for x in (shift, scale))
        x = (features[:, None] + shift) * (1.0 + scale)  # [B, S, H, W, F]
        logits = self.head(merged(x))[:, 0]  # [B S, H, W, K]
        return tf.reshape(logits, tf.concat([lead, tf.shape(logits)[1:]], axis=0))

    def fit_terms(
        self,
        shared: Gated,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the cost of the coupling and the KL divergence of its marginal."""
        config, labels = self.config, grader_maps(batch)
        image_seeds = seeds.per_image(seed, tf.shape(shared.features)[0])
        logits = self._each_expert(
            shared, noise.independent, image_seeds, config.expert_samples
        )
        costs = losses.grader_distances(
            probabilities=tf.nn.softmax(logits),
            labels=labels,
            ignore_label=config.ignore_label,
            grader_mask=batch.get("grader_mask"),
            epsilon=1.0,  # As its authors.
        )  # [B, S, G]
        if config.expert_nats:
            nats = losses.grader_nats(
                logits=logits, labels=labels, ignore_label=config.ignore_label
            )
            costs += config.expert_nats * nats
        kl_weight = tf.convert_to_tensor(kl_weight)
        coupling = losses.greedy_coupling(
            costs, map_weights(batch), tf.where(kl_weight < 1.0, 0.5, 1.0)
        )
        received = tf.reshape(
            tf.reduce_sum(coupling, axis=2),
            [-1, config.num_experts, config.expert_samples],
        )
        marginal = tf.reduce_sum(received, axis=2)  # [B, E]
        kl = tf.reduce_sum(
            tf.math.xlogy(marginal, marginal)
            - marginal * tf.math.log(shared.weights + 1e-6),
            axis=1,
        )
        transport = tf.reduce_sum(coupling * costs, axis=[1, 2])
        terms = {"transport": tf.reduce_mean(transport), "kl": tf.reduce_mean(kl)}
        loss = terms["transport"] + kl_weight * config.kl_beta * terms["kl"]
        return {"loss": loss, **terms}

    def energy_samples(self, shared: Gated, seed: tf.Tensor) -> tf.Tensor:
        """Draws equally many samples of each expert: [B, S, H, W, K] logits.

        S is `energy_samples`, rounded up to a multiple of the number of experts.
        """
        image_seeds = seeds.per_image(seed, tf.shape(shared.features)[0])
        draw = noise.NOISES[self.config.energy_noise]
        return self._each_expert(shared, draw, image_seeds, self._per_expert())

    def energy_weights(self, shared: Gated) -> tf.Tensor:
        """Returns the experts' weights, shared by their samples: [B, S]."""
        each = self._per_expert()
        return tf.repeat(shared.weights / each, each, axis=1)

    def sample(
        self,
        image: tf.Tensor,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
        sampling: str = "independent",
    ) -> tf.Tensor:
        """Draws an expert by its weight, and a latent of it, for each sample.

        `sampling` is one of `samplings`; see `noise.draw`. Returns [B, S, H, W, K].
        """
        shared = self.shared(image)
        image_seeds = seeds.per_image(seed, tf.shape(image)[0])
        drawn = noise.draw(
            sampling, image_seeds, num_samples, self.config.num_latents + 1
        )
        means, stddevs = (
            tf.repeat(values[None], tf.shape(image)[0], axis=0)
            for values in self.experts()
        )
        z = noise.of_mixture(drawn, shared.weights, means, stddevs)
        return self._decoded(shared, z)

    def weighted(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws samples of all experts in turn, with weights.

        Args:
            image: [B, H, W, C].
            num_samples: S, at least the number of experts.
            seed: int32[2] or int32[B, 2].

        Returns:
            Logits [B, S, H, W, K], and weights [B, S] with a sum of 1. Sample i comes
            from expert i modulo E, and the samples of an expert share its weight.
        """
        shared, experts = self.shared(image), self.config.num_experts
        message = f"num_samples must be at least {experts}: there are as many experts"
        check = tf.debugging.assert_greater_equal(num_samples, experts, message)
        with tf.control_dependencies([check] if check is not None else []):
            expert = tf.range(num_samples) % experts  # [S]
        image_seeds = seeds.per_image(seed, tf.shape(image)[0])
        drawn = noise.independent(image_seeds, num_samples, self.config.num_latents)
        means, stddevs = (tf.gather(values, expert) for values in self.experts())
        counts = tf.gather(tf.math.bincount(expert, minlength=experts), expert)
        weights = tf.gather(shared.weights, expert, axis=1)
        weights /= tf.cast(counts, tf.float32)
        return self._decoded(shared, means + stddevs * drawn), weights

    def _decoded(self, shared: Gated, z: tf.Tensor) -> tf.Tensor:
        features = shared.features
        return decode_in_chunks(
            self.decode, features, z, chunk_size(features), self.config.num_classes
        )

    def _per_expert(self) -> int:
        return -(-self.config.energy_samples // self.config.num_experts)

    def _each_expert(self, shared, draw, image_seeds, each: int) -> tf.Tensor:
        """Decodes `each` latents of every expert: [B, E each, H, W, K] logits."""
        config = self.config
        means, stddevs = self.experts()
        z = [
            means[k]
            + stddevs[k]
            * draw(seeds.fold_in_each(image_seeds, k), each, config.num_latents)
            for k in range(config.num_experts)
        ]
        logits = self.decode(shared.features, tf.concat(z, axis=1))
        count = config.num_experts * each
        return tf.ensure_shape(logits, [None, count, None, None, config.num_classes])
