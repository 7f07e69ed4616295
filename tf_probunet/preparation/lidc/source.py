"""The common interface of the four formats of LIDC."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tf_probunet.dataset.records import Example
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.runner import Unit, UnitResult

NUM_GRADERS = 4


@dataclasses.dataclass(frozen=True)
class Item:
    """One piece of work: a scan, a patient.

    Attributes:
        name: a unique name, the same in every run.
        group: the patient, who decides the split.
        task: the input of the source's `process`; picklable.
        inputs: paths of all files that it reads.
    """

    name: str
    group: str
    task: Any
    inputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Source:
    """The content of the input.

    Attributes:
        items: the work.
        process: makes the examples of a unit, whose payload is (split, task).
        groups: all groups to split, including those without an item.
        image_size: height and width of an image in pixels.
        image_dtype: "int16" for Hounsfield units, "uint8" for rescaled grey values.
        content: a hash that changes with the input, see `hashing.content_hash`.
        splits: the split that comes with the input, if there is one.
        slices: keys of all images in the order of the file, where that has one.
        recipe: settings, for the data set's description.
        problems: what cannot be used.
        counts: numbers for the report.
    """

    items: list[Item]
    process: Callable[[Unit], UnitResult]
    groups: list[str]
    image_size: int
    image_dtype: str
    content: str
    splits: dict[str, list[str]] | None = None
    slices: list[str] = dataclasses.field(default_factory=list)
    recipe: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)


def add_example(result: UnitResult, split: str, example: Example) -> None:
    """Adds an example to a result, unless no grader marked anything on it.

    Args:
        result: receives the example, or the reason why it was dropped.
        split: that the example belongs to.
        example: with [4, H, W] labels.
    """
    marks = int(example.labels.any(axis=(1, 2)).sum())
    if marks == 0:
        result.problems.append(
            Problem("image with four empty masks", example.key, expected=True)
        )
    else:
        result.examples.append((split, example))
        result.count(f"images marked by {marks} of {NUM_GRADERS} graders")
