"""The terms of the objectives, as functions of distributions and logits."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tf_probunet.dataset import cityscapes_labels


def cross_entropy(
    *,
    logits: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    class_balance: float = 0.0,
    counted: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns -log P_c(Y | S), summed over pixels (the first term of Eq. 4).

    Args:
        logits: [..., H, W, K] float32.
        labels: [..., H, W] int32.
        ignore_label: pixels with this label do not count.
        class_balance: weigh a pixel by n^-class_balance, where n is how many of all
            these pixels have its label. The mean weight is 1.
        counted: [...] bool, the label maps whose pixels count; None for all.

    Returns:
        [...], in nats per image.
    """
    if ignore_label is not None:
        counts = tf.cast(labels != ignore_label, logits.dtype)
        labels = tf.where(labels == ignore_label, 0, labels)
    else:
        counts = tf.ones_like(labels, logits.dtype)
    if counted is not None:
        counts *= tf.cast(counted, logits.dtype)[..., None, None]
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if class_balance:
        frequencies = tf.math.bincount(
            tf.reshape(labels, [-1]),
            weights=tf.reshape(counts, [-1]),
            minlength=logits.shape[-1],
        )  # [K]
        weights = tf.maximum(frequencies, 1.0) ** -class_balance
        weights *= tf.reduce_sum(counts) / tf.maximum(
            tf.reduce_sum(weights * frequencies), 1.0
        )
        counts *= tf.gather(weights, labels)
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
    weights: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Combines cross-entropy and analytic KL(Q || P) into the loss of Eq. 4.

    Args:
        nats: [B] cross-entropy of each image under a sample from the posterior.
        posterior: Q(z | X, Y), batch [B].
        prior: P(z | X), batch [B].
        beta: weight of the KL divergence.
        weights: [B] that sum to one, for the averages; None for equal ones.

    Returns:
        Scalars, averaged over the batch: `loss`, `cross_entropy`, `kl`, and the parts
        of `kl` that belong to each latent dimension, `kl_0`, `kl_1` and so on.
    """
    kl = kl_per_dimension(posterior, prior)  # [B, L]
    per_dimension = tf.unstack(weighted_mean(kl, weights))
    return {
        **summed(nats=nats, kl=tf.reduce_sum(kl, axis=-1), beta=beta, weights=weights),
        **{f"kl_{i}": part for i, part in enumerate(per_dimension)},
    }


def summed(
    *,
    nats: tf.Tensor,
    kl: tf.Tensor,
    beta: float | tf.Tensor,
    weights: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Returns the loss of Eq. 4 and its terms from cross-entropy and KL, each [B]."""
    reconstruction, divergence = (weighted_mean(v, weights) for v in (nats, kl))
    return {
        "loss": reconstruction + beta * divergence,
        "cross_entropy": reconstruction,
        "kl": divergence,
    }


def monte_carlo_kl(
    *, posterior: tfd.Distribution, prior: tfd.Distribution, z: tf.Tensor
) -> tf.Tensor:
    """Estimates KL(Q || P) without a closed form, from draws of the posterior.

        KL ~ 1/N sum_n log Q(z_n) - log P(z_n)

    Args:
        posterior: Q, batch [B].
        prior: P, batch [B].
        z: [N, B, L], drawn from the posterior as functions of its parameters, so that
            the gradient is that of the KL divergence.

    Returns:
        [B], in nats. A single estimate may be below 0.
    """
    return tf.reduce_mean(posterior.log_prob(z) - prior.log_prob(z), axis=0)


