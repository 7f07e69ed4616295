"""A note about something in the raw data, for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that was dropped, or that looks wrong.

    Attributes:
        reason: a short category, the same for all problems of its kind.
        where: the file or key.
        detail: what was found and what was expected.
        expected: left out by the recipe and no fault of the data: it is listed in the
            report, but is no error in a strict run.
    """

    reason: str
    where: str
    detail: str = ""
    expected: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" + (
            f" ({self.detail})" if self.detail else ""
        )


def first_of(problems: Sequence[Problem]) -> str:
    """Returns the end of an error message: how many problems, and the first one."""
    if not problems:
        return ""
    number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"; {number}, the first: {problems[0]}"
