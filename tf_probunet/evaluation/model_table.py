"""A table of models: energy distances, other scores, paired tests and times."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.results_dir import Results, lookup
from tf_probunet.evaluation import compare, summary, tables

COUNTS = (1, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model in the table.

    Attributes:
        results: of the evaluation of each training, one for each seed. The name of the
            first is used in the table.
        training_seconds: the processor time of a training.
        sampling_seconds: the time for `samples_timed` samples of one image.
        samples_timed: 16, or the largest number of samples of the model.
        many: the results with a single number of samples above 16, of each training;
            empty if there are none.
        chosen: the results of 16 stratified or weighted samples, of each training;
            empty if there are none.
        multiply_adds: of the samples that are timed; None if it is not known.
    """

    results: Sequence[Results]
    training_seconds: float
    sampling_seconds: float
    samples_timed: int
    many: Sequence[Results] = ()
    chosen: Sequence[Results] = ()
    multiply_adds: int | None = None

    @property
    def name(self) -> str:
        """The title of the row."""
        return self.results[0].name


def table(entries: Sequence[Entry], reference: str) -> list[list[str]]:
    """Returns the table as rows of cells; the first row is the header.

    Args:
        entries: the models, in the order of the rows.
        reference: the name of the model that the others are tested against.

    Returns:
        The rows. All scores are means over the trainings of a model. The smallest
        energy distance of each column is in bold. The distances for 16 samples have
        95 % intervals. "difference" is that of the energy distances of a model and the
        reference, with a 95 % interval, and "p" the p-value of Wilcoxon's signed-rank
        test. Both use the largest number of samples up to 16 that the two models have,
        and average the energy distance of each image over the trainings first.
        Intervals resample groups, such as patients, if there are enough of them.
        "chosen 16" are 16 stratified (s) or weighted (w) samples. "modes 16" is the
        distance of 16 samples from the exact modes. "seeds" is the standard deviation
        of the energy distance over the trainings, for the largest number of samples up
        to 16, and their number.

    Raises:
        ValueError: there is no such reference, or the results can't be compared.
    """
    first = entries[0].results[0]
    many = [found for entry in entries for found in entry.many]
    results = [found for entry in entries for found in entry.results]
    results_dir.check_comparable([*results, *many])
    against = {entry.name: entry for entry in entries}.get(reference)
    if against is None:
        names = ", ".join(entry.name for entry in entries)
        raise ValueError(f"reference is {reference!r}, expected one of {names}")
    counts = sorted({*COUNTS, *(count for found in many for count in found.counts)})
    distances = [_distances(entry) for entry in entries]
    floors = _intervals([first, *many], "floor")
    head = ["model", *(f"GED {count}" for count in counts), "difference", "p", "HM-IoU"]
    head += [_ambiguity_title(first), "ECE", "training", "16 samples", "parameters"]
    head += ["presence ECE", "chosen 16", "modes 16", "multiply-adds", "seeds"]
    floor = ["(floor)", *(_number(_mean(floors.get(count))) for count in counts)]
    floor += ["-"] * (len(head) - len(floor))
    columns = [_column([found.get(c) for found in distances], c) for c in counts]
    table_rows = [
        _row(entry, list(cells), against)
        for entry, cells in zip(entries, zip(*columns))
    ]
    return [head, *table_rows, floor]


def to_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as Markdown."""
    return tables.markdown(rows) + "\n"


def to_text(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as aligned columns; a star marks the best."""
    plain = [[_unbold(cell) for cell in row] for row in rows]
    return tables.aligned(plain) + "\n"


def _row(entry: Entry, distances: list[str], reference: Entry) -> list[str]:
    results = entry.results
    accuracy = _over_seeds(results, "ambiguity.accuracy")
    sampling = f"{1e3 * entry.sampling_seconds:.0f} ms"
    if entry.samples_timed != COUNTS[-1]:
        sampling += f" ({entry.samples_timed})"
    return [
        entry.name,
        *distances,
        *_tested(entry, reference),
        _number(_over_seeds(results, "hungarian_iou.mean")),
        "-" if accuracy is None else f"{100 * accuracy:.1f} %",
        _number(_over_seeds(results, "calibration.marked_pixels.ece")),
        f"{entry.training_seconds / 60:.1f} min",
        sampling,
        f"{results[0].summary['model']['parameters'] / 1e6:.2f} M",
        _number(_over_seeds(results, "calibration.presence.ece")),
        _chosen(entry.chosen),
        _number(_over_seeds(results, f"exact_modes.ged.{COUNTS[-1]}.mean")),
        "-" if entry.multiply_adds is None else f"{entry.multiply_adds / 1e9:.2f} G",
        _spread(results),
    ]