def weighted_mean(values: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Averages [B, ...] over the first axis with weights [B] that sum to one."""
    if weights is None:
        return tf.reduce_mean(values, axis=0)
    return tf.tensordot(tf.cast(weights, values.dtype), values, axes=1)


def best_head(nats: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the loss of M heads, in which the best head has most of the weight.

    Args:
        nats: [B, M] cross-entropy of each head.
        epsilon: the weight that the M - 1 other heads share. The best has 1 - epsilon.

    Returns:
        [B].
    """
    num_heads = nats.shape[1]
    if num_heads == 1:
        return nats[:, 0]
    best = tf.one_hot(tf.argmin(nats, axis=1), num_heads, dtype=nats.dtype)  # [B, M]
    weights = best * (1.0 - epsilon) + (1.0 - best) * epsilon / (num_heads - 1)
    return tf.reduce_sum(weights * nats, axis=1)


def mixture_nats(nats: tf.Tensor) -> tf.Tensor:
    """Returns -log of the mean likelihood of M segmentations.

        -log 1/M sum_m exp(-nats_m) = log M - logsumexp_m(-nats_m)

    Args:
        nats: [..., M] cross-entropy of each segmentation.

    Returns:
        [...], in nats.
    """
    count = tf.cast(tf.shape(nats)[-1], nats.dtype)
    return tf.math.log(count) - tf.reduce_logsumexp(-nats, axis=-1)


def hardest_nats(
    *,
    logits: tf.Tensor,
    labels: tf.Tensor,
    share: float,
    seed: tf.Tensor,
    ignore_label: int | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the mean cross-entropy of pixels that are drawn among the hardest.

    Adding Gumbel noise to log(nats) and taking the largest draws pixels without
    replacement, with probabilities in proportion to their cross-entropy.

    Args:
        logits: [B, H, W, K].
        labels: [B, H, W].
        share: of the pixels to take. 1 takes all of them, and nothing is random.
        seed: int32[2].
        ignore_label: pixels with this label count as 0 nats.

    Returns:
        [B] in nats per pixel, and the number of pixels taken.
    """
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels if ignore_label is None else tf.where(labels == ignore_label, 0, labels),
        logits,
    )
    if ignore_label is not None:
        nats = tf.where(labels == ignore_label, 0.0, nats)
    nats = tf.reshape(nats, [tf.shape(nats)[0], -1])  # [B, H W]
    pixels = tf.shape(nats)[1]
    count = tf.cast(tf.math.ceil(share * tf.cast(pixels, tf.float32)), tf.int32)
    if share < 1.0:
        uniform = tf.random.stateless_uniform(tf.shape(nats), seed, minval=1e-7)
        gumbel = -tf.math.log(-tf.math.log(uniform))
        ranked = tf.math.log(tf.stop_gradient(nats) + 1e-20) + gumbel
        chosen = tf.math.top_k(ranked, count, sorted=False).indices
        nats = tf.gather(nats, chosen, batch_dims=1)
    return tf.reduce_mean(nats, axis=1), tf.cast(count, tf.float32)


def geco(
    *, constraint: tf.Tensor, average: tf.Tensor, multiplier: tf.Tensor, scale: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves the multiplier of a constraint, which should be at most 0, after a step.

        average    <- 0.99 average + 0.01 constraint
        multiplier <- multiplier exp(0.001 average / scale), within 0.001 to 1000

    It moves slowly: at the start of a training the constraint is many times its scale,
    and a multiplier that follows at once leaves the rest of the loss without a weight.

    Args:
        constraint: of the step.
        average: its moving average before the step.
        multiplier: before the step.
        scale: what the constraint is measured in.

    Returns:
        The average and the multiplier after the step.
    """
    average = 0.99 * average + 0.01 * constraint
    multiplier = multiplier * tf.exp(0.001 * average / scale)
    return average, tf.clip_by_value(multiplier, 1e-3, 1e3)


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
        [B], in nats. Its expectation is never above the true value.
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
    grader_mask: tf.Tensor | None = None,
    sample_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the squared energy distance between soft samples and graders.

        2 mean d(s_i, y_j) - mean d(s_i, s_k) - mean d(y_j, y_l)

    over all pairs. Where all probabilities are 0 or 1, this is the score of
    `evaluation.metrics.ged.energy_distance`, up to `epsilon`. The distance is 1 - IoU,
    averaged over the foreground classes of both maps, with a soft intersection I and a
    soft union U of probabilities. With one foreground class it is

        d = 1 - (I + epsilon) / (U + epsilon)

    Args:
        probabilities: [B, S, H, W, K], those of the samples.
        labels: [B, G, H, W] int32.
        ignore_label: pixels to which any grader gave this label do not count.
        epsilon: a number of pixels. Two maps with far fewer are at distance 0.
        overlap: the soft intersection of two samples. "product" sums the products of
            their probabilities, as if pixels were drawn independently. A soft sample
            then has a distance above 0 from itself. "min" sums the smaller of the two
            probabilities and does not reward soft samples. The intersection with a
            grader is the same in both cases.
        grader_mask: [B, G] bool, which of the label maps are a grader's; None for all.
            Each image has its own number of graders in all means.
        sample_weights: [B, S] with a sum of 1 for each image, for weighted means over
            the samples; None for equal weights.

    Returns:
        [B].
    """
    samples, graders = _foreground(probabilities, labels, ignore_label, grader_mask)
    weights = None if grader_mask is None else mask_weights(grader_mask, samples.dtype)
    cross = _products(samples, graders, epsilon, sample_weights, weights)
    among_graders = _products(graders, graders, epsilon, weights, weights)
    among_samples = _among_samples(samples, epsilon, overlap, sample_weights)
    return 2.0 * cross - among_samples - among_graders


def grader_distances(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    grader_mask: tf.Tensor | None = None,
    epsilon: float = 1e-3,
) -> tf.Tensor:
    """Returns 1 - soft IoU of each sample with each grader, [B, S, G].

    The arguments and the distance are those of `energy_distance`.
    """
    samples, graders = _foreground(probabilities, labels, ignore_label, grader_mask)
    return _pairs(samples, graders, epsilon)


def grader_nats(
    *, logits: tf.Tensor, labels: tf.Tensor, ignore_label: int | None = None
) -> tf.Tensor:
    """Returns the mean cross-entropy per pixel of samples and graders, [B, S, G].

    Args:
        logits: [B, S, H, W, K].
        labels: [B, G, H, W] int32.
        ignore_label: pixels with this label do not count.
    """
    num_classes = logits.shape[-1]
    counts = tf.ones_like(labels, logits.dtype)
    if ignore_label is not None:
        counts = tf.cast(labels != ignore_label, logits.dtype)
    truth = tf.one_hot(labels, num_classes, dtype=logits.dtype) * counts[..., None]
    nats = -tf.einsum("bshwk,bghwk->bsg", tf.nn.log_softmax(logits), truth)
    pixels = tf.reduce_sum(counts, axis=[2, 3])[:, None]  # [B, 1, G]
    return nats / tf.maximum(pixels, 1.0)


def greedy_coupling(
    costs: tf.Tensor, label_weights: tf.Tensor, capacity: tf.Tensor
) -> tf.Tensor:
    """Couples samples with graders, the cheapest pairs first.

    Each pair in turn gets as much as its grader still has and its sample can still
    take. With a capacity of 1, each grader goes to its nearest sample.

    Args:
        costs: [B, S, G].
        label_weights: [B, G] with a sum of 1 for each image: what the graders have.
        capacity: the most that a sample can take, at least 0.5. Scalar.

    Returns:
        The coupling [B, S, G] without a gradient. Its sum over the samples is
        `label_weights`, if there are enough samples.
    """
    num_samples, num_graders = costs.shape[1:]
    size = num_samples * num_graders
    flat = tf.reshape(tf.stop_gradient(costs), [-1, size])
    left = tf.cast(label_weights, costs.dtype)
    room = tf.fill(tf.shape(costs)[:2], tf.cast(capacity, costs.dtype))
    coupling = tf.zeros_like(flat)
    # Every round empties a grader or fills a sample, and at most two can be filled.
    for _ in range(num_graders + 2):
        amount = tf.minimum(room[:, :, None], left[:, None])  # [B, S, G]
        possible = tf.reshape(amount, [-1, size]) > 1e-6
        best = tf.argmin(tf.where(possible, flat, flat.dtype.max), axis=1)
        chosen = tf.one_hot(best, size, dtype=flat.dtype)
        moved = chosen * tf.reshape(amount, [-1, size])
        coupling += moved
        moved = tf.reshape(moved, [-1, num_samples, num_graders])
        room -= tf.reduce_sum(moved, axis=2)
        left -= tf.reduce_sum(moved, axis=1)
    return tf.reshape(coupling, [-1, num_samples, num_graders])


def _foreground(
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None,
    grader_mask: tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the foreground of samples and graders, 0 where pixels do not count."""
    num_classes = probabilities.shape[-1]
    samples = probabilities[..., 1:]
    graders = tf.one_hot(labels - 1, num_classes - 1, dtype=samples.dtype)
    if ignore_label is not None:
        counts = labels != ignore_label
        if grader_mask is not None:
            counts |= ~grader_mask[..., None, None]
        counts = tf.reduce_all(counts, axis=1)  # [B, H, W]
        counts = tf.cast(counts, samples.dtype)[:, None, ..., None]
        samples, graders = samples * counts, graders * counts
    return samples, graders


def mask_weights(mask: tf.Tensor, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Returns weights [B, G] that are equal where the mask holds and sum to one."""
    mask = tf.cast(mask, dtype)
    return mask / tf.reduce_sum(mask, axis=1, keepdims=True)


def switched_energy_distance(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    epsilon: float = 1e-3,
    overlap: str = "product",
    sample_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the squared energy distance between soft samples and the 32 modes.

    This is `energy_distance` for the switched task of Cityscapes: the graders are the
    32 modes with their probabilities, and the classes are the ten that a switch
    connects. A mode moves whole classes, so the distances of a sample to all modes
    follow from soft pixel counts per pair of classes. No mode is drawn. Where all
    probabilities are 0 or 1, this is `evaluation.metrics.switched_modes`'
    `energy_distance`, up to `epsilon`.

    Args:
        probabilities: [B, S, H, W, 24], those of the samples.
        labels: [B, H, W] int32, before or after the flips.
        ignore_label: pixels with this label do not count.
        epsilon: a number of pixels. A class with far fewer counts as absent.
        overlap: as in `energy_distance`.
        sample_weights: as in `energy_distance`.

    Returns:
        [B].
    """
    dtype = probabilities.dtype
    samples, sizes, hits = _switch_counts(probabilities, labels, ignore_label)
    areas = tf.reduce_sum(samples, axis=[2, 3])  # [B, S, 10]
    bits = tf.constant(cityscapes_labels.MODE_BITS, dtype)  # [32, 5]
    chosen = tf.concat([1.0 - bits, bits], axis=-1)  # [32, 10], the mode's classes
    cross = _distance(
        hits[:, :, None] * chosen,
        areas[:, :, None] + sizes[:, None] * chosen,
        epsilon,
    )  # [B, S, 32]
    among_modes = _distance(
        sizes[:, None] * (chosen[:, None] * chosen),
        sizes[:, None] * (chosen[:, None] + chosen),
        epsilon,
    )  # [B, 32, 32]
    weights = tf.constant(cityscapes_labels.MODE_PROBABILITIES, dtype)
    cross = tf.einsum("bsm,m->bs", cross, weights)
    if sample_weights is None:
        cross = tf.reduce_mean(cross, axis=1)
    else:
        cross = tf.reduce_sum(sample_weights * cross, axis=1)
    spread = tf.einsum("bmn,m,n->b", among_modes, weights, weights)
    among_samples = _among_samples(samples, epsilon, overlap, sample_weights)
    return 2.0 * cross - among_samples - spread


def presence_error(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    grader_mask: tf.Tensor | None = None,
    sample_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns (p - q)^2, of the shares of samples and graders that mark anything.

    A soft sample marks something with the largest probability of its pixels. This is
    the case for labels that are drawn with one random number for all pixels, as
    `outline_stddev` does.

    Args:
        probabilities: [B, S, H, W, K], those of the samples.
        labels: [B, G, H, W] int32.
        ignore_label: pixels to which any grader gave this label do not count.
        grader_mask: [B, G] bool, which of the label maps are a grader's; None for all.
        sample_weights: as in `energy_distance`.

    Returns:
        [B].
    """
    foreground, marked = 1.0 - probabilities[..., 0], labels > 0
    if ignore_label is not None:
        counted = tf.reduce_all(labels != ignore_label, axis=1, keepdims=True)
        foreground *= tf.cast(counted, foreground.dtype)
        marked &= counted
    weights = (
        None if grader_mask is None else mask_weights(grader_mask, foreground.dtype)
    )
    seen = tf.cast(tf.reduce_any(marked, axis=[2, 3]), foreground.dtype)
    largest = tf.reduce_max(foreground, axis=[2, 3])
    return tf.square(_mean(largest, sample_weights) - _mean(seen, weights))


def _mean(values: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Averages [B, N], with weights [B, N] if there are any: [B]."""
    if weights is None:
        return tf.reduce_mean(values, axis=1)
    return tf.reduce_sum(values * tf.cast(weights, values.dtype), axis=1)


def mode_divergence(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    epsilon: float = 1e-3,
    sharpness: float = 3.0,
    sample_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Estimates how far the samples' frequencies of the 32 modes are from the truth.

    This is Pearson's chi-squared divergence, sum_m (q_m - w_m)^2 / w_m, of the samples'
    frequencies q of the modes from their probabilities w. The flips are independent, so
    no mode needs to be counted. For each switch of probability p, let f be 1 if a
    sample flips it, 0 if not, and u = (f - p) / sqrt(p (1 - p)). The divergence is

        mean of prod_i (1 + u_i u'_i) over pairs of samples, minus 1,

    the sum of the squares of all moments of the u that are 0 for independent flips with
    the right probabilities. All pairs of different samples of the batch are taken. The
    estimate is unbiased for independent samples, and may be below 0.

    A soft sample gives some of the pixels of a class to the old class and some to the
    new one. Then f = new^k / (old^k + new^k), where k is the sharpness. Samples that
    all flip the same part of a class can have the right moments too: see
    `undecided_switches`.

    Args:
        probabilities: [B, S, H, W, 24], those of the samples.
        labels: [B, H, W] int32, before or after the flips. A pair counts for a switch
            if both images have its class.
        ignore_label: pixels with this label do not count.
        epsilon: a number of pixels. Half of it is added to the old and to the new ones.
        sharpness: with a larger one, f comes closer to what the larger part says.
        sample_weights: as in `energy_distance`.

    Returns:
        A scalar, 0 if there is only one sample.
    """
    u, present = _flips(probabilities, labels, ignore_label, epsilon, sharpness)
    u *= present
    pairs = tf.reduce_prod(1.0 + u[:, None] * u, axis=-1) - 1.0  # [B S, B S]
    shares = _pair_weights(u, sample_weights)
    return tf.math.divide_no_nan(tf.reduce_sum(shares * pairs), tf.reduce_sum(shares))


def undecided_switches(
    *,
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None = None,
    epsilon: float = 1e-3,
    sharpness: float = 3.0,
    sample_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the variance that the samples' flips lack.

    Samples that all flip the same part p of a class have a `mode_divergence` of 0, but
    their flips do not vary. With the numbers u of `mode_divergence`, this is

        sum_i (1 - v_i)^2,   v_i = mean of (u_i - u'_i)^2 / 2 over pairs of samples,

    where v, the variance of u, is 1 for whole flips with the right probability.

    Args:
        probabilities: this and all others as in `mode_divergence`.
        labels: of the images.
        ignore_label: pixels with this label do not count.
        epsilon: a number of pixels.
        sharpness: of the flips.
        sample_weights: [B, S], or None for equal weights.

    Returns:
        A scalar. A switch does not count if fewer than two samples show its class.
    """
    u, present = _flips(probabilities, labels, ignore_label, epsilon, sharpness)
    both = present[:, None] * present  # [B S, B S, 5]
    shares = _pair_weights(u, sample_weights)[..., None] * both
    total = tf.reduce_sum(shares, axis=[0, 1])  # [5]
    apart = tf.reduce_sum(shares * tf.square(u[:, None] - u) / 2, axis=[0, 1])
    missing = tf.square(1.0 - tf.math.divide_no_nan(apart, total))
    return tf.reduce_sum(tf.where(total > 0, missing, 0.0))


def _flips(
    probabilities: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int | None,
    epsilon: float,
    sharpness: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the u of `mode_divergence` for all samples of a batch.

    Returns:
        [B S, 5], and 1 where the image has the class of the switch, [B S, 5].
    """
    dtype, num_switches = probabilities.dtype, cityscapes_labels.NUM_SWITCHES
    _, sizes, hits = _switch_counts(probabilities, labels, ignore_label)
    old, new = tf.split(tf.math.log(hits + epsilon / 2), 2, axis=-1)  # [B, S, 5]
    share = tf.sigmoid(sharpness * (new - old))
    p = tf.constant([float(s.probability) for s in cityscapes_labels.SWITCHES], dtype)
    u = (share - p) / tf.sqrt(p * (1.0 - p))
    present = tf.cast(sizes[..., :num_switches] > 0, dtype) * tf.ones_like(u)
    flat = [-1, num_switches]
    return tf.reshape(u, flat), tf.reshape(present, flat)


def _pair_weights(u: tf.Tensor, sample_weights: tf.Tensor | None) -> tf.Tensor:
    """Returns the weights [N, N] of all pairs of different samples."""
    if sample_weights is None:
        weights = tf.ones_like(u[:, 0])
    else:
        weights = tf.reshape(sample_weights, [-1])
    shares = weights[:, None] * weights
    return tf.linalg.set_diag(shares, tf.zeros_like(weights))


def _switch_counts(
    probabilities: tf.Tensor, labels: tf.Tensor, ignore_label: int | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Counts pixels for the five old and then the five new classes of the switches.

    Returns:
        The samples' probabilities of the ten classes [B, S, H, W, 10], 0 on ignored
        pixels; the pixels of the old class in the labels [B, 1, 10]; and how much of
        them a sample gives to either class [B, S, 10].
    """
    switches = cityscapes_labels.SWITCHES
    old = [switch.class_id for switch in switches]
    new = [switch.new_class_id for switch in switches]
    samples = tf.gather(probabilities, old + new, axis=-1)  # [B, S, H, W, 10]
    if ignore_label is not None:
        counts = tf.cast(labels != ignore_label, samples.dtype)
        samples *= counts[:, None, ..., None]
    truth = tf.cast(unswitched(labels)[..., None] == old + old, samples.dtype)
    sizes = tf.reduce_sum(truth, axis=[1, 2])[:, None]
    hits = tf.reduce_sum(samples * truth[:, None], axis=[2, 3])
    return samples, sizes, hits


def unswitched(labels: tf.Tensor) -> tf.Tensor:
    """Returns label maps of the switched task before the flips."""
    for switch in cityscapes_labels.SWITCHES:
        labels = tf.where(labels == switch.new_class_id, switch.class_id, labels)
    return labels


def unswitched_logits(logits: tf.Tensor) -> tf.Tensor:
    """Returns logits [..., 19] that count each new class of a switch as its old one.

    Args:
        logits: [..., 24]. The probability of an old class is that of both classes.
    """
    num_classes = cityscapes_labels.NUM_TRAIN_CLASSES
    old, new = logits[..., :num_classes], logits[..., num_classes:]
    # One row per new class. Where there is none, softplus(-inf) adds nothing.
    places = [switch.class_id for switch in cityscapes_labels.SWITCHES]
    partner = [
        places.index(c) if c in places else len(places) for c in range(num_classes)
    ]
    none = tf.fill(tf.shape(logits[..., :1]), tf.constant(-1e9, logits.dtype))
    others = tf.gather(tf.concat([new, none], axis=-1), partner, axis=-1)
    return old + tf.nn.softplus(others - old)


def _among_samples(
    samples: tf.Tensor, epsilon: float, overlap: str, weights: tf.Tensor | None
) -> tf.Tensor:
    """Returns the mean distance [B] of all pairs of samples [B, S, H, W, K]."""
    if overlap == "product":
        return _products(samples, samples, epsilon, weights, weights)
    return _minima(samples, epsilon, weights)


def _products(
    first: tf.Tensor,
    second: tf.Tensor,
    epsilon: float,
    first_weights: tf.Tensor | None = None,
    second_weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the mean distance [B] of all pairs, with products as intersections.

    The weights [B, N] of the maps sum to one; None stands for equal weights.
    """
    distances = _pairs(first, second, epsilon)
    for weights in (first_weights, second_weights):  # Axis 1, and then what is left.
        if weights is None:
            distances = tf.reduce_mean(distances, axis=1)
        else:
            distances = tf.einsum("bn,bn...->b...", weights, distances)
    return distances


def _pairs(first: tf.Tensor, second: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the distances [B, S, G] of all pairs, with products as intersections."""
    shared = tf.einsum("bshwk,bghwk->bsgk", first, second)
    areas = (tf.reduce_sum(maps, axis=[2, 3]) for maps in (first, second))  # [B, ., K]
    first_areas, second_areas = areas
    together = first_areas[:, :, None] + second_areas[:, None]
    return _distance(shared, together, epsilon)


def _minima(
    samples: tf.Tensor, epsilon: float, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the mean distance [B] of all pairs, with minima as intersections."""
    num_samples = samples.shape[1]
    if weights is None:
        equal = tf.constant(1.0 / num_samples, samples.dtype)
        weights = tf.fill(tf.shape(samples)[:2], equal)
    areas = tf.reduce_sum(samples, axis=[2, 3])  # [B, S, K]
    total = tf.zeros(tf.shape(samples)[:1], samples.dtype)
    # Pairs (i, i + d) for each shift d. The shift n - d gives the pairs of d again.
    for shift in range(1, num_samples // 2 + 1):
        shared = tf.minimum(samples, tf.roll(samples, shift, axis=1))
        distances = _distance(
            tf.reduce_sum(shared, axis=[2, 3]),
            areas + tf.roll(areas, shift, axis=1),
            epsilon,
        )
        times = 1.0 if 2 * shift == num_samples else 2.0
        both = weights * tf.roll(weights, shift, axis=1)
        total += times * tf.reduce_sum(both * distances, axis=1)
    return total


def _distance(shared: tf.Tensor, together: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the distance [...] for intersections and sums of areas [..., K]."""
    union = together - shared
    distances = (union - shared) / (union + epsilon)
    # The number of classes in either map. A class in neither of them adds nothing.
    present = tf.reduce_sum(union / (union + epsilon), axis=-1)
    return tf.reduce_sum(distances, axis=-1) / tf.maximum(present, 1.0)
