"""A table of settings: one row per change, one column per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tf_probunet.evaluation.tables import number


def table(
    scores: Mapping[str, Sequence[float]], seeds: Sequence[int]
) -> list[list[str]]:
    """Returns the table as rows of cells; the first row is the header.

    Args:
        scores: by change, the energy distance with each seed. The other changes are
            compared with the first.
        seeds: of the runs.

    Returns:
        For each change its scores, their mean, the difference of the mean to that of
        the first change, and the number of seeds with which the score is worse (larger)
        than that of the first change.

    Raises:
        ValueError: a change does not have one score per seed.
    """
    for change, values in scores.items():
        if len(values) != len(seeds):
            raise ValueError(
                f"{change}: {len(values)} scores, expected {len(seeds)}, one per seed"
            )
    reference = np.array(next(iter(scores.values())))
    head = ["changes", *(f"seed {seed}" for seed in seeds)]
    rows = [[*head, "mean", "difference", "worse with"]]
    for i, (change, values) in enumerate(scores.items()):
        differences = np.array(values) - reference
        worse = f"{int((differences > 0).sum())} of {len(seeds)} seeds"
        compared = [f"{differences.mean():+.3f}", worse] if i else ["-", "-"]
        cells = [*map(number, values), number(float(np.mean(values))), *compared]
        rows.append([change, *cells])
    return rows
