"""Processing functions for the runner; at the top level, as other processes need."""

from __future__ import annotations

import os
import pathlib

import numpy as np
from helpers import datasets

from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.runner import Unit, UnitResult

EXAMPLES_PER_UNIT = 3
SPLITS = ("train", "val")


def units(
    scratch: pathlib.Path, number: int = 6, inputs: pathlib.Path | None = None
) -> list[Unit]:
    """Returns units whose fate is decided by files in `scratch` (see `process`).

    Each says that it reads `scan-<i>` in the directory `inputs`, if one is given.
    """
    return [
        Unit(f"scan {i}", (str(scratch), i), (f"{inputs}/scan-{i}",) if inputs else ())
        for i in range(number)
    ]


def process(unit: Unit) -> UnitResult:
    """Gives three examples; the last unit belongs to "val".

    A file `fail-<i>` in the scratch directory makes unit i raise, interrupt, or end its
    process, as the file says. `calls-<i>` grows by a byte with each call.
    """
    scratch, index = pathlib.Path(unit.payload[0]), unit.payload[1]
    with open(scratch / f"calls-{index}", "ab") as calls:
        calls.write(b"x")
    how = scratch / f"fail-{index}"
    if how.exists():
        _fail(how.read_text())
    result = UnitResult()
    for i in range(EXAMPLES_PER_UNIT):
        number = EXAMPLES_PER_UNIT * index + i
        image = np.full((datasets.SIZE, datasets.SIZE, 1), number, np.uint8)
        example = datasets.example(number, image=image, group=unit.name)
        result.examples.append(("val" if index == 5 else "train", example))
        result.count("slices")
    if index == 2:
        result.problems.append(Problem("odd spacing", f"{unit.name}/7", "2 mm"))
    if index == 3:
        result.problems.append(Problem("too small", unit.name, expected=True))
    result.count("outlines", 10 * index)
    return result


def _fail(how: str) -> None:
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "die":
        os._exit(9)
    raise ValueError(how)


def calls(scratch: pathlib.Path) -> list[int]:
    """Returns how often each of the six units was processed."""
    paths = [scratch / f"calls-{i}" for i in range(6)]
    return [path.stat().st_size if path.exists() else 0 for path in paths]
