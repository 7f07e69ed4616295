"""CT-like lesion images whose distribution over segmentations is known exactly.

A lesion has a core and a halo. The contrast of the core decides how probable it is that
a grader marks the lesion at all. The brightness of the halo decides how probable it is
that the mark includes the halo. Each grader draws the outline tight, on the edge, or
wide. The seven modes are: nothing, and {core, core with halo} x {tight, on the edge,
wide}.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.ndimage

from tf_probunet import files
from tf_probunet.config import PhantomConfig
from tf_probunet.dataset import records
from tf_probunet.preparation import runner

NUM_GRADERS = 4
OUTLINE_SHIFTS_PX = (-1.25, 0.0, 1.25)
OUTLINE_PROBS = (0.25, 0.5, 0.25)
NUM_MODES = 1 + 2 * len(OUTLINE_SHIFTS_PX)

# Hounsfield units of lung, of vessels and of the brightest lesion and halo.
_LUNG_HU, _VESSEL_HU, _LESION_HU, _HALO_HU = -850.0, -250.0, 50.0, -350.0
_SPLITS = ("train", "val", "test")
_IMAGES_PER_UNIT = 100


def prepare(
    config: PhantomConfig,
    out_dir: files.Path,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    num_preview: int = 0,
) -> dict[str, Any]:
    """Writes a phantom data set and returns the report of the preparation."""
    size = config.image_size
    spec = records.DatasetSpec(
        name="phantom",
        class_names=("background", "lesion"),
        image_shape=(size, size, 1),
        image_dtype="int16",
        intensity="hu",
        num_graders=NUM_GRADERS,
        num_modes=NUM_MODES,
        preparation=dataclasses.asdict(config),
    )
    units = []
    for split in _SPLITS:
        count = getattr(config, f"num_{split}")
        for start in range(0, count, _IMAGES_PER_UNIT):
            stop = min(start + _IMAGES_PER_UNIT, count)
            units.append(
                runner.Unit(f"{split} {start}-{stop}", (config, split, start, stop))
            )
    return runner.run(
        units,
        _process,
        spec=spec,
        out_dir=out_dir,
        splits=_SPLITS,
        num_workers=num_workers,
        overwrite=overwrite,
        num_preview=num_preview,
    )


def draw_example(config: PhantomConfig, split: str, index: int) -> records.Example:
    """Draws one example; the same arguments give the same example.

    As in LIDC, the data set has no image that no grader marks: image and graders are
    then drawn again. The stored mode probabilities take this into account.
    """
    attempt = 0
    while True:
        rng = np.random.default_rng([config.seed, _SPLITS.index(split), index, attempt])
        image, modes, probs = _draw_image(rng, config.image_size)
        graders = rng.choice(NUM_MODES, size=NUM_GRADERS, p=probs)
        if graders.any():  # mode 0 is "nothing"
            break
        attempt += 1
    key = f"{split}-{index:05d}"
    return records.Example(
        key=key,
        group=key,
        image=image,
        labels=modes[graders],
        modes=modes,
        mode_probs=probs_given_marked(probs),
    )


def probs_given_marked(probs: np.ndarray) -> np.ndarray:
    """Returns a grader's mode probabilities, given that not all graders saw nothing.

    With q = probs[0], P(grader sees nothing | not all do) = (q - q^4) / (1 - q^4); the
    other modes share the rest in proportion.

    Args:
        probs: [M], of one grader drawn freely; mode 0 is "nothing".

    Returns:
        [M], of one grader of an image that is in the data set.
    """
    q = probs[0]
    all_empty = q**NUM_GRADERS
    empty = (q - all_empty) / (1.0 - all_empty)
    return np.concatenate([[empty], probs[1:] / (1.0 - q) * (1.0 - empty)])


def _process(unit: runner.Unit) -> runner.UnitResult:
    config, split, start, stop = unit.payload
    examples = [(split, draw_example(config, split, i)) for i in range(start, stop)]
    empty = sum(int(not m.any()) for _, e in examples for m in e.labels)
    masks = NUM_GRADERS * len(examples)
    return runner.UnitResult(examples, counts={"masks": masks, "empty masks": empty})


def _draw_image(
    rng: np.random.Generator, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws an image [size, size, 1], its modes [M, size, size] and their [M] probs."""
    signed_distance, halo_width = _draw_shape(rng, size)
    contrast, halo = rng.uniform(0.0, 1.0, size=2)
    presence_prob = 0.3 + 0.7 * contrast
    halo_prob = 0.1 + 0.8 * halo
    background = _draw_background(rng, size)
    core_weight = _inside(signed_distance)
    halo_weight = _inside(signed_distance - halo_width) * (1.0 - core_weight)
    core_hu = _LUNG_HU + (0.25 + 0.75 * contrast) * (_LESION_HU - _LUNG_HU)
    halo_hu = _LUNG_HU + (0.15 + 0.85 * halo) * (_HALO_HU - _LUNG_HU)
    image = background + core_weight * (core_hu - background)
    image += halo_weight * (np.maximum(halo_hu, background) - background)
    image += rng.normal(0.0, 25.0, size=image.shape)

    empty = np.zeros_like(signed_distance, bool)
    modes, probs = [empty], [1.0 - presence_prob]
    for width, width_prob in ((0.0, 1.0 - halo_prob), (halo_width, halo_prob)):
        for shift, shift_prob in zip(OUTLINE_SHIFTS_PX, OUTLINE_PROBS):
            modes.append(signed_distance < width + shift)
            probs.append(presence_prob * width_prob * shift_prob)
    image = np.clip(np.round(image), -1024, 3071).astype(np.int16)
    return image[..., None], np.stack(modes).astype(np.uint8), np.array(probs)


