"""Several results in one table: intervals, paired tests, the best in bold."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_probunet import arrays, files
from tf_probunet.evaluation import tables
from tf_probunet.evaluation.metrics import statistics
from tf_probunet.evaluation.results import METRICS, SCALARS, Metric, lookup
from tf_probunet.evaluation.sample_files import MAX_SAMPLES

# Compared number by number, as far as both have them.
_FREE_SETTINGS = {"num_samples", "validation_split"}
_SAME_DATA = ("fingerprint", "split", "images")


@dataclasses.dataclass(frozen=True)
class Results:
    """What an evaluation wrote.

    Attributes:
        path: its directory.
        name: of the model, for the table.
        summary: `results.json`.
        per_image: `per_image.npz`.
    """

    path: pathlib.Path
    name: str
    summary: dict[str, Any]
    per_image: dict[str, np.ndarray]

    @property
    def counts(self) -> list[int]:
        """The numbers of samples."""
        return self.per_image["counts"].tolist()

    def interval(self, column: _Column) -> dict[str, Any] | None:
        """Returns `mean`, `low` and `high` of a column; None if it is not there."""
        metric, count = column
        if count not in self.counts:
            return None
        found = lookup(self.summary, metric.name)
        if isinstance(found, dict) and "mean" not in found:
            return self._checked(metric, found.get(str(count)))
        if found is None or count != self.counts[-1]:
            return None
        if not isinstance(found, dict):
            found = {"mean": found, "low": None, "high": None}
        return self._checked(metric, found)

    def floor(self, count: int) -> dict[str, Any] | None:
        """Returns `mean`, `low` and `high` of the floor; None if it is not there."""
        found = lookup(self.summary, f"floor.{count}")
        return None if found is None else self._checked(_GED, found)

    def _checked(self, metric: Metric, found: Any) -> dict[str, Any]:
        numbers = (
            [found.get(n, "") for n in _BOUNDS] if isinstance(found, dict) else [""]
        )
        if not all(type(number) in (int, float, type(None)) for number in numbers):
            raise ValueError(
                f"{self.path / 'results.json'}: {metric.name} is {repr(found)[:80]}, "
                "expected mean, low and high"
            )
        return found

    def values(self, column: _Column) -> dict[str, float] | None:
        """Returns a column's values by key; None for a number of the whole data set."""
        metric, count = column
        values = self.per_image.get(metric.name)
        if values is None:
            return None
        if values.ndim > 1:
            values = values[:, self.counts.index(count)]
        return dict(zip(self.per_image["keys"].tolist(), values.tolist()))


_Column = tuple[Metric, int]  # With this number of samples.
_GED = Metric("ged", "energy distance", "low")
_FLOOR = "(floor)"
_BOUNDS = ("mean", "low", "high")


def read(path: files.Path, name: str | None = None) -> Results:
    """Reads the results in a directory.

    Args:
        path: the `out_dir` of an evaluation, or its `results.json`.
        name: for the table; the model's name by default.

    Raises:
        FileNotFoundError: there are none.
        ValueError: they are damaged.
    """
    path = pathlib.Path(path)
    if path.name == "results.json":
        path = path.parent
    summary = files.read_json(path / "results.json", "results of an evaluation")
    sections = {"ged", "protocol", "data", "model"}
    if not sections <= set(summary):
        raise ValueError(
            f"{path / 'results.json'}: has {sorted(summary)}, expected at least "
            f"{sorted(sections)}"
        )
    files.check_fields(summary, {s: [dict] for s in sections}, path / "results.json")
    files.check_fields(summary["model"], {"name": [str]}, path / "results.json")
    per_image = arrays.read_npz(path / "per_image.npz")
    _check_per_image(per_image, path / "per_image.npz")
    return Results(path, name or summary["model"]["name"], summary, per_image)


def _check_per_image(per_image: dict[str, np.ndarray], path: pathlib.Path) -> None:
    missing = {"keys", "counts", "ged"} - set(per_image)
    if missing:
        raise ValueError(f"{path}: lacks {sorted(missing)}")
    keys, counts = per_image["keys"], per_image["counts"]
    if keys.ndim != 1 or keys.dtype.kind != "U" or len(set(keys.tolist())) < len(keys):
        raise ValueError(f"{path}: keys are no list of different names")
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or not len(counts):
        raise ValueError(f"{path}: counts are no list of whole numbers")
    if len(counts) > MAX_SAMPLES:
        raise ValueError(f"{path}: {len(counts)} counts, expected up to {MAX_SAMPLES}")
    shapes = [(len(keys), len(counts)), (len(keys),)]
    for name in ("ged", *(metric.name for metric in METRICS)):
        array = per_image.get(name, per_image["ged"])
        expected = shapes[:1] if name == "ged" else shapes
        if array.dtype.kind not in "biuf" or array.shape not in expected:
            raise ValueError(
                f"{path}: {name} is {array.dtype}{list(array.shape)}, expected numbers "
                f"for {len(keys)} images and {len(counts)} counts"
            )


