"""The terms of the objectives, as functions of distributions and logits."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


def cross_entropy(
    *, logits: tf.Tensor, labels: tf.Tensor, ignore_label: int | None = None
) -> tf.Tensor:
    """Returns -log P_c(Y | S), summed over pixels (the first term of Eq. 4).

    Args:
        logits: [..., H, W, K] float32.
        labels: [..., H, W] int32.
        ignore_label: pixels of this label do not count.

    Returns:
        [...], in nats per image.
    """
    if ignore_label is not None:
        counts = tf.cast(labels != ignore_label, logits.dtype)
        labels = tf.where(labels == ignore_label, 0, labels)
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if ignore_label is not None:
        nats *= counts
    return tf.reduce_sum(nats, axis=[-2, -1])


def kl_per_dimension(
    posterior: tfd.MultivariateNormalDiag, prior: tfd.MultivariateNormalDiag
) -> tf.Tensor:
    """Returns KL(Q || P) of each latent dimension; the sum is the KL of Eq. 4.

    Returns:
        [..., L], in nats.
    """
    return tfd.kl_divergence(
        tfd.Normal(posterior.mean(), posterior.stddev()),
        tfd.Normal(prior.mean(), prior.stddev()),
    )


def negative_elbo(
    *,
    nats: tf.Tensor,
    posterior: tfd.MultivariateNormalDiag,
    prior: tfd.MultivariateNormalDiag,
    beta: float | tf.Tensor,
    free_bits: float = 0.0,
) -> dict[str, tf.Tensor]:
    """Combines cross-entropy and analytic KL(Q || P) to the loss of Eq. 4.

    With free bits (Kingma et al., 2016), a latent dimension whose divergence, averaged
    over the batch, is below that many nats costs as much as if it were not: there is
    nothing to gain from giving it up.

    Args:
        nats: [B] cross-entropy of each image under a sample from the posterior.
        posterior: Q(z | X, Y), batch [B].
        prior: P(z | X), batch [B].
        beta: weight of the KL divergence.
        free_bits: nats per latent dimension that cost nothing more than 0 would.

    Returns:
        Scalars, averaged over the batch: `loss`, `cross_entropy`, `kl`, and the share
        of each dimension in it, `kl_0`, `kl_1` and so on.
    """
    reconstruction = tf.reduce_mean(nats)
    per_dimension = tf.reduce_mean(kl_per_dimension(posterior, prior), axis=0)  # [L]
    cost = tf.reduce_sum(tf.maximum(per_dimension, free_bits))
    terms = {
        "loss": reconstruction + beta * cost,
        "cross_entropy": reconstruction,
        "kl": tf.reduce_sum(per_dimension),
    }
    return {
        **terms,
        **{f"kl_{i}": kl for i, kl in enumerate(tf.unstack(per_dimension))},
    }


def best_head(nats: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the loss of M heads: 1 - epsilon on the best, the rest on the others.

    Args:
        nats: [B, M] cross-entropy of each head.
        epsilon: weight that the M - 1 other heads share.

    Returns:
        [B].
    """
    num_heads = nats.shape[1]
    if num_heads == 1:
        return nats[:, 0]
    best = tf.one_hot(tf.argmin(nats, axis=1), num_heads, dtype=nats.dtype)  # [B, M]
    weights = best * (1.0 - epsilon) + (1.0 - best) * epsilon / (num_heads - 1)
    return tf.reduce_sum(weights * nats, axis=1)


def importance_log_likelihood(
    *, log_p_y: tf.Tensor, log_p_z: tf.Tensor, log_q_z: tf.Tensor
) -> tf.Tensor:
    """Estimates log p(Y | X) from latents drawn from the posterior.

        log p(Y|X) ~ log 1/N sum_n P_c(Y | S(X, z_n)) P(z_n | X) / Q(z_n | X, Y)

    Args:
        log_p_y: [B, N], log P_c(Y | S(X, z_n)).
        log_p_z: [B, N], under the prior.
        log_q_z: [B, N], under the posterior.

    Returns:
        [B], in nats. Never above the truth in expectation.
    """
    log_weights = log_p_y + log_p_z - log_q_z
    count = tf.cast(tf.shape(log_weights)[1], log_weights.dtype)
    return tf.reduce_logsumexp(log_weights, axis=1) - tf.math.log(count)


