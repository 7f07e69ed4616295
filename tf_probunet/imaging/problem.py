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
        expected: whether the recipe leaves it out by design. It is listed in the
            report, but is not an error in a strict run.
    """

    reason: str
    where: str
    detail: str = ""
    expected: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" + (
            f" ({self.detail})" if self.detail else ""
        )


def reasons(problems: Sequence[Problem]) -> str:
    """Returns the end of an error message: each reason, how often, and the first."""
    by_reason: dict[str, list[Problem]] = {}
    for problem in problems:
        by_reason.setdefault(problem.reason, []).append(problem)
    ordered = sorted(by_reason.values(), key=len, reverse=True)
    texts = [
        f"{len(found)} x {found[0].reason}, the first {found[0].where}"
        + (f" ({found[0].detail})" if found[0].detail else "")
        for found in ordered
    ]
    number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"; {number}: " + "; ".join(texts) if texts else ""
