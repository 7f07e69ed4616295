"""Samples of trivial models, to compare real models with."""

from __future__ import annotations

import numpy as np

from tf_probunet.evaluation.metrics import checks


def always_empty(
    graders: np.ndarray, num_samples: int, num_classes: int = 2
) -> np.ndarray:
    """Samples without foreground.

    Args:
        graders: [M, H, W] or [N, M, H, W] labels; only their shape is used.
        num_samples: S.
        num_classes: labels are 0 to num_classes - 1.

    Returns:
        [S, H, W] or [N, S, H, W] uint8.

    Raises:
        ValueError: on other values, or if S is below 1.
    """
    graders = _masks(graders, num_samples, num_classes)
    return _repeat(np.zeros_like(graders), num_samples)


def majority(graders: np.ndarray, num_samples: int, num_classes: int = 2) -> np.ndarray:
    """Samples that all mark what more than half of the graders mark.

    A tie, two graders of four, is background.

    Args:
        graders: [M, H, W] or [N, M, H, W] labels.
        num_samples: S.
        num_classes: labels are 0 to num_classes - 1.

    Returns:
        [S, H, W] or [N, S, H, W] uint8.

    Raises:
        ValueError: on other values, or if S is below 1.
    """
    graders = _masks(graders, num_samples, num_classes)
    consensus = np.zeros_like(graders[..., :1, :, :])
    for label in range(1, num_classes):
        votes = (graders == label).sum(axis=-3, keepdims=True)
        consensus[2 * votes > graders.shape[-3]] = label
    return _repeat(consensus, num_samples)


def graders_themselves(
    graders: np.ndarray, num_samples: int, num_classes: int = 2
) -> np.ndarray:
    """Samples that are the graders, in turn.

    If S is not a multiple of M, the first graders appear once more than the last.

    Args:
        graders: [M, H, W] or [N, M, H, W] labels.
        num_samples: S.
        num_classes: labels are 0 to num_classes - 1.

    Returns:
        [S, H, W] or [N, S, H, W] uint8.

    Raises:
        ValueError: on other values, or if S is below 1.
    """
    return _repeat(_masks(graders, num_samples, num_classes), num_samples)


def _masks(graders: np.ndarray, num_samples: int, num_classes: int) -> np.ndarray:
    if num_samples < 1:
        raise ValueError(f"num_samples is {num_samples}; expected at least 1")
    if num_classes == 2:
        return checks.binary_masks(graders, "graders")
    graders = checks.label_maps(
        graders, "graders", num_classes=num_classes, ignore=None
    )
    return graders.astype(np.uint8)


def _repeat(masks: np.ndarray, num_samples: int) -> np.ndarray:
    turns = np.arange(num_samples) % masks.shape[-3]
    return np.take(masks, turns, axis=-3)