def energy_distance(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    epsilon: float = 1e-3,
    overlap: str = "product",
) -> tf.Tensor:
    """Returns the squared energy distance between soft samples and graders.

        2 mean d(s_i, y_j) - mean d(s_i, s_k) - mean d(y_j, y_l)

    over all pairs, as `evaluation.ged.energy_distance` scores label maps, and equal to
    it up to `epsilon` where all probabilities are 0 or 1. The distance is 1 - IoU,
    averaged over the foreground classes that either map has, with a soft intersection
    I and a soft union U of probabilities. With one foreground class it is

        d = 1 - (I + epsilon) / (U + epsilon)

    Args:
        probabilities: [B, S, H, W, K] of each sample.
        labels: [B, G, H, W] int32.
        ignore_label: pixels that any grader gave this label do not count.
        epsilon: pixels; two maps with much fewer are at distance 0.
        overlap: the soft intersection of two samples. "product" sums the products of
            their probabilities, as if pixels were drawn independently, so that a soft
            sample is not at distance 0 from itself; "min" sums the lesser of the two
            probabilities, and rewards no softness. With a grader the two are the same.

    Returns:
        [B].
    """
    num_classes = probabilities.shape[-1]
    samples = probabilities[..., 1:]
    graders = tf.one_hot(labels - 1, num_classes - 1, dtype=samples.dtype)
    if ignore_label is not None:
        counts = tf.reduce_all(labels != ignore_label, axis=1)  # [B, H, W]
        counts = tf.cast(counts, samples.dtype)[:, None, ..., None]
        samples, graders = samples * counts, graders * counts
    cross = _products(samples, graders, epsilon)
    among_graders = _products(graders, graders, epsilon)
    if overlap == "product":
        among_samples = _products(samples, samples, epsilon)
    else:
        among_samples = _minima(samples, epsilon)
    return 2.0 * cross - among_samples - among_graders


def _products(first: tf.Tensor, second: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the mean distance [B] of all pairs; intersections are products."""
    shared = tf.einsum("bshwk,bghwk->bsgk", first, second)
    areas = (tf.reduce_sum(maps, axis=[2, 3]) for maps in (first, second))  # [B, ., K]
    first_areas, second_areas = areas
    together = first_areas[:, :, None] + second_areas[:, None]
    return tf.reduce_mean(_distance(shared, together, epsilon), axis=[1, 2])


def _minima(samples: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the mean distance [B] of all pairs of samples by their minima."""
    num_samples = samples.shape[1]
    areas = tf.reduce_sum(samples, axis=[2, 3])  # [B, S, K]
    total = tf.zeros(tf.shape(samples)[:1], samples.dtype)
    # Pairs by how far apart they stand; those of n - d are those of d once more.
    for shift in range(1, num_samples // 2 + 1):
        shared = tf.minimum(samples, tf.roll(samples, shift, axis=1))
        distances = _distance(
            tf.reduce_sum(shared, axis=[2, 3]),
            areas + tf.roll(areas, shift, axis=1),
            epsilon,
        )
        times = 1.0 if 2 * shift == num_samples else 2.0
        total += times * tf.reduce_mean(distances, axis=1)
    return total / num_samples


def _distance(shared: tf.Tensor, together: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the distance [...] for intersections and sums of areas [..., K]."""
    union = together - shared
    distances = (union - shared) / (union + epsilon)
    # How many classes there are. One that is in neither map is at distance 0 as it is.
    present = tf.reduce_sum(union / (union + epsilon), axis=-1)
    return tf.reduce_sum(distances, axis=-1) / tf.maximum(present, 1.0)
