"""The Cityscapes label table and the five class switches: names, ids, colours, modes.

This is the only place that defines them. It needs NumPy only.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

IGNORE_LABEL = 255
IGNORE_COLOR = (0, 0, 0)


class Label(NamedTuple):
    """A row of the official table; `train_id` is None where the label is ignored."""

    name: str
    id: int
    train_id: int | None
    color: tuple[int, int, int]


class Switch(NamedTuple):
    """A class that turns into a new class with some probability, in whole images."""

    name: str
    class_id: int
    new_class_id: int
    probability: Fraction


# The labels that occur in *_gtFine_labelIds.png, with the official colours.
LABELS: tuple[Label, ...] = (
    Label("unlabeled", 0, None, (0, 0, 0)),
    Label("ego vehicle", 1, None, (0, 0, 0)),
    Label("rectification border", 2, None, (0, 0, 0)),
    Label("out of roi", 3, None, (0, 0, 0)),
    Label("static", 4, None, (0, 0, 0)),
    Label("dynamic", 5, None, (111, 74, 0)),
    Label("ground", 6, None, (81, 0, 81)),
    Label("road", 7, 0, (128, 64, 128)),
    Label("sidewalk", 8, 1, (244, 35, 232)),
    Label("parking", 9, None, (250, 170, 160)),
    Label("rail track", 10, None, (230, 150, 140)),
    Label("building", 11, 2, (70, 70, 70)),
    Label("wall", 12, 3, (102, 102, 156)),
    Label("fence", 13, 4, (190, 153, 153)),
    Label("guard rail", 14, None, (180, 165, 180)),
    Label("bridge", 15, None, (150, 100, 100)),
    Label("tunnel", 16, None, (150, 120, 90)),
    Label("pole", 17, 5, (153, 153, 153)),
    Label("polegroup", 18, None, (153, 153, 153)),
    Label("traffic light", 19, 6, (250, 170, 30)),
    Label("traffic sign", 20, 7, (220, 220, 0)),
    Label("vegetation", 21, 8, (107, 142, 35)),
    Label("terrain", 22, 9, (152, 251, 152)),
    Label("sky", 23, 10, (70, 130, 180)),
    Label("person", 24, 11, (220, 20, 60)),
    Label("rider", 25, 12, (255, 0, 0)),
    Label("car", 26, 13, (0, 0, 142)),
    Label("truck", 27, 14, (0, 0, 70)),
    Label("bus", 28, 15, (0, 60, 100)),
    Label("caravan", 29, None, (0, 0, 90)),
    Label("trailer", 30, None, (0, 0, 110)),
    Label("train", 31, 16, (0, 80, 100)),
    Label("motorcycle", 32, 17, (0, 0, 230)),
    Label("bicycle", 33, 18, (119, 11, 32)),
)

_TRAIN_LABELS = tuple(
    sorted(
        (label for label in LABELS if label.train_id is not None),
        key=operator.attrgetter("train_id"),
    )
)

NUM_TRAIN_CLASSES = len(_TRAIN_LABELS)

# The order matters: bit i of a mode's number says whether switch i is flipped.
SWITCHES: tuple[Switch, ...] = tuple(
    Switch(name, class_id, NUM_TRAIN_CLASSES + i, Fraction(8 - i, 17))
    for i, (name, class_id) in enumerate(
        [("sidewalk", 1), ("person", 11), ("car", 13), ("vegetation", 8), ("road", 0)]
    )
)

NUM_SWITCHES = len(SWITCHES)
NUM_CLASSES = NUM_TRAIN_CLASSES + NUM_SWITCHES
NUM_MODES = 2**NUM_SWITCHES

TRAIN_CLASS_NAMES: tuple[str, ...] = tuple(label.name for label in _TRAIN_LABELS)
CLASS_NAMES: tuple[str, ...] = TRAIN_CLASS_NAMES + tuple(
    f"{switch.name} 2" for switch in SWITCHES
)

# Chosen to be far from the official colours and from each other.
_SWITCHED_COLORS = (
    (255, 200, 120),  # sidewalk 2
    (0, 240, 200),  # person 2
    (120, 200, 255),  # car 2
    (180, 90, 0),  # vegetation 2
    (90, 0, 200),  # road 2
)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


# [24, 3] uint8, one colour per class.
COLORS = _frozen(
    np.array(
        [label.color for label in _TRAIN_LABELS] + list(_SWITCHED_COLORS), np.uint8
    )
)

# [32, 5] bool: whether mode m flips switch i.
MODE_BITS = _frozen((np.arange(NUM_MODES)[:, None] >> np.arange(NUM_SWITCHES)) % 2 == 1)

# [32] float64: the probability of each mode, a product of five independent flips.
MODE_PROBABILITIES = _frozen(
    np.where(
        MODE_BITS,
        [float(switch.probability) for switch in SWITCHES],
        [float(1 - switch.probability) for switch in SWITCHES],
    ).prod(axis=1)
)


def _train_id_table() -> np.ndarray:
    table = np.full(256, IGNORE_LABEL, np.uint8)
    for train_id, label in enumerate(_TRAIN_LABELS):
        table[label.id] = train_id
    return table


_TRAIN_IDS = _frozen(_train_id_table())


def to_train_ids(label_ids: np.ndarray) -> np.ndarray:
    """Maps official label ids to training ids; all others to `IGNORE_LABEL`.

    Args:
        label_ids: uint8 array of any shape, as in `*_gtFine_labelIds.png`.

    Returns:
        uint8 array of the same shape with 0-18 and 255.

    Raises:
        ValueError: if the array isn't uint8.
    """
    label_ids = np.asarray(label_ids)
    if label_ids.dtype != np.uint8:
        raise ValueError(f"label ids have dtype {label_ids.dtype}, expected uint8")
    return _TRAIN_IDS[label_ids]


def switch_table(mode: int) -> np.ndarray:
    """The table that draws a mode: `switch_table(mode)[labels]`.

    Args:
        mode: 0-31; bit i set means that switch i is flipped.

    Returns:
        [256] uint8; every value but the flipped classes maps to itself.

    Raises:
        ValueError: if there is no such mode.
    """
    if not 0 <= mode < NUM_MODES:
        raise ValueError(f"mode is {mode}, expected 0 to {NUM_MODES - 1}")
    table = np.arange(256, dtype=np.uint8)
    for switch, flipped in zip(SWITCHES, MODE_BITS[mode]):
        if flipped:
            table[switch.class_id] = switch.new_class_id
    return table


def colorize(labels: np.ndarray) -> np.ndarray:
    """Colours label maps for figures.

    Args:
        labels: integer array of any shape with classes 0-23 and `IGNORE_LABEL`.

    Returns:
        uint8 array with a last axis of 3 added; ignored pixels are black.

    Raises:
        ValueError: if a label is neither a class nor `IGNORE_LABEL`.
    """
    labels = np.asarray(labels)
    known = ((labels >= 0) & (labels < NUM_CLASSES)) | (labels == IGNORE_LABEL)
    if not known.all():
        raise ValueError(
            f"label {labels[~known].flat[0]} has no colour, expected 0 to "
            f"{NUM_CLASSES - 1} or {IGNORE_LABEL}"
        )
    palette = np.full((IGNORE_LABEL + 1, 3), IGNORE_COLOR, np.uint8)
    palette[:NUM_CLASSES] = COLORS
    return palette[labels]