def _draw_shape(rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
    """Returns the distance of each pixel from the core's edge, and the halo's width."""
    centre = size / 2 + rng.uniform(-0.06, 0.06, size=2) * size
    radius = rng.uniform(0.07, 0.13) * size
    rows, cols = np.mgrid[:size, :size] + 0.5
    dy, dx = rows - centre[0], cols - centre[1]
    angle = np.arctan2(dy, dx)
    edge = np.full_like(angle, radius)
    for order, amplitude in ((2, 0.18), (3, 0.10), (4, 0.06)):
        phase = rng.uniform(0, 2 * np.pi)
        edge += radius * rng.uniform(0, amplitude) * np.cos(order * angle + phase)
    return np.hypot(dy, dx) - edge, rng.uniform(0.45, 0.75) * radius


def _inside(signed_distance: np.ndarray) -> np.ndarray:
    """Returns 1 inside and 0 outside, with an edge about two pixels soft."""
    return 0.5 - 0.5 * np.tanh(signed_distance / 0.8)


def _draw_background(rng: np.random.Generator, size: int) -> np.ndarray:
    """Returns lung tissue with vessels, in Hounsfield units."""
    texture = np.zeros((size, size))
    for sigma, strength in ((1.0, 25.0), (4.0, 35.0)):
        noise = scipy.ndimage.gaussian_filter(rng.normal(size=(size, size)), sigma)
        texture += strength * noise / noise.std()
    rows, cols = np.mgrid[:size, :size] + 0.5
    vessels = np.zeros((size, size))
    for _ in range(rng.integers(2, 6)):
        start = rng.uniform(0, size, size=2)
        direction, bend = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.012)
        width = rng.uniform(0.6, 1.8)
        along = np.cos(direction) * (cols - start[1]) + np.sin(direction) * (
            rows - start[0]
        )
        across = np.cos(direction) * (rows - start[0]) - np.sin(direction) * (
            cols - start[1]
        )
        across -= bend * along**2
        vessels = np.maximum(vessels, np.exp(-0.5 * (across / width) ** 2))
    return _LUNG_HU + texture + vessels * (_VESSEL_HU - _LUNG_HU)