def read_all(
    paths: Sequence[files.Path], names: Sequence[str] | None = None
) -> list[Results]:
    """Reads several results and checks that they can be compared.

    Args:
        paths: directories.
        names: for the table. By default the models' names; where two are alike, the
            paths.

    Raises:
        FileNotFoundError: there are none in a directory.
        ValueError: fewer than two, or data or protocol differ.
    """
    if len(paths) < 2:
        raise ValueError(f"got {len(paths)} results, expected at least two to compare")
    if names and len(names) != len(paths):
        raise ValueError(f"got {len(names)} names, expected {len(paths)}")
    found = [read(path) for path in paths]
    for other in found[1:]:
        check_comparable(found[0], other)
    names = list(names or (result.name for result in found))
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    if len(set(names)) < len(names):
        raise ValueError(f"results are {names}, expected each of them once")
    return [dataclasses.replace(r, name=n) for r, n in zip(found, names)]


def check_comparable(first: Results, second: Results) -> None:
    """Checks that data and protocol are the same.

    Raises:
        ValueError: they are not; the message names the first difference.
    """
    for section, names in (("data", _SAME_DATA), ("protocol", None)):
        one, other = first.summary[section], second.summary[section]
        for name in names or sorted({*one, *other} - _FREE_SETTINGS):
            if one.get(name) != other.get(name):
                raise ValueError(
                    f"{first.path} and {second.path} can not be compared: "
                    f"{section}.{name} is {one.get(name)!r} in the one and "
                    f"{other.get(name)!r} in the other"
                )


def compare(
    results: Sequence[Results], reference: str | None = None
) -> list[dict[str, Any]]:
    """Compares each result with a reference, metric by metric.

    Args:
        results: of `read_all`.
        reference: the name of one of them; the first by default.

    Returns:
        A row for each metric and result: `metric`, `num_samples`, `model`, `mean`,
        `low`, `high`, `best` (whether no other mean is better) and, but for the
        reference and for numbers of the whole data set, `difference` of the means,
        `p_value`, `effect_size` and `pairs`. A row "(floor)" ends each energy distance.
        A metric that only one result has is left out.

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
        present = [r for r in results if r.interval(column) is not None]
        if len(present) > 1:
            rows += _column_rows(column, present, reference)
    return rows


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns aligned columns for the terminal; a star marks the best."""
    return tables.aligned(_cells(rows, lambda text: f"{text} *")) + "\n"


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a Markdown table with the best in bold."""
    return tables.markdown(_cells(rows, lambda text: f"**{text}**")) + "\n"


def _columns(results: Sequence[Results]) -> list[_Column]:
    counts = sorted({count for result in results for count in result.counts})
    metrics = (_GED, *METRICS, *SCALARS)
    return [(metric, count) for metric in metrics for count in counts]


def _column_rows(
    column: _Column, present: Sequence[Results], reference: str
) -> list[dict[str, Any]]:
    metric, count = column
    means = [result.interval(column)["mean"] for result in present]
    means = [mean for mean in means if mean is not None]
    baseline = {r.name: r.values(column) for r in present}.get(reference)
    rows = []
    for result in present:
        interval, values = result.interval(column), result.values(column)
        row = _row(column, result.name, interval)
        row["best"] = _is_best(interval["mean"], means, metric.best)
        if result.name != reference and values and baseline:
            row.update(_paired(values, baseline))
        rows.append(row)
    floor = present[0].floor(count)
    if metric is _GED and floor is not None:
        rows.append({**_row(column, _FLOOR, floor), "best": False})
    return rows


def _row(column: _Column, name: str, interval: dict[str, Any]) -> dict[str, Any]:
    metric, count = column
    bounds = {bound: interval[bound] for bound in _BOUNDS}
    return {"metric": metric.title, "num_samples": count, "model": name, **bounds}


def _is_best(mean: float | None, means: list[float], best: str | None) -> bool:
    if best is None or mean is None:
        return False
    return mean == (min(means) if best == "low" else max(means))


def _paired(first: dict[str, float], second: dict[str, float]) -> dict[str, Any]:
    """Tests on the images on which both have a value (with "drop" not all do)."""
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
