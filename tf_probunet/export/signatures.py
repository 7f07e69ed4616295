"""The functions of a SavedModel: plain tensors in and out, with checked inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_probunet import seeds
from tf_probunet.models import latent
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.prob_unet import ProbUNet

DEFAULT_SAMPLES = 16

Outputs = dict[str, tf.Tensor]

# Functions that take label maps, and those whose outputs are maps of the frame's size.
_TAKE_LABELS = {"posterior", "log_likelihood"}
_GIVE_MAPS = {"sample", "stratified", "weighted", "mean", "decode"}
# Values may leave 0..1 by rounding.
_TOLERANCE = 1e-4


class Signatures:
    """The functions that the SavedModel of a model carries.

    They take whole frames. The network sees the middle of a frame, and the rest of the
    outputs is background. `seed` is a whole number, or one for each image of the batch:
    then an image's samples do not depend on what else is in the batch. Inputs that make
    no sense raise `tf.errors.InvalidArgumentError`, wherever the SavedModel is loaded.
    """

    def __init__(
        self,
        model: SegmentationModel,
        *,
        sees: int | None = None,
        values: str = "prepared as in training",
    ) -> None:
        """Prepares the functions of a model.

        Args:
            model: with its weights.
            sees: height and width of what the network sees of a frame. None if it sees
                all of it, whatever its size.
            values: how the values of an image become 0..1, for error messages.
        """
        self.model = model
        self.sees = sees
        self._values = values

    @property
    def default_samples(self) -> int:
        """The number of samples if the caller does not give one."""
        if self.model.max_samples is not None:
            return min(DEFAULT_SAMPLES, self.model.max_samples)
        return DEFAULT_SAMPLES if self.model.is_stochastic else 1

    def network(self) -> dict[str, Any]:
        """Returns the functions of what the network sees, by name.

        Heights and widths are multiples of the model's `size_divisor`. Functions that
        make no sense for the model are left out.
        """
        return self._functions(
            lambda name, *tensors: getattr(self, f"_{name}")(*tensors)
        )

    def functions(self, network: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the functions of whole frames, by name.

        Args:
            network: as `network()` returns it, where that is saved too: the graphs are
                shared then.
        """
        network = network or self.network()
        sees = self.sees
        if sees is None:
            return network

        def call(name: str, image: tf.Tensor, *others: tf.Tensor) -> Outputs:
            image = self._checked_frame(image)
            if name in _TAKE_LABELS:
                labels = self._checked_labels(image, others[0])
                others = (_middle(labels, sees), *others[1:])
            outputs = network[name](_middle(image, sees), *others)
            if name not in _GIVE_MAPS:
                return outputs
            return {
                key: maps if key == "weights" else _framed(key, maps, image)
                for key, maps in outputs.items()
            }

        return self._functions(call)

    def _functions(self, call: Callable[..., Outputs]) -> dict[str, Any]:
        """Returns graphs of `call(name, image, ...)` for all functions."""
        config = self.model.config
        image = tf.TensorSpec(
            [None, None, None, config.image_channels], tf.float32, "image"
        )
        labels = tf.TensorSpec([None, None, None], tf.int32, "labels")
        count = tf.TensorSpec([], tf.int32, "num_samples")
        seed = tf.TensorSpec(None, tf.int32, "seed")
        # Defaults that are tensors make an input optional in the serving graph.
        number, zero = tf.constant(self.default_samples), tf.constant(0)

        def sample(image, num_samples=number, seed=zero):
            return call("sample", image, num_samples, seed)

        def stratified(image, num_samples=number, seed=zero):
            return call("stratified", image, num_samples, seed)

        def weighted(image, num_samples=number, seed=zero):
            return call("weighted", image, num_samples, seed)

        def mean(image, num_samples=number, seed=zero):
            return call("mean", image, num_samples, seed)

        def prior(image):
            return call("prior", image)

        def posterior(image, labels):
            return call("posterior", image, labels)

        def stratified_latents(image, num_samples=number, seed=zero):
            return call("stratified_latents", image, num_samples, seed)

        def decode(image, z):
            return call("decode", image, z)

        def features(image):
            return call("features", image)

        def log_likelihood(image, labels, num_samples=number, seed=zero):
            return call("log_likelihood", image, labels, num_samples, seed)

        functions = {
            "sample": _function(sample, image, count, seed),
            "mean": _function(mean, image, count, seed),
        }
        if "stratified" in self.model.samplings:
            functions["stratified"] = _function(stratified, image, count, seed)
        if self.model.has_weights:
            functions["weighted"] = _function(weighted, image, count, seed)
        if isinstance(self.model, ProbUNet):
            z = tf.TensorSpec([None, None, self.model.num_latents], tf.float32, "z")
            functions.update(
                prior=_function(prior, image),
                posterior=_function(posterior, image, labels),
                stratified_latents=_function(stratified_latents, image, count, seed),
                decode=_function(decode, image, z),
                log_likelihood=_function(log_likelihood, image, labels, count, seed),
            )
            if config.injection == "end":
                functions["features"] = _function(features, image)
        return functions

    def _sample(self, image, num_samples, seed, **sampling):
        image = self._checked_image(image)
        num_samples, image_seeds = _checked_draw(image, num_samples, seed)
        return segmentations(
            self.model.sample(image, num_samples, image_seeds, **sampling)
        )

    def _stratified(self, image, num_samples, seed):
        return self._sample(image, num_samples, seed, sampling="stratified")

    def _weighted(self, image, num_samples, seed):
        """Samples, and their weights [B, S]."""
        image = self._checked_image(image)
        num_samples, image_seeds = _checked_draw(image, num_samples, seed)
        logits, weights = self.model.weighted(image, num_samples, image_seeds)
        return {**segmentations(logits), "weights": weights}

    def _mean(self, image, num_samples, seed):
        """Mean and entropy over samples, and one segmentation to represent them."""
        image = self._checked_image(image)
        num_samples, image_seeds = _checked_draw(image, num_samples, seed)
        if isinstance(self.model, ProbUNet):
            # The prior's mean is decoded with the samples, so the U-Net runs once.
            prior = self.model.prior(image)
            z = self.model.sample_latents(prior, num_samples, image_seeds)
            z = tf.concat([latent.centre(prior)[:, None], z], axis=1)  # [B, 1 + S, L]
            decoded = segmentations(
                self.model.decode_in_chunks(self.model.features(image), z)
            )
            mean = tf.reduce_mean(decoded["probabilities"][:, 1:], axis=1)
            labels = decoded["labels"][:, 0]
        else:
            samples = segmentations(self.model.sample(image, num_samples, image_seeds))
            mean = tf.reduce_mean(samples["probabilities"], axis=1)  # [B, H, W, K]
            labels = tf.argmax(mean, -1, tf.int32)
        entropy = -tf.reduce_sum(tf.math.xlogy(mean, mean), axis=-1)  # [B, H, W]
        return {"mean": mean, "entropy": entropy, "labels": labels}

    def _prior(self, image):
        """Mean and standard deviation, and the components if it is a mixture."""
        prior = self.model.prior(self._checked_image(image))
        if not latent.is_mixture(prior):
            return _moments(prior)
        parts = _moments(prior.components_distribution)
        return {
            **_moments(prior),
            "component_weights": latent.mixture_weights(prior),
            "component_means": parts["mean"],
            "component_stddevs": parts["stddev"],
        }

    def _posterior(self, image, labels):
        image = self._checked_image(image)
        labels = self._checked_labels(image, labels)
        return _moments(self.model.posterior(image=image, labels=labels))

    def _stratified_latents(self, image, num_samples, seed):
        """The latents of the samples that `stratified` gives."""
        image = self._checked_image(image)
        num_samples, image_seeds = _checked_draw(image, num_samples, seed)
        z = self.model.stratified_latents(
            self.model.features(image),
            self.model.prior(image),
            num_samples,
            image_seeds,
        )
        return {"z": z}

    def _decode(self, image, z):
        image = self._checked_image(image)
        z = _checked_latents(image, z)
        return segmentations(self.model.decode_in_chunks(self.model.features(image), z))

    def _features(self, image):
        """The U-Net's last feature map, which f_comb joins with a latent."""
        return {"features": self.model.features(self._checked_image(image))}

    def _log_likelihood(self, image, labels, num_samples, seed):
        image = self._checked_image(image)
        labels = self._checked_labels(image, labels)
        num_samples, image_seeds = _checked_draw(image, num_samples, seed)
        nats = self.model.log_likelihood(
            image=image, labels=labels, num_samples=num_samples, seed=image_seeds
        )
        return {"log_likelihood": nats}

    def _checked_frame(self, image: tf.Tensor) -> tf.Tensor:
        """Checks that frames are no smaller than what the network sees."""
        size = tf.shape(image)[1:3]
        message = tf.strings.format(
            f"image is {{}} x {{}}, expected at least {self.sees} x {self.sees}, of "
            "which the network sees the middle",
            tf.unstack(size),
        )
        return _checked(image, (tf.reduce_all(size >= self.sees), message))

    def _checked_image(self, image: tf.Tensor) -> tf.Tensor:
        """Checks that there are images, and their size and values."""
        divisor = self.model.config.size_divisor
        size = tf.shape(image)[1:3]
        smaller = tf.maximum(size // divisor, 1) * divisor
        larger = tf.maximum(-(-size // divisor), 1) * divisor
        size_message = tf.strings.format(
            "image is {} x {}, expected a height and a width that are multiples of "
            f"{divisor}; the nearest are {{}} x {{}} and {{}} x {{}}",
            [*tf.unstack(size), *tf.unstack(smaller), *tf.unstack(larger)],
        )
        low, high = tf.reduce_min(image), tf.reduce_max(image)
        range_message = tf.strings.format(
            f"image has values from {{}} to {{}}, expected 0 to 1: {self._values}",
            [low, high],
        )
        return _checked(
            image,
            (tf.shape(image)[0] > 0, "there is no image in the batch"),
            (tf.reduce_all(tf.equal(size, larger)), size_message),
            (
                tf.reduce_all(tf.math.is_finite(image)),
                "image has values that are not finite",
            ),
            ((low >= -_TOLERANCE) & (high <= 1 + _TOLERANCE), range_message),
        )

    def _checked_labels(self, image: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Checks that each pixel has the label of a class."""
        config = self.model.config
        fits = tf.reduce_all(tf.equal(tf.shape(labels), tf.shape(image)[:3]))
        message = tf.strings.format(
            "labels have the shape {}, expected {}, that of the images",
            [tf.shape(labels), tf.shape(image)[:3]],
        )
        known = (labels >= 0) & (labels < config.num_classes)
        expected = f"0 to {config.num_classes - 1}"
        if config.ignore_label is not None:
            known |= labels == config.ignore_label
            expected += f" or {config.ignore_label}"
        return _checked(
            labels,
            (fits, message),
            (tf.reduce_all(known), f"labels have values other than {expected}"),
        )


def image_seeds(seed: tf.Tensor, batch_size: tf.Tensor) -> tf.Tensor:
    """Returns a seed int32[B, 2] for each image.

    Args:
        seed: one number for the batch, from which each image gets its own by its
            position; or [B] numbers, one for each image.
        batch_size: B.
    """
    given = tf.reshape(seed, [-1])
    shared = tf.equal(tf.size(given), 1)
    places = tf.where(shared, tf.range(batch_size), tf.zeros([batch_size], tf.int32))
    numbers = tf.broadcast_to(given, [batch_size])
    return tf.map_fn(
        lambda pair: seeds.fold_in(seeds.root(pair[0]), pair[1]),
        (numbers, places),
        fn_output_signature=tf.TensorSpec([2], tf.int32),
    )


def segmentations(logits: tf.Tensor) -> Outputs:
    """Returns labels [B, S, H, W] and probabilities [B, S, H, W, K] of logits."""
    if logits.shape[-1] == 2:
        # The softmax of two classes is a sigmoid. Reductions over such a short axis
        # would take as long as f_comb itself.
        difference = logits - tf.reverse(logits, [-1])
        return {
            "labels": tf.cast(difference[..., 1] > 0, tf.int32),
            "probabilities": tf.sigmoid(difference),
        }
    return {
        "labels": tf.argmax(logits, -1, tf.int32),
        "probabilities": tf.nn.softmax(logits),
    }


def _middle(maps: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts the middle [B, size, size, ...] out of [B, H, W, ...]."""
    top, left = tf.unstack((tf.shape(maps)[1:3] - size) // 2)
    return maps[:, top : top + size, left : left + size]


def _framed(name: str, maps: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
    """Puts maps into the middle of the frame; the rest is certain background.

    Args:
        name: of the output; "labels" and "entropy" have no axis of classes.
        maps: [..., h, w], or [..., h, w, K].
        image: the frame [B, H, W, C].
    """
    has_classes = name not in ("labels", "entropy")
    axis = maps.shape.rank - (3 if has_classes else 2)
    missing = tf.shape(image)[1:3] - tf.shape(maps)[axis : axis + 2]
    before = missing // 2
    sides = tf.stack([before, missing - before], axis=1)  # [2, 2]
    paddings = tf.pad(sides, [[axis, int(has_classes)], [0, 0]])
    if not has_classes:
        return tf.pad(maps, paddings)
    # Padding by a constant per class leaves the values of the middle as they are.
    background = tf.pad(maps[..., :1], paddings, constant_values=1)
    return tf.concat([background, tf.pad(maps[..., 1:], paddings)], axis=-1)


def _function(function: Callable[..., Outputs], *specs: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=specs)


def _moments(distribution: Any) -> Outputs:
    return {"mean": distribution.mean(), "stddev": distribution.stddev()}


def _checked(
    tensor: tf.Tensor, *checks: tuple[tf.Tensor, str | tf.Tensor]
) -> tf.Tensor:
    """Returns the tensor if all conditions hold, and fails with a message otherwise."""
    for condition, message in checks:
        check = tf.debugging.Assert(condition, [message])
        with tf.control_dependencies([check]):
            tensor = tf.identity(tensor)
    return tensor


def _checked_draw(
    image: tf.Tensor, num_samples: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Checks the number of samples and returns it with a seed for each image."""
    batch_size, given = tf.shape(image)[0], tf.size(seed)
    message = tf.strings.format("num_samples is {}, expected at least 1", [num_samples])
    num_samples = _checked(num_samples, (num_samples >= 1, message))
    message = tf.strings.format(
        "{} seeds for {} images, expected one for all or one for each",
        [given, batch_size],
    )
    seed = _checked(seed, (tf.equal(given, 1) | tf.equal(given, batch_size), message))
    return num_samples, image_seeds(seed, batch_size)


def _checked_latents(image: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    """Checks that there are latents for each image, and that they are finite."""
    fits = tf.equal(tf.shape(z)[0], tf.shape(image)[0]) & (tf.shape(z)[1] > 0)
    message = tf.strings.format(
        "z has the shape {} for {} images, expected [images, samples, dimensions]",
        [tf.shape(z), tf.shape(image)[0]],
    )
    finite = tf.reduce_all(tf.math.is_finite(z))
    return _checked(z, (fits, message), (finite, "z has values that are not finite"))
