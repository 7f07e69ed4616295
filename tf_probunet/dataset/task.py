"""The tasks, and what each makes of a data set's labels. No TensorFlow here.

In the task "plain" the labels are those of the graders. In the task "switched" five
classes of a street scene become a new class at random, as in the Cityscapes experiment
of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tf_probunet import files
from tf_probunet.dataset import cityscapes_labels

# How label maps are scored: as binary masks, as maps of several classes, or against all
# 32 modes of the switched classes.
KINDS = ("binary", "classes", "switched")


class Labels(Protocol):
    """What the functions here need to know; a `records.DatasetSpec` says it."""

    @property
    def class_names(self) -> tuple[str, ...]: ...
    @property
    def num_graders(self) -> int: ...
    @property
    def ignore_label(self) -> int | None: ...


def class_names(names: Sequence[str], task: str) -> tuple[str, ...]:
    """Returns the classes that a model distinguishes.

    Args:
        names: the classes of the data set.
        task: of the model.
    """
    if task == "switched":
        return cityscapes_labels.CLASS_NAMES
    return tuple(names)


def kind(labels: Labels, task: str) -> str:
    """Returns how label maps of the task are scored, one of `KINDS`."""
    if task == "switched":
        return "switched"
    is_binary = len(labels.class_names) == 2 and labels.ignore_label is None
    return "binary" if is_binary else "classes"


def check(labels: Labels, task: str, data_dir: files.Path) -> None:
    """Checks that a data set has the labels that the task needs.

    Raises:
        ValueError: it has others.
    """
    if task != "switched":
        return
    expected = cityscapes_labels.TRAIN_CLASS_NAMES
    if tuple(labels.class_names) != expected or labels.num_graders != 1:
        raise ValueError(
            f"{data_dir}: has {len(labels.class_names)} classes "
            f"({', '.join(labels.class_names[:3])}, ...) and {labels.num_graders} "
            f"graders, expected the {len(expected)} classes of Cityscapes "
            f"({', '.join(expected[:3])}, ...) and 1 grader for the switched task"
        )
