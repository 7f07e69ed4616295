"""One line per change of the settings: its scores with several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tf_probunet.evaluation.tables import number


def table(
    scores: Mapping[str, Sequence[float]], seeds: Sequence[int]
) -> list[list[str]]:
    """Returns the table as rows of cells, the first its head.

    Args:
        scores: energy distances by change, one per seed and in their order; the first
            change is what the others are compared with.
        seeds: of the runs.

    Returns:
        Each score, the mean, by how much the mean is above the first's, and with how
        many of the seeds the score is worse (larger) than the first's.

    Raises:
        ValueError: a change has not as many scores as there are seeds.
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
