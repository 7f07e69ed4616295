"""Writes small results directories, as an evaluation of made-up models would."""

from __future__ import annotations

import pathlib

import numpy as np

from tf_probunet.artifacts import results_dir
from tf_probunet.dataset.cityscapes_labels import (
    IGNORE_LABEL,
    MODE_PROBABILITIES,
    switch_table,
)
from tf_probunet.evaluation import scoring, summary

COUNTS = (1, 4, 8, 16)
NUM_GRADERS = 4


def write(
    directory, numbers, per_image, *, counts=COUNTS, samples=None, **changes
) -> pathlib.Path:
    """Writes results, with the sections that all results have.

    Args:
        directory: made if need be.
        numbers: of `results.json`, without those sections.
        per_image: the arrays of `per_image.npz`, without `counts`.
        counts: numbers of samples.
        samples: the arrays of `samples.npz`.
        **changes: of the sections, as `protocol__statistic="u"`.
    """
    directory = pathlib.Path(directory)
    sections = {
        "protocol": {
            "image_size": [4, 4],
            "statistic": "v",
            "both_empty": "zero",
            "num_samples": list(counts),
            "limit": 0,
        },
        "data": {
            "name": "made up",
            "fingerprint": "0123456789abcdef",
            "split": "test",
            "images": len(per_image["keys"]),
            "groups": len(per_image["keys"]),
            "graders": NUM_GRADERS,
        },
        "model": {
            "name": directory.name,
            "source": "saved_model",
            "path": "somewhere",
            "fingerprint": "fedcba9876543210",
            "parameters": 1_234_567,
        },
    }
    for place, value in changes.items():
        section, setting = place.split("__")
        sections[section][setting] = value
    results_dir.write(
        directory,
        {**numbers, **sections, "command": "python run/evaluate.py"},
        per_image={**per_image, "counts": np.array(counts)},
        samples=samples or {},
        markdown="",
        csv="",
    )
    return directory


def lesions(num_images: int, seed: int = 0, size: int = 48, spread: float = 0.25):
    """Draws images [N, H, W, 1], graders [N, 4, H, W] and samples [N, 16, H, W].

    A smaller `spread` makes samples more alike than graders are.
    """
    rng = np.random.default_rng([seed, 1])
    truth = np.random.default_rng(0)
    rows, cols = np.indices((size, size))
    images, graders, samples = [], [], []
    for _ in range(num_images):
        centre = truth.uniform(0.4, 0.6, 2) * size
        radius = truth.uniform(0.1, 0.22) * size
        present = truth.choice([0.4, 0.7, 1.0])
        angle = np.arctan2(rows - centre[0], cols - centre[1])
        away = np.hypot(rows - centre[0], cols - centre[1])
        lobes = 1 + 0.25 * np.sin(3 * angle + truth.uniform(0, 6))
        noise = truth.normal(0, 0.05, (size, size))
        images.append(0.2 + 0.5 / (1 + np.exp((away - radius * lobes) / 2)) + noise)

        def masks(number, generator, width, away=away, lobes=lobes, radius=radius):
            scales = np.exp(generator.normal(0, width, number))
            here = generator.random(number) < present  # noqa: B023
            inside = away < scales[:, None, None] * radius * lobes
            return (inside & here[:, None, None]).astype(np.uint8)

        graders.append(masks(NUM_GRADERS, truth, 0.25))
        samples.append(masks(max(COUNTS), rng, spread))
    images = np.clip(images, 0, 1).astype(np.float32)[..., None]
    return images, np.stack(graders), np.stack(samples)


def write_lesion_results(
    directory, *, num_images: int = 40, seed: int = 0, spread: float = 0.25, saved=6
) -> pathlib.Path:
    """Writes the results of a model on lesions."""
    images, graders, samples = lesions(num_images, seed, spread=spread)
    rules = scoring.Rules(kind="binary", counts=COUNTS)
    return _write(directory, rules, images, graders, samples, saved)


def street_scene(seed: int, height: int = 32, width: int = 64) -> np.ndarray:
    """Draws a label map [H, W] of the 19 classes, with all five that switch."""
    rng = np.random.default_rng([seed, 2])
    labels = np.full((height, width), 10, np.uint8)  # Sky
    horizon = int(rng.integers(height // 3, height // 2))
    labels[horizon - 6 : horizon, : width // 3] = 8  # Vegetation
    labels[horizon - 8 : horizon, width // 3 :] = 2  # Building
    labels[horizon:] = 1  # Sidewalk
    middle = int(rng.integers(width // 4, 3 * width // 4))
    for row in range(horizon, height):
        half = 4 + (row - horizon)
        labels[row, max(0, middle - half) : middle + half] = 0  # Road
    labels[horizon + 2 : horizon + 8, middle - 5 : middle + 4] = 13  # Car
    labels[horizon - 2 : horizon + 6, 4:8] = 11  # Person
    labels[-3:] = 255
    return labels


def write_street_results(
    directory,
    *,
    num_images: int = 12,
    seed: int = 0,
    sharpness: float = 1.0,
    blind: bool = False,
    saved=4,
) -> pathlib.Path:
    """Writes the results of a model on street scenes; sharpness 1 is calibrated.

    A blind model draws nothing but buildings.
    """
    rng = np.random.default_rng([seed, 3])
    shares = MODE_PROBABILITIES**sharpness
    images, graders, samples = [], [], []
    for n in range(num_images):
        labels = street_scene(n)
        modes = rng.choice(len(shares), max(COUNTS), p=shares / shares.sum())
        drawn = np.stack([switch_table(mode)[labels] for mode in modes])
        drawn[drawn == IGNORE_LABEL] = 0
        drawn[rng.random(drawn.shape) < 0.01] = 4
        if blind:
            drawn[:] = 2
        colours = np.sin(labels[..., None] * np.array([1.0, 2.0, 3.0])) ** 2
        images.append((0.3 + 0.5 * colours).astype(np.float32))
        graders.append(labels[None])
        samples.append(drawn)
    rules = scoring.Rules(
        kind="switched", counts=COUNTS, num_classes=19, ignore_label=IGNORE_LABEL
    )
    stacks = (np.stack(images), np.stack(graders), np.stack(samples))
    return _write(directory, rules, *stacks, saved)


def _write(directory, rules, images, graders, samples, saved) -> pathlib.Path:
    keys = np.array([f"image-{n:03d}" for n in range(len(images))])
    arrays = scoring.score(rules, samples, graders, keys=keys)
    arrays.update(keys=keys, groups=keys)
    numbers = summary.summarise(arrays, rules, num_graders=graders.shape[1])
    if rules.kind == "switched":
        arrays["pixel_counts"] = arrays["pixel_counts"].sum(axis=0)
    kept = {"keys": keys, "images": images, "graders": graders, "samples": samples}
    return write(
        directory,
        numbers,
        arrays,
        samples={name: entries[:saved] for name, entries in kept.items()},
        data__graders=graders.shape[1],
    )
