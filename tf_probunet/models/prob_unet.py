"""The Probabilistic U-Net: a U-Net joined with a conditional variational autoencoder.

The three ablations of the paper are settings of the same class: `fixed_prior`,
`posterior_sees_image` and `injection`.
"""

from __future__ import annotations

import math

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tf_probunet import noise, seeds
from tf_probunet.config import SAMPLINGS, ModelConfig
from tf_probunet.models import latent, losses, spread, symmetry
from tf_probunet.models.base import (
    Batch,
    SegmentationModel,
    grader_maps,
    grader_weights,
)
from tf_probunet.models.blocks import Initializers, merged
from tf_probunet.models.f_comb import FComb, chunk_size, decode_in_chunks
from tf_probunet.models.latent import GaussianEncoder, Latents, MixtureEncoder
from tf_probunet.models.unet import UNetCore

# Candidates for a stratified set are compared at no more than so many pixels.
_MAX_COMPARED_PIXELS = 2**15


class ProbUNet(SegmentationModel):
    """The Probabilistic U-Net (Kohl et al., 2018).

    A latent z drawn from the prior P(z | X) selects one of the plausible
    segmentations; the U-Net and the prior run once per image, f_comb once per sample.
    Training maximises the evidence lower bound with a posterior Q(z | X, Y).
    """

    is_stochastic = True
    samplings = SAMPLINGS

    def __init__(self, config: ModelConfig, seed: int = 0):
        super().__init__(config, seed)
        init = Initializers(config.initializer, seed)
        self._late = config.injection == "end"
        self.unet = UNetCore(config, init)
        size, components = config.num_latents, config.prior_components
        self.prior_net: GaussianEncoder | None = None
        if components > 1:
            self.prior_net = MixtureEncoder(config, size, components, init, "prior")
        elif not config.fixed_prior:
            self.prior_net = GaussianEncoder(config, size, init, "prior")
        self.posterior_net = GaussianEncoder(config, size, init, "posterior")
        self.f_comb = FComb(
            config.comb_channels or config.base_channels,
            config.num_classes,
            config.num_latents if self._late else 0,
            init,
        )

    @property
    def num_latents(self) -> int:
        """The numbers of a latent, with the one that moves the outline if there is."""
        return self.config.num_latents + bool(self.config.outline_stddev)

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits."""
        return self.f_comb

    def prior(self, image: tf.Tensor) -> Latents:
        """Returns P(z | X) for images [B, H, W, C] (Eq. 1).

        With `prior_components` above 1, it is a mixture of Gaussians.
        """
        if self.prior_net is None:
            mean = tf.zeros([tf.shape(image)[0], self.config.num_latents])
            log_stddev = tf.fill(tf.shape(mean), math.log(self.config.prior_stddev))
            return latent.gaussian(*self._with_outline(mean, log_stddev))
        mean, log_stddev, *log_weights = self.prior_net(image)
        mean, log_stddev = self._with_outline(mean, log_stddev)
        if self.config.prior_components > 1:
            return latent.mixture(mean, log_stddev, *log_weights)
        return latent.gaussian(mean, log_stddev)

    def _with_outline(
        self, mean: tf.Tensor, log_stddev: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Adds the standard normal number that moves the outline, if there is one."""
        if not self.config.outline_stddev:
            return mean, log_stddev
        zero = tf.zeros_like(mean[..., :1])
        return tf.concat([mean, zero], -1), tf.concat([log_stddev, zero], -1)

    def posterior(
        self, *, image: tf.Tensor, labels: tf.Tensor
    ) -> tfd.MultivariateNormalDiag:
        """Returns Q(z | X, Y) for images [B, H, W, C] and labels [B, H, W] (Eq. 3).

        In the one-hot maps of the labels, ignored pixels are 0 for every class.
        """
        inputs = tf.one_hot(labels, self.config.num_classes)
        if self.config.posterior_sees_image:
            inputs = tf.concat([image, inputs], axis=-1)
        return latent.gaussian(*self._with_outline(*self.posterior_net(inputs)))

    def features(self, image: tf.Tensor) -> tf.Tensor:
        """Computes what all samples of an image have in common.

        This is the U-Net's last feature map [B, H, W, F], which `average_symmetries`
        averages. If the latent enters at the start of the U-Net, nothing can be shared,
        and the image itself is returned.
        """
        if not self._late:
            return image
        if self.config.average_symmetries:
            return symmetry.mean(self.unet, image)
        return self.unet(image)

    def decode(self, features: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Returns the segmentations for given latents (Eq. 2).

        With `outline_stddev`, the last number of a latent moves the outline.

        Args:
            features: what `features` returned.
            z: [B, S, L].

        Returns:
            Logits, [B, S, H, W, K].
        """
        return self._outlined(self._logits(features, z), z)

    def _outlined(self, logits: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Moves the outlines of logits [B, S, H, W, K] by the latents.

        Each sample is sharper than the network's probabilities, which stay the mean.
        """
        if not self.config.outline_stddev:
            return logits
        shift = self.config.outline_stddev * z[..., -1, None, None, None]
        foreground = tf.constant([0.0] + [1.0] * (self.config.num_classes - 1))
        return self.config.outline_sharpness * (logits + shift * foreground)

    def _logits(self, features: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Returns the logits for given latents, whose outlines are the most probable.

        The losses use these: they take the probabilities as they are.
        """
        z = z[..., : self.config.num_latents]
        if self._late:
            return self.f_comb(features, z)
        shape, num_samples = tf.shape(features), tf.shape(z)[1]
        planes = tf.broadcast_to(
            z[:, :, None, None, :],
            [shape[0], num_samples, shape[1], shape[2], self.config.num_latents],
        )
        images = tf.repeat(features[:, None], num_samples, axis=1)
        inputs = tf.concat([images, planes], axis=-1)  # [B, S, H, W, C + L]
        logits = self.f_comb(self.unet(merged(inputs)))[:, 0]  # [B S, H, W, K]
        new_shape = tf.concat([tf.shape(z)[:2], tf.shape(logits)[1:]], axis=0)
        return tf.reshape(logits, new_shape)  # [B, S, H, W, K]

    @property
    def learned_variables(self) -> list[tf.Variable]:
        """The weights that the configuration lets learn.

        Without an ELBO in the loss, the posterior's weights are not among them.
        """
        posterior = self.posterior_net.trainable_variables
        if self.config.learned == "posterior":
            return posterior
        if self.config.elbo_weight:
            return self.trainable_variables
        left_out = {id(v) for v in posterior}
        return [v for v in self.trainable_variables if id(v) not in left_out]

    def shared(self, image: tf.Tensor) -> tuple[tf.Tensor, Latents]:
        """Returns the features, pooled as the U-Net's input, and the prior."""
        features = self.unet(image, enlarged=False) if self._late else image
        return features, self.prior(image)

    def fit_terms(
        self,
        shared: tuple[tf.Tensor, Latents],
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the negative evidence lower bound and its terms (Eq. 4)."""
        features, prior = shared
        labels = grader_maps(batch)  # [B, G, H, W]
        num_graders = labels.shape[1]
        posterior = self._posteriors(batch["image"], labels)
        drawn = tf.random.stateless_normal(tf.shape(posterior.mean()), seed)
        z = posterior.mean() + posterior.stddev() * drawn  # [B G, L]
        z = tf.reshape(z, [-1, num_graders, self.num_latents])
        logits = self._logits(features, z)  # [B, G, H, W, K]
        nats = self.cross_entropy(logits, labels, batch.get("grader_mask"))
        weights = grader_weights(batch)
        settings = {
            "nats": tf.reshape(nats, [-1]),
            "beta": kl_weight * self.config.kl_beta,
            "weights": None if weights is None else tf.reshape(weights, [-1]),
        }
        prior = latent.repeat(prior, num_graders)
        if not latent.is_mixture(prior):
            terms = losses.negative_elbo(posterior=posterior, prior=prior, **settings)
            if self.config.outline_latent is not None:
                # It says nothing about a grader, so it is no latent to watch.
                del terms[f"kl_{self.config.outline_latent}"]
            return terms
        shape = [self.config.kl_samples, *tf.unstack(tf.shape(posterior.mean()))]
        drawn = tf.random.stateless_normal(shape, seeds.fold_in(seed, 2))
        kl = losses.monte_carlo_kl(
            posterior=posterior,
            prior=prior,
            z=posterior.mean() + posterior.stddev() * drawn,  # [N, B G, L]
        )
        return losses.summed(kl=kl, **settings)

    def energy_samples(
        self, shared: tuple[tf.Tensor, Latents], seed: tf.Tensor
    ) -> tf.Tensor:
        """Decodes latents drawn from the prior: [B, S, H, W, K] logits.

        Each component of a mixture has the same number of samples, so that
        `energy_weights` has a gradient. S is then rounded up to a multiple of it.
        """
        features, prior = shared
        stride = self.config.energy_stride
        features = features[:, stride // 2 :: stride, stride // 2 :: stride]
        draw = noise.NOISES[self.config.energy_noise]
        image_seeds = seeds.per_image(seed, tf.shape(features)[0])
        count, size = self.config.energy_samples, self.num_latents
        if not latent.is_mixture(prior):
            z = draw(image_seeds, count, size)
            return self._logits(features, latent.from_noise(prior, z))
        components = self.config.prior_components
        each = -(-count // components)
        parts = prior.components_distribution
        z = [
            parts.mean()[:, k, None]
            + parts.stddev()[:, k, None]
            * draw(seeds.fold_in_each(image_seeds, k), each, size)
            for k in range(components)
        ]
        return self._logits(features, tf.concat(z, axis=1))

    def energy_weights(self, shared: tuple[tf.Tensor, Latents]) -> tf.Tensor | None:
        """Returns the weights of a mixture's components, shared by their samples."""
        config, prior = self.config, shared[1]
        if not latent.is_mixture(prior):
            return None
        each = -(-config.energy_samples // config.prior_components)
        return tf.repeat(latent.mixture_weights(prior) / each, each, axis=1)

    def _posteriors(
        self, image: tf.Tensor, labels: tf.Tensor
    ) -> tfd.MultivariateNormalDiag:
        """Returns the posterior of each grader of labels [B, G, H, W]: batch [B G]."""
        return self.posterior(
            image=tf.repeat(image, labels.shape[1], axis=0), labels=merged(labels)
        )

    def sample(
        self,
        image: tf.Tensor,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
        sampling: str = "independent",
    ) -> tf.Tensor:
        """Draws latents from the prior and decodes them: [B, S, H, W, K] logits.

        `sampling` is one of `samplings`.
        """
        features, prior = self.features(image), self.prior(image)
        if sampling == "independent":
            z = self.sample_latents(prior, num_samples, seed)
        else:
            z = self.stratified_latents(features, prior, num_samples, seed)
        return self.decode_in_chunks(features, z)

    def stratified_latents(
        self,
        features: tf.Tensor,
        prior: Latents,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Draws latents whose samples are spread over the distribution.

        They are spread over the prior (see `noise.draw`). If f_comb is all that runs
        for a sample, and there is one class besides the background, they are chosen
        among more latents by what they show (see `spread.choose`).

        Args:
            features: what `features` returned for the images.
            prior: of the images.
            num_samples: S.
            seed: int32[2] or int32[B, 2].

        Returns:
            [B, S, L].
        """
        if not self._late or self.config.num_classes != 2:
            return self.sample_latents(prior, num_samples, seed, "stratified")
        image_seeds = seeds.per_image(seed, tf.shape(features)[0])
        each = spread.candidates_each(num_samples)
        z = self.sample_latents(prior, each * num_samples, image_seeds, "stratified")

        def chosen() -> tf.Tensor:
            logits = self.decode_in_chunks(_some_pixels(features), z)
            marked = tf.cast(logits[..., 1] > logits[..., 0], tf.float32)
            flat = tf.reshape(marked, [*tf.unstack(tf.shape(z)[:2]), -1])  # [B, C, P]
            places = spread.choose(flat, num_samples, image_seeds)
            return tf.gather(z, places, axis=1, batch_dims=1)

        return tf.cond(each > 1, chosen, lambda: z)

    def sample_latents(
        self,
        distribution: Latents,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
        sampling: str = "independent",
    ) -> tf.Tensor:
        """Draws latents [B, S, L]; `seed` is int32[2] or int32[B, 2]."""
        drawn = noise.draw(
            sampling,
            seeds.per_image(seed, distribution.batch_shape_tensor()[0]),
            num_samples,
            latent.noise_dimensions(distribution),
            self.config.outline_latent,
        )
        return latent.from_noise(distribution, drawn)

    def reconstruct(
        self, *, image: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Decodes one latent from the posterior of each image: [B, H, W, K] logits."""
        posterior = self.posterior(image=image, labels=labels)
        z = self.sample_latents(posterior, 1, seed)
        return self.decode(self.features(image), z)[:, 0]

    def log_likelihood(
        self,
        *,
        image: tf.Tensor,
        labels: tf.Tensor,
        num_samples: int | tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Estimates log p(Y | X) by importance sampling from the posterior.

        Args:
            image: [B, H, W, C].
            labels: [B, H, W].
            num_samples: latents per image. More of them make the bound tighter.
            seed: int32[2] or int32[B, 2].

        Returns:
            [B], in nats.
        """
        prior = self.prior(image)
        posterior = self.posterior(image=image, labels=labels)
        z = self.sample_latents(posterior, num_samples, seed)  # [B, N, L]
        logits = self.decode_in_chunks(self.features(image), z, outlined=False)
        targets = tf.repeat(labels[:, None], num_samples, axis=1)
        z_first = tf.transpose(z, [1, 0, 2])  # [N, B, L]: the batch of tfp is [B].
        return losses.importance_log_likelihood(
            log_p_y=-losses.cross_entropy(
                logits=logits, labels=targets, ignore_label=self.config.ignore_label
            ),
            log_p_z=tf.transpose(prior.log_prob(z_first)),
            log_q_z=tf.transpose(posterior.log_prob(z_first)),
        )

    def decode_in_chunks(
        self, features: tf.Tensor, z: tf.Tensor, outlined: bool = True
    ) -> tf.Tensor:
        """Decodes a few samples at a time, which bounds the memory.

        The arguments and the result are those of `decode`. If `outlined` is false, all
        outlines are the most probable ones.
        """
        # The part of f_comb that does not see z is computed before the loop.
        shared = self.f_comb.project(features) if self._late else features
        size = self.config.num_latents

        def decode(shared: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
            if self._late:
                logits = self.f_comb.combine(shared, z[..., :size])
            else:
                logits = self._logits(shared, z)
            return self._outlined(logits, z) if outlined else logits

        chunk = self._chunk_size(features)
        return decode_in_chunks(decode, shared, z, chunk, self.config.num_classes)

    def _chunk_size(self, features: tf.Tensor) -> tf.Tensor:
        if not self._late:
            return tf.constant(1)  # Each sample runs a whole U-Net; more gain nothing.
        return chunk_size(features)


def _some_pixels(features: tf.Tensor) -> tf.Tensor:
    """Takes every n-th pixel of large feature maps [B, H, W, F] in each direction."""
    height, width = tf.unstack(tf.cast(tf.shape(features)[1:3], tf.float32))
    n = tf.cast(tf.math.ceil(tf.sqrt(height * width / _MAX_COMPARED_PIXELS)), tf.int32)
    taken = features[:, n // 2 :: n, n // 2 :: n]
    return tf.ensure_shape(taken, [None, None, None, features.shape[-1]])
