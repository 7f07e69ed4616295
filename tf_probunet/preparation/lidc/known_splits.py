"""The splits of the LIDC pickle that published numbers were measured on, by name.

A split is drawn from NumPy's `RandomState`, whose numbers are the same in all versions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

Splits = dict[str, list[str]]

MIXED = (
    "slices of one scan are in several splits, so that scores are better than those of "
    "new patients"
)
_UNSEEDED = "the published split was drawn without a seed and can't be repeated; "


@dataclasses.dataclass(frozen=True)
class KnownSplit:
    """How a public code splits the pickle.

    Attributes:
        source: the code.
        rule: what it does, for people.
        assign: the splits of the series in alphabetical order, or of the slices in the
            order of the file.
        by_slice: whether it splits slices.
        note: how it differs from the published one; None if it is the same.
    """

    source: str
    rule: str
    assign: Callable[[Sequence[str]], Splits]
    by_slice: bool = False
    note: str | None = None

    @property
    def warning(self) -> str | None:
        """What is wrong with scores on this split; None if nothing is."""
        return MIXED if self.by_slice else None

    def description(self, name: str) -> dict[str, str | None]:
        """Returns what the data set and the results say about the split."""
        return {
            "name": name,
            "source": self.source,
            "rule": self.rule,
            "note": self.note,
            "warning": self.warning,
        }


def _hold_out(names: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Returns (kept, a fifth that is held out), as scikit-learn's `train_test_split`.

    With `test_size=0.2, random_state=seed`.
    """
    number = math.ceil(0.2 * len(names))
    order = np.random.RandomState(seed).permutation(len(names))
    shuffled = [names[place] for place in order]
    return shuffled[number:], shuffled[:number]


def _two_fifths(names: Sequence[str]) -> Splits:
    """A fifth for testing, and a fifth of the rest for validation; seed 0 for both."""
    rest, test = _hold_out(names, seed=0)
    train, val = _hold_out(rest, seed=0)
    return {"train": train, "val": val, "test": test}


def _shuffled(names: Sequence[str], seed: int) -> list[str]:
    order = list(range(len(names)))
    np.random.RandomState(seed).shuffle(order)
    return [names[place] for place in order]


def _atfm(names: Sequence[str]) -> Splits:
    shuffled = _shuffled(names, seed=42)
    val = math.floor(0.6 * len(names))
    test = val + math.floor(0.2 * len(names))
    return {"train": shuffled[:val], "val": shuffled[val:test], "test": shuffled[test:]}


def _knegt(names: Sequence[str]) -> Splits:
    shuffled = _shuffled(names, seed=0)
    train = math.floor(0.1 * len(names))
    return {"train": shuffled[train:], "test": shuffled[:train]}


_BY_SERIES = "by series, 64 : 16 : 20"


def _unseeded(source: str) -> KnownSplit:
    note = _UNSEEDED + "this is MoSE's, which is drawn by the same rule"
    return KnownSplit(source, f"{_BY_SERIES}, no seed", _two_fifths, note=note)


KNOWN_SPLITS = {
    "mose": KnownSplit(
        "the code of MoSE (Gao et al. 2023)", f"{_BY_SERIES}, seed 0", _two_fifths
    ),
    "phiseg": _unseeded("the code of PHiSeg (Baumgartner et al. 2019)"),
    "ccdm": _unseeded("the code of CCDM (Zbinden et al. 2023)"),
    "flow_ssn": _unseeded("the code of Flow-SSN (2025)"),
    "atfm": KnownSplit(
        "the code of ATFM (Li et al. 2025)",
        "by slice, 60 : 20 : 20, seed 42; its second stage trains on train and val",
        _atfm,
        by_slice=True,
    ),
    "knegt": KnownSplit(
        "the PyTorch code of S. Knegt",
        "by slice, 90 : 0 : 10, no seed",
        _knegt,
        by_slice=True,
        note=_UNSEEDED + "this is another one, drawn by the same rule",
    ),
}
