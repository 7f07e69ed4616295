"""The trainings of `bench_switches.py`, which import TensorFlow."""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_probunet import noise, seeds
from tf_probunet.dataset import cityscapes_labels as table
from tf_probunet.evaluation.metrics import switched_calibration, switched_modes
from tf_probunet.models import losses
from tf_probunet.models.blocks import Initializers
from tf_probunet.models.f_comb import FComb

BATCH, PIXELS, FEATURES, LATENTS, SAMPLES = 4, 96, 12, 6, 16
# About the class frequencies of the street phantom.
FREQUENCIES = np.array(
    [34, 6.5, 33, 0.5, 0.4, 0.5, 0.2, 0.2, 11, 0.6, 9, 0.9, 0.1, 2.4, 0.1, 0.1, 0.1]
    + [0.1, 0.1]
)


@dataclasses.dataclass
class Settings:
    """A training: weights of the terms beside a segmentation weight of 1."""

    energy: float
    modes: float
    stddev: float


ROWS = (
    Settings(energy=3000, modes=0, stddev=1),
    Settings(energy=3000, modes=0, stddev=3),
    Settings(energy=3000, modes=1000, stddev=1),
    Settings(energy=3000, modes=1000, stddev=3),
    Settings(energy=3000, modes=1000, stddev=6),
)


class Streets:
    """Made-up images of one row of pixels, all with the five switchable classes."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shape = (table.NUM_TRAIN_CLASSES, FEATURES)
        self._names = tf.constant(rng.normal(size=shape), tf.float32)
        self._log_frequencies = tf.constant(np.log(FREQUENCIES)[None], tf.float32)
        self._always = [switch.class_id for switch in table.SWITCHES] * 2

    def draw(self, seed: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns features [B, 1, P, F] and labels [B, 1, P]."""
        which, rough = seeds.split(seed, 2)
        free = count * (PIXELS - len(self._always))
        labels = tf.random.stateless_categorical(self._log_frequencies, free, which)
        labels = tf.cast(tf.reshape(labels, [count, -1]), tf.int32)
        labels = tf.concat([labels, tf.tile([self._always], [count, 1])], axis=1)
        features = tf.gather(self._names, labels)
        features += 0.3 * tf.random.stateless_normal(tf.shape(features), rough)
        return features[:, None], labels[:, None]


def train(settings: Settings, steps: int, seed: int) -> dict[str, float]:
    """Trains f_comb and scores 16 samples of each of 250 images."""
    streets, root = Streets(seed), seeds.root(seed)
    f_comb = FComb(24, table.NUM_CLASSES, LATENTS, Initializers("he_normal", seed))
    rate = tf.keras.optimizers.schedules.CosineDecay(2e-3, steps, 0.02)
    optimizer = tf.keras.optimizers.Adam(rate)
    weight = 8192 / PIXELS  # A pixel stands for this many of a picture.

    def samples(features: tf.Tensor, kind: str, count: int, seed: tf.Tensor):
        image_seeds = seeds.per_image(seed, tf.shape(features)[0])
        z = noise.NOISES[kind](image_seeds, count, LATENTS)
        return f_comb(features, settings.stddev * z)

    @tf.function
    def step(i: tf.Tensor) -> None:
        drawn, noises = seeds.split(seeds.fold_in(root, i), 2)
        features, labels = streets.draw(drawn, BATCH)
        with tf.GradientTape() as tape:
            logits = samples(features, "stratified", 8, noises)
            maps = {"probabilities": tf.nn.softmax(logits), "labels": labels}
            distances = losses.switched_energy_distance(epsilon=5 / weight, **maps)
            nats = losses.cross_entropy(
                logits=losses.unswitched_logits(logits),
                labels=tf.repeat(labels[:, None], 8, axis=1),
            )
            loss = settings.energy * tf.reduce_mean(distances)
            divergence = losses.mode_divergence(**maps)
            loss += settings.modes * (divergence + losses.undecided_switches(**maps))
            loss += weight * tf.reduce_mean(nats)
        weights = f_comb.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

    @tf.function
    def scored(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seed = seeds.fold_in(root, -1 - i)
        features, labels = streets.draw(seed, 1)
        maps = tf.argmax(samples(features, "independent", SAMPLES, seed), axis=-1)
        return maps[0], labels[0]

    for i in range(steps):
        step(tf.constant(i, tf.int64))
    scores = []
    for i in range(250):
        maps, labels = scored(tf.constant(i, tf.int64))
        scores.append(
            switched_modes.score_image(
                maps.numpy(), labels.numpy(), sample_counts=[SAMPLES]
            )
        )
    found = switched_calibration.mode_calibration(sum(s.mode_counts for s in scores))
    return {
        "ged": float(np.mean([s.energy_distances[SAMPLES] for s in scores])),
        "floor": float(np.mean([s.floors[SAMPLES] for s in scores])),
        "kl": found.kl_divergence,
        "ratio": found.largest_ratio,
    }