def _tested(entry: Entry, reference: Entry) -> tuple[str, str]:
    """Returns the difference from the reference and its p-value."""
    counts = {*entry.results[0].counts} & {*reference.results[0].counts} & {*COUNTS}
    if entry is reference or not counts:
        return "-", "-"
    ours, theirs = (_per_image(e.results, max(counts)) for e in (entry, reference))
    test = compare.paired(ours, theirs)
    if not test:
        return "-", "-"
    apart = {key: ours[key] - theirs[key] for key in ours}
    interval = _resampled(apart, entry.results[0])
    mean, low, high = (f"{interval[name]:+.3f}" for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]", f"{test['p_value']:.1e}"


def _per_image(results: Sequence[Results], count: int) -> dict[str, float]:
    """Averages the energy distance of each image over trainings."""
    values = [found.values("ged", count) or {} for found in results]
    return {key: statistics.fmean(v[key] for v in values) for key in values[0]}


def _resampled(values: Mapping[str, float], results: Results) -> dict[str, Any]:
    """Returns the mean of values of images and its interval, by groups."""
    keys = results.per_image["keys"]
    groups = results.per_image.get("groups", keys)
    if summary.resampled(groups) == "images":
        groups = keys
    column = np.array([values[key] for key in keys.tolist()])
    return summary.intervals({"": column}, groups)[""]


def _chosen(results: Sequence[Results]) -> str:
    if not results:
        return "-"
    (count,) = _intervals(results[:1], "ged")
    mean = _over_seeds(results, f"ged.{count}.mean")
    return f"{_number(mean)} ({results[0].sampling[0]})"


def _over_seeds(results: Sequence[Results], name: str) -> float | None:
    """Averages a number over trainings; None if one of them lacks it."""
    found = [lookup(one.summary, name) for one in results]
    numbers = [number for number in found if number is not None]
    return statistics.fmean(numbers) if len(numbers) == len(results) else None


def _spread(results: Sequence[Results]) -> str:
    """Returns the standard deviation of the energy distance, and how many there are."""
    if len(results) < 2:
        return "-"
    most = max(count for count in _intervals(results[:1], "ged") if count <= COUNTS[-1])
    means = [_intervals([found], "ged")[most]["mean"] for found in results]
    return f"± {statistics.stdev(means):.3f} ({len(means)})"


def _ambiguity_title(results: Results) -> str:
    always = lookup(results.summary, "ambiguity.always_ambiguous")
    known = "" if always is None else f" (always: {100 * always:.1f} %)"
    return f"ambiguity{known}"


def _distances(entry: Entry) -> dict[int, dict]:
    """Returns `mean`, `low` and `high` by number of samples."""
    if len(entry.results) == 1:
        return _intervals([*entry.results, *entry.many], "ged")
    return {
        count: _resampled(_per_image(results, count), results[0])
        for results in (entry.results, entry.many)
        if results
        for count in results[0].counts
    }


def _intervals(results: Sequence[Results], name: str) -> dict[int, dict]:
    return {
        int(count): value
        for found in results
        for count, value in found.summary.get(name, {}).items()
    }


def _column(intervals: Sequence[dict | None], count: int) -> list[str]:
    """Returns a column of energy distances, with the smallest in bold."""
    least = min((i["mean"] for i in intervals if i is not None), default=None)
    cells = []
    for interval in intervals:
        text = _number(_mean(interval))
        if interval is not None and interval["mean"] == least:
            text = f"**{text}**"
        if interval is not None and count == COUNTS[-1]:
            text += f" {tables.bounds(interval)}"
        cells.append(text)
    return cells


def _mean(interval: dict | None) -> float | None:
    return None if interval is None else interval["mean"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _unbold(cell: str) -> str:
    if not cell.startswith("**"):
        return cell
    number, _, rest = cell[2:].partition("**")
    return f"{number}{rest} *"
