"""Small masks for metric tests: hand-drawn, random and by Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

EMPTY = np.zeros((2, 4), np.uint8)


def draw(*cells: int, shape: tuple[int, int] = (2, 4)) -> np.ndarray:
    """A mask that marks the given cells, numbered row by row."""
    mask = np.zeros(shape, np.uint8)
    mask.flat[list(cells)] = 1
    return mask


def random_masks(seed: int, *shape: int, empty: float = 0.3) -> np.ndarray:
    """Random masks [..., H, W], some of them empty."""
    generator = np.random.default_rng(seed)
    masks = generator.random(shape) < generator.random((*shape[:-2], 1, 1))
    kept = generator.random((*shape[:-2], 1, 1)) >= empty
    return (masks & kept).astype(np.uint8)


def stacks(max_masks: int = 5) -> st.SearchStrategy[np.ndarray]:
    """Stacks of 1 to max_masks masks of 2 x 3 pixels; empty ones are frequent."""
    shape = st.integers(1, max_masks).map(lambda number: (number, 2, 3))
    return shape.flatmap(
        lambda s: hnp.arrays(np.uint8, s, elements=st.sampled_from([0, 0, 1]))
    )


def iou_distance(first: np.ndarray, second: np.ndarray) -> float:
    """1 - IoU of two masks by its definition; NaN if both are empty."""
    union = np.logical_or(first, second).sum()
    if not union:
        return float("nan")
    return 1 - np.logical_and(first, second).sum() / union
