"""The interface of all models, and the one training step that they share."""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tf_probunet import lane, seeds
from tf_probunet.config import SAMPLINGS, ModelConfig
from tf_probunet.models import losses
from tf_probunet.models.f_comb import FComb
from tf_probunet.models.weight_average import WeightAverage

lane.require_keras_2(tf.keras)

# `image` [B, H, W, C] float32 in 0..1 and `labels` [B, H, W] int32, or [B, G, H, W]
# with the label maps of several graders. If images have different numbers of graders,
# `grader_mask` [B, G] bool says which of the G maps are a grader's; the rest only pad.
Batch = dict[str, tf.Tensor]

_TEST_SEED = 2**40  # No training step has this number.


class SegmentationModel(tf.keras.Model, abc.ABC):
    """A model that gives any number of segmentations of an image.

    Subclasses define `fit_terms` and `sample`. Between calls, a model keeps only its
    weights, the running means of the logs and the notes for the host.

    Attributes:
        config: the network's configuration.
        seed: the seed of everything random in training.
        is_stochastic: whether the samples depend on the seed.
        max_samples: the number of different samples, or None if there is no limit.
        has_weights: whether `weighted(image, num_samples, seed)` draws samples with
            weights.
        samplings: the ways of drawing that `sample` knows. A model that has more than
            the first takes their name as its argument `sampling`.
        bad_step: the first step with a term that was not finite, or -1.
        bad_terms: [T], 1 for each of `term_names` that was not finite in that step.
        stop_asked: set to 1 by a worker that wants to end the run.
        stop_agreed: above 0 on all workers after the next step.
    """

    is_stochastic = False
    max_samples: int | None = None
    has_weights = False
    samplings: tuple[str, ...] = SAMPLINGS[:1]

    def __init__(self, config: ModelConfig, seed: int = 0, name: str | None = None):
        super().__init__(name=name or config.name)
        self.config, self.seed = config, seed
        self.weight_decay = self.gradient_clip_norm = 0.0
        self.kl_warmup_steps = self.energy_warmup_steps = 0
        self.weight_average: WeightAverage | None = None
        self.term_names: list[str] = []
        self._means = _RunningMeans([])
        # The means that a step returns are already taken over all replicas.
        self.distribute_reduction_method = "first"

    def objective(
        self,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor = 1.0,
        energy_factor: float | tf.Tensor = 1.0,
    ) -> dict[str, tf.Tensor]:
        """Computes the terms of the loss.

        The loss is the sum of the model's own loss, weighted by `elbo_weight`, the
        energy distance between samples and graders, weighted by `energy_weight`, the
        error of the presence, and three terms of the switched task, two of them
        weighted by `mode_weight`. A part with a weight of 0 is not computed.

        Args:
            batch: images and labels.
            seed: int32[2].
            kl_weight: another factor of the KL divergence besides beta. It is below 1
                during the warm-up. A model without latents ignores it.
            energy_factor: another factor of the terms on samples. It is below 1 during
                their warm-up.

        Returns:
            Scalars, averaged over the batch, among them `loss`.
        """
        config, shared = self.config, self.shared(batch["image"])
        terms = {"loss": tf.constant(0.0)}
        if config.elbo_weight:
            terms = self.fit_terms(shared, batch, seed, kl_weight)
            terms["loss"] *= config.elbo_weight
        on_samples = {
            "energy_distance": (config.energy_weight, self._energy_distance),
            "presence": (config.presence_weight, self._presence),
            "mode_divergence": (config.mode_weight, self._mode_divergence),
            "undecided": (config.mode_weight, self._undecided),
            "segmentation": (config.segmentation_weight, self._segmentation),
        }
        if any(weight for weight, _ in on_samples.values()):
            logits = self.energy_samples(shared, seeds.fold_in(seed, 1))
            weights = self.energy_weights(shared)
        for name, (factor, term) in on_samples.items():
            if factor:
                terms[name] = term(logits, weights, batch)
                terms["loss"] += energy_factor * factor * terms[name]
        return terms

    def _energy_distance(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> tf.Tensor:
        """Returns the mean energy distance of samples [B, S, H, W, K]."""
        config, labels = self.config, self._at_size(grader_maps(batch), logits)
        settings = {
            "probabilities": tf.nn.softmax(logits),
            "ignore_label": config.ignore_label,
            "epsilon": config.energy_epsilon,
            "overlap": config.energy_overlap,
            "sample_weights": weights,
        }
        if config.switched:  # All draws of the flips have the same 32 modes.
            distances = losses.switched_energy_distance(labels=labels[:, 0], **settings)
        else:
            distances = losses.energy_distance(
                labels=labels, grader_mask=batch.get("grader_mask"), **settings
            )
        return tf.reduce_mean(distances)

    def _presence(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> tf.Tensor:
        """Returns the mean error of the presence in samples [B, S, H, W, K]."""
        errors = losses.presence_error(
            probabilities=tf.nn.softmax(logits),
            labels=self._at_size(grader_maps(batch), logits),
            ignore_label=self.config.ignore_label,
            grader_mask=batch.get("grader_mask"),
            sample_weights=weights,
        )
        return tf.reduce_mean(errors)

    def _mode_divergence(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> tf.Tensor:
        """Returns the divergence of the modes in samples [B, S, H, W, K]."""
        return losses.mode_divergence(**self._switched(logits, weights, batch))

    def _undecided(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> tf.Tensor:
        """Returns how undecided the switches are in samples [B, S, H, W, K]."""
        return losses.undecided_switches(**self._switched(logits, weights, batch))

    def _switched(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> dict[str, Any]:
        """Returns the arguments of the losses on the flips of samples."""
        return {
            "probabilities": tf.nn.softmax(logits),
            "labels": self._at_size(grader_maps(batch), logits)[:, 0],
            "ignore_label": self.config.ignore_label,
            "sample_weights": weights,
        }

    def _segmentation(
        self, logits: tf.Tensor, weights: tf.Tensor | None, batch: Batch
    ) -> tf.Tensor:
        """Returns the mean cross-entropy of samples [B, S, H, W, K] before flips."""
        del weights  # Every sample shall segment.
        labels = losses.unswitched(grader_maps(batch)[:, :1])
        nats = self.cross_entropy(
            losses.unswitched_logits(logits),
            tf.repeat(labels, logits.shape[1], axis=1),
        )
        return tf.reduce_mean(nats)

    def shared(self, image: tf.Tensor) -> Any:
        """Computes what all segmentations of an image have in common, once per step."""
        return image

    @abc.abstractmethod
    def fit_terms(
        self,
        shared: Any,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Computes the model's own loss.

        Args:
            shared: what `shared` returned for the images of the batch.
            batch: images and labels. `grader_maps` gives all label maps, and
                `grader_weights` or `grader_mean` leave out those that pad the batch.
            seed: int32[2].
            kl_weight: another factor of the KL divergence besides beta.

        Returns:
            Scalars, averaged over the batch, among them `loss`.
        """

    def energy_samples(self, shared: Any, seed: tf.Tensor) -> tf.Tensor:
        """Draws the samples for the energy distance.

        A model that overrides `shared` must override this method too.

        Args:
            shared: what `shared` returned.
            seed: int32[2].

        Returns:
            Logits, [B, S, H, W, K], with a static S.
        """
        count = min(self.config.energy_samples, self.max_samples or math.inf)
        logits = self.sample(shared, count, seed)
        return tf.ensure_shape(logits, [None, count, None, None, None])

    def energy_weights(self, shared: Any) -> tf.Tensor | None:
        """Returns the weights of the samples for the energy distance.

        Args:
            shared: what `shared` returned.

        Returns:
            [B, S] with a sum of 1 for each image, or None if all weigh the same.
        """
        del shared
        return None

    @abc.abstractmethod
    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws segmentations.

        Args:
            image: [B, H, W, C].
            num_samples: S, the number of samples per image.
            seed: int32[2], or int32[B, 2] with a seed for each image. With its own
                seed, an image has the same samples in any batch.

        Returns:
            Logits, [B, S, H, W, K] float32.
        """

    @property
    def last_layer(self) -> FComb:
        """The layer that computes the logits of all heads."""
        raise AttributeError(f"{self.name} has no last layer of its own")

    @contextlib.contextmanager
    def foreground_shifted(self, nats: float) -> Iterator[None]:
        """Adds `nats` to the logit of the foreground while the context is open.

        This moves the probability from which on a pixel is labelled as foreground away
        from 1/2. The model must have two classes.
        """
        bias = self.last_layer.last_bias
        before = bias.read_value()
        shift = tf.constant([0.0, nats], bias.dtype)
        bias.assign_add(tf.tile(shift, [bias.shape[0] // 2]))
        try:
            yield
        finally:
            bias.assign(before)

    def initialize(self) -> None:
        """Makes all variables. Call it in the scope of the distribution strategy."""
        side = self.config.size_divisor
        batch = {
            "image": tf.zeros([1, side, side, self.config.image_channels]),
            "labels": tf.zeros([1, side, side], tf.int32),
        }
        if not self.config.elbo_weight:  # Nothing else would build the posterior.
            self.fit_terms(self.shared(batch["image"]), batch, seeds.root(0), 1.0)
        terms = self.objective(batch, seeds.root(0))
        self.term_names = [*terms, "weight_decay", "gradient_norm"]
        self._means = _RunningMeans(self.term_names)
        local = {
            "trainable": False,
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self.bad_step = tf.Variable(-1, dtype=tf.int64, name="bad_step", **local)
        self.bad_terms = tf.Variable(
            tf.zeros([len(self.term_names)]), name="bad_terms", **local
        )
        self.stop_asked = tf.Variable(0.0, name="stop_asked", **local)
        self.stop_agreed = tf.Variable(0.0, name="stop_agreed", **local)

    def compile(
        self,
        optimizer: Any,
        weight_decay: float = 0.0,
        gradient_clip_norm: float = 0.0,
        kl_warmup_steps: int = 0,
        energy_warmup_steps: int = 0,
        **kwargs: Any,
    ) -> None:
        """Sets how the model learns.

        Args:
            optimizer: applies the gradients.
            weight_decay: weight of the L2 term on the kernels.
            gradient_clip_norm: largest norm of the gradient of all weights; 0 for no
                limit.
            kl_warmup_steps: number of steps in which the weight of the KL divergence
                grows from 0 to beta; 0 for beta from the start.
            energy_warmup_steps: the same for the weights of the terms on samples.
            **kwargs: further arguments of Keras.
        """
        super().compile(optimizer=optimizer, **kwargs)
        self.weight_decay, self.gradient_clip_norm = weight_decay, gradient_clip_norm
        self.kl_warmup_steps = kl_warmup_steps
        self.energy_warmup_steps = energy_warmup_steps

    def grader_cross_entropy(self, logits: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Returns the cross-entropy of each of M segmentations for each of G graders.

        Args:
            logits: [B, M, H, W, K].
            batch: images and labels of G graders.

        Returns:
            [B, G, M].
        """
        labels = grader_maps(batch)
        num_graders, num_maps = labels.shape[1], logits.shape[1]
        mask = batch.get("grader_mask")
        return self.cross_entropy(
            tf.repeat(logits[:, None], num_graders, axis=1),
            tf.repeat(labels[:, :, None], num_maps, axis=2),
            None if mask is None else tf.repeat(mask[..., None], num_maps, axis=2),
        )

    def cross_entropy(
        self, logits: tf.Tensor, labels: tf.Tensor, counted: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Sums the weighted cross-entropy of logits [..., H, W, K]: [...].

        It is 0 for label maps that only pad a batch, if `counted` [...] says so. A
        pixel of pooled logits counts as many times as it has labels.
        """
        kept = self._at_size(labels, logits)
        nats = losses.cross_entropy(
            logits=logits,
            labels=kept,
            ignore_label=self.config.ignore_label,
            class_balance=self.config.class_balance,
            counted=counted,
        )
        if self._is_full_size:
            return nats
        return nats * tf.cast(tf.size(labels) / tf.size(kept), nats.dtype)

    def _at_size(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Takes a label [..., H, W] near the middle of each pixel of logits."""
        if self._is_full_size:
            return labels
        side = tf.shape(labels)[-1] // tf.shape(logits)[-2]
        return labels[..., side // 2 :: side, side // 2 :: side]

    @property
    def _is_full_size(self) -> bool:
        """Whether all logits have as many pixels as the labels."""
        return self.config.input_pooling == 1 and self.config.energy_stride == 1

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        """The running means. Keras resets them."""
        return self._means.metrics

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Takes one step on each replica's share of the batch."""
        replica = tf.distribute.get_replica_context()
        num_replicas = replica.num_replicas_in_sync
        step = tf.cast(self.optimizer.iterations, tf.int64)
        seed = seeds.for_replica(seeds.fold_in(seeds.root(self.seed), step))
        scaled_optimizer = isinstance(
            self.optimizer, tf.keras.mixed_precision.LossScaleOptimizer
        )
        variables = self.learned_variables
        with tf.GradientTape() as tape:
            terms = self.objective(
                batch, seed, self.kl_weight(step), self.energy_factor(step)
            )
            terms["weight_decay"] = self._weight_decay_loss(variables)
            # Each replica sees 1/n of the batch; gradients are summed over replicas.
            loss = (terms["loss"] + terms["weight_decay"]) / num_replicas
            if scaled_optimizer:
                loss = self.optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(loss, variables)
        if scaled_optimizer:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        if num_replicas > 1:
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        terms["gradient_norm"] = tf.linalg.global_norm(gradients)
        # Loss scaling finds its scale by letting gradients overflow now and then.
        watched = [*terms][:-1] if scaled_optimizer else [*terms]
        self._note_for_host(step, terms, watched)
        if self.gradient_clip_norm:
            gradients, _ = tf.clip_by_global_norm(
                gradients, self.gradient_clip_norm, use_norm=terms["gradient_norm"]
            )
        self.optimizer.apply_gradients(
            zip(gradients, variables), skip_gradients_aggregation=True
        )
        self.after_step(terms)
        if self.weight_average is not None:
            self.weight_average.update(self.trainable_variables, step)
        return self._means.update(terms)

    def after_step(self, terms: dict[str, tf.Tensor]) -> None:
        """Updates what a model keeps between steps besides its weights."""

    @property
    def learned_variables(self) -> list[tf.Variable]:
        """The weights that the objective depends on."""
        return self.trainable_variables

    def validation_terms(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes the objective on a validation batch."""
        return self.objective(batch, seeds.fold_in(seeds.root(self.seed), _TEST_SEED))

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes the objective for Keras' `evaluate`."""
        return self._means.update(self.validation_terms(batch))

    def kl_weight(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the factor of the KL divergence in a step, counted from 0."""
        return _grown(step, self.kl_warmup_steps)

    def energy_factor(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the factor of the terms on samples in a step, counted from 0."""
        return _grown(step, self.energy_warmup_steps)

    def bad_term_names(self) -> list[str]:
        """Returns the terms that were not finite at `bad_step`."""
        flags = self.bad_terms.numpy()
        return [name for name, bad in zip(self.term_names, flags) if bad]

    def _weight_decay_loss(self, variables: list[tf.Variable]) -> tf.Tensor:
        # A kernel connects inputs with outputs; a bias has a single axis.
        kernels = [v for v in variables if v.shape.rank > 1]
        return self.weight_decay * tf.add_n([tf.nn.l2_loss(k) for k in kernels])

    def _note_for_host(
        self, step: tf.Tensor, terms: dict[str, tf.Tensor], watched: list[str]
    ) -> None:
        """Notes the first bad step, and whether a worker wants to stop.

        The host reads the notes when it has time. No step waits for it.
        """
        replica = tf.distribute.get_replica_context()
        bad = tf.stack(
            [
                tf.cast(not_finite(terms[name]), tf.float32) if name in watched else 0.0
                for name in self.term_names
            ]
        )
        notes = tf.concat([bad, [self.stop_asked]], axis=0)
        if replica.num_replicas_in_sync > 1:
            notes = replica.all_reduce(tf.distribute.ReduceOp.SUM, notes)
        bad = notes[:-1]
        self.stop_agreed.assign(notes[-1])
        first = tf.logical_and(self.bad_step < 0, tf.reduce_any(bad > 0))
        self.bad_terms.assign(tf.where(first, bad, self.bad_terms))
        self.bad_step.assign(tf.where(first, step, self.bad_step))


class _RunningMeans:
    """Means of the terms since the last reset.

    This is not a `tf.Module`, so the means are not saved in checkpoints.
    """

    def __init__(self, names: list[str]) -> None:
        self._means = {name: tf.keras.metrics.Mean(name) for name in names}

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        return list(self._means.values())

    def update(self, terms: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        for name, value in terms.items():
            self._means[name].update_state(value)
        return {name: self._means[name].result() for name in terms}


def grader_maps(batch: Batch) -> tf.Tensor:
    """Returns the labels with an axis for the graders: [B, G, H, W]."""
    labels = batch["labels"]
    return labels[:, None] if labels.shape.rank == 3 else labels


def map_weights(batch: Batch) -> tf.Tensor:
    """Returns the weight of each label map of its image, [B, G]; each row sums to 1."""
    if "grader_mask" in batch:
        return losses.mask_weights(batch["grader_mask"])
    labels = grader_maps(batch)
    return tf.fill(tf.shape(labels)[:2], 1.0 / labels.shape[1])


def grader_weights(batch: Batch) -> tf.Tensor | None:
    """Returns the weight of each label map in a mean over the batch: [B, G].

    Every image counts the same, and so does each grader of an image. The weights sum to
    one. They are None, which stands for equal ones, if the batch is not padded.
    """
    if "grader_mask" not in batch:
        return None
    weights = losses.mask_weights(batch["grader_mask"])
    return weights / tf.cast(tf.shape(weights)[0], weights.dtype)


def grader_mean(values: tf.Tensor, batch: Batch) -> tf.Tensor:
    """Averages values [B, G] of label maps over the graders and the images.

    Maps that only pad the batch do not count.
    """
    weights = grader_weights(batch)
    if weights is None:
        return tf.reduce_mean(values)
    return tf.reduce_sum(tf.cast(weights, values.dtype) * values)


def _grown(step: tf.Tensor, warmup_steps: int) -> tf.Tensor:
    """Returns what grows evenly to 1 in a number of steps, at a step from 0 on."""
    if not warmup_steps:
        return tf.constant(1.0)
    return tf.minimum(1.0, tf.cast(step + 1, tf.float32) / warmup_steps)


def not_finite(value: tf.Tensor) -> tf.Tensor:
    """Returns whether a scalar is NaN or infinite."""
    return tf.logical_not(tf.math.is_finite(value))
