"""Colours of the classes, for pictures and palettes."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np

from tf_probunet.dataset import cityscapes_labels


def is_street(class_names: Sequence[str]) -> bool:
    """Returns whether these are the classes of Cityscapes, with or without flips."""
    known = cityscapes_labels.CLASS_NAMES[: len(class_names)]
    number = len(class_names)
    return number >= cityscapes_labels.NUM_TRAIN_CLASSES and [*class_names] == [*known]


def colors(class_names: Sequence[str]) -> np.ndarray:
    """Returns [K, 3] uint8: black and white for two classes, else hues far apart."""
    if is_street(class_names):
        return cityscapes_labels.COLORS[: len(class_names)]
    if len(class_names) == 2:
        return np.array([[0, 0, 0], [255, 255, 255]], np.uint8)
    # Steps of the golden ratio never come close to an earlier hue.
    hues = [(0.08 + i * 0.618034) % 1 for i in range(len(class_names) - 1)]
    rest = [colorsys.hsv_to_rgb(hue, 0.75, 0.9) for hue in hues]
    return np.rint(255 * np.array([(0, 0, 0), *rest])).astype(np.uint8)
