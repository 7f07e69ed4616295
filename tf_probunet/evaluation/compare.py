"""Compares several results in one table, with intervals and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_probunet import files
from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.results_dir import Results
from tf_probunet.evaluation import tables
from tf_probunet.evaluation.metrics import statistics
from tf_probunet.evaluation.summary import (
    MANY_UNDECIDED,
    METRICS,
    SCALARS,
    Metric,
)

_Column = tuple[Metric, int]  # With this number of samples.
_GED = Metric("ged", "energy distance", "low")
_FLOOR = "(floor)"
_CHOSEN_FLOOR = "(floor of chosen samples)"
_MODE_FREQUENCIES = tuple(
    f"mode_calibration.{name}"
    for name in ("kl_divergence", "largest_ratio", "modes_missed")
)
_BOUNDS = ("mean", "low", "high")


def read_all(
    paths: Sequence[files.Path], names: Sequence[str] | None = None
) -> list[Results]:
    """Reads at least two results; see `results_dir.read_all`.

    Raises:
        FileNotFoundError: a directory holds no results.
        ValueError: there are fewer than two, or they can't be compared.
    """
    if len(paths) < 2:
        raise ValueError(f"got {len(paths)} results, expected at least two to compare")
    return results_dir.read_all(paths, names)


def compare(
    results: Sequence[Results], reference: str | None = None
) -> list[dict[str, Any]]:
    """Compares each result with a reference, metric by metric.

    Args:
        results: of the models; see `read_all`.
        reference: the name of the model to compare with; the first by default.

    Returns:
        A row for each metric and model: `metric`, `num_samples`, `model`, `mean`,
        `low`, `high` and `best` (whether no other mean is better). Rows of metrics with
        per-image values, except those of the reference, also have the `difference` of
        the means, `p_value`, `effect_size` and `pairs`. After the rows of each energy
        distance there is a row "(floor)", and one for chosen samples if there are any.
        Metrics that only one model has are left out.

    Raises:
        ValueError: there is no such reference, or the images differ.
    """
    names = [result.name for result in results]
    reference = names[0] if reference is None else reference
    if reference not in names:
        raise ValueError(
            f"reference is {reference!r}, expected one of {', '.join(names)}"
        )
    rows = []
    for column in _columns(results):
        present = [r for r in results if _interval(r, column) is not None]
        if len(present) > 1:
            rows += _column_rows(column, present, reference)
    return rows


def paired(first: dict[str, float], second: dict[str, float]) -> dict[str, Any]:
    """Tests the images on which both models have a value (with "drop" not all do).

    Args:
        first: a value of each image, by key; NaN if it has none.
        second: those of the other model.

    Returns:
        `difference` of the means, `p_value`, `effect_size` and `pairs`; nothing if no
        image has both values.
    """
    unscored = {
        key for values in (first, second) for key in values if np.isnan(values[key])
    }
    first, second = (
        {key: value for key, value in values.items() if key not in unscored}
        for values in (first, second)
    )
    if not first and not second:
        return {}
    test = statistics.wilcoxon(first, second)
    return {
        "difference": test.mean_difference,
        "p_value": test.p_value,
        "effect_size": test.effect_size,
        "pairs": test.num_pairs,
    }


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns aligned columns for the terminal; a star marks the best."""
    return tables.aligned(_cells(rows, lambda text: f"{text} *")) + "\n"


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a Markdown table with the best in bold."""
    return tables.markdown(_cells(rows, lambda text: f"**{text}**")) + "\n"


def notes(results: Sequence[Results]) -> list[str]:
    """Returns what the reader of a comparison should know."""
    samplings = sorted({result.sampling for result in results} - {"independent"})
    if not samplings:
        return []
    return [
        f"{' and '.join(samplings)} samples are not the published protocol, which "
        "draws samples independently; their floor is that of chosen samples"
    ]


def _columns(results: Sequence[Results]) -> list[_Column]:
    counts = sorted({count for result in results for count in result.counts})
    metrics = (_GED, *METRICS, *SCALARS)
    return [(metric, count) for metric in metrics for count in counts]


def _column_rows(
    column: _Column, present: Sequence[Results], reference: str
) -> list[dict[str, Any]]:
    metric, count = column
    intervals = [r.required_interval(metric.name, count) for r in present]
    means = [
        found["mean"]
        for result, found in zip(present, intervals)
        if found["mean"] is not None and _competes(result, metric)
    ]
    baseline = {r.name: _values(r, column) for r in present}.get(reference)
    rows = []
    for result, interval in zip(present, intervals):
        values = _values(result, column)
        row = _row(column, result.title, interval)
        if metric is not _GED:  # A protocol may match fewer samples.
            row["num_samples"] = tables.sample_count(metric, result.summary)
        competes = _competes(result, metric)
        row["best"] = competes and _is_best(interval["mean"], means, metric.best)
        if result.name != reference and values and baseline:
            row.update(paired(values, baseline))
        rows.append(row)
    if metric is _GED:
        rows += _floor_rows(column, present)
    return rows


def _floor_rows(column: _Column, present: Sequence[Results]) -> list[dict[str, Any]]:
    """Returns the floor of independent samples, and that of chosen ones."""
    floors: dict[str, Any] = {}
    for result in present:
        independent = result.sampling == "independent"
        name = _FLOOR if independent else _CHOSEN_FLOOR
        floors.setdefault(name, result.interval("floor", column[1]))
    return [
        {**_row(column, name, floors[name]), "best": False}
        for name in (_FLOOR, _CHOSEN_FLOOR)
        if floors.get(name) is not None
    ]


def _interval(results: Results, column: _Column) -> dict[str, Any] | None:
    return results.interval(column[0].name, column[1])


def _values(results: Results, column: _Column) -> dict[str, float] | None:
    return results.values(column[0].name, column[1])


def _row(column: _Column, name: str, interval: dict[str, Any]) -> dict[str, Any]:
    metric, count = column
    bounds = {bound: interval[bound] for bound in _BOUNDS}
    return {"metric": metric.title, "num_samples": count, "model": name, **bounds}


def _competes(result: Results, metric: Metric) -> bool:
    """Whether a metric of the result is comparable with that of other results.

    The samples of a model that does not draw a class are shared among modes by
    probability, so its frequencies of modes look good.
    """
    if metric.name not in _MODE_FREQUENCIES:
        return True
    undecided = results_dir.lookup(result.summary, "mode_calibration.undecided")
    return undecided is None or undecided < MANY_UNDECIDED


def _is_best(mean: float | None, means: list[float], best: str | None) -> bool:
    if best is None or mean is None:
        return False
    return mean == (min(means) if best == "low" else max(means))


def _cells(rows: Sequence[dict[str, Any]], mark) -> list[list[str]]:
    head = ["metric", "samples", "model", "mean", "95% interval"]
    cells = [[*head, "difference", "p", "effect"]]
    before = None
    for row in rows:
        metric = (row["metric"], str(row["num_samples"]))
        mean = tables.number(row["mean"])
        cells.append(
            [
                *(metric if metric != before else ("", "")),
                row["model"],
                mark(mean) if row["best"] else mean,
                "-" if row["low"] is None else tables.bounds(row),
                *_test_cells(row),
            ]
        )
        before = metric
    return cells


def _test_cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if "p_value" not in row:
        return "", "", ""
    p_value = "<0.001" if row["p_value"] < 0.001 else tables.number(row["p_value"])
    return f"{row['difference']:+.3f}", p_value, f"{row['effect_size']:+.2f}"
