"""Whole evaluations of made-up models on a handful of lesions."""

from __future__ import annotations

import numpy as np
from helpers import datasets

from tf_probunet.dataset import records
from tf_probunet.evaluation import evaluate

SIZE = datasets.SIZE
SQUARE = np.zeros((SIZE, SIZE), np.uint8)
SQUARE[2:5, 2:5] = 1
SURE, DOUBTFUL = 255, 153
FEW_GROUPS = (
    "there are 3 groups, fewer than 10: the intervals resample images, and say nothing "
    "about other groups"
)


def lesion(index: int, shade: int) -> records.Example:
    """A square that one grader marks if it is doubtful, both if it is sure."""
    second = SQUARE if shade == SURE else np.zeros_like(SQUARE)
    return datasets.example(
        index,
        group=f"patient-{index // 2}",
        image=(SQUARE * shade)[..., None].astype(np.uint8),
        labels=np.stack([SQUARE, second]),
    )


def alternate(image, num_samples, seed):
    """Samples: a sure lesion always, a doubtful one every other time."""
    import tensorflow as tf

    del seed
    even = tf.range(num_samples) % 2 == 0
    present = even[None] | (tf.reduce_max(image, [1, 2, 3]) > 0.9)[:, None]
    return (image[:, None, :, :, 0] > 0.1) & present[:, :, None, None]


def run(out_dir, data_dir, *, validation_split="", **settings):
    config = evaluate.EvaluationConfig(
        data_dir=str(data_dir),
        out_dir=str(out_dir),
        validation_split=validation_split,
        **settings,
    )
    return evaluate.evaluate(config)


def means(by_count):
    return {count: value["mean"] for count, value in by_count.items()}


def numbers(results):
    """Results without what tells two calls apart."""
    return {k: v for k, v in results.items() if k != "command"}
