"""A table of models: energy distances, other scores, paired tests and times."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.results_dir import Results, lookup
from tf_probunet.evaluation import compare, tables

COUNTS = (1, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model in the table.

    Attributes:
        results: of its evaluation; their name is used in the table.
        training_seconds: the time of all its trainings.
        sampling_seconds: the time for `samples_timed` samples of one image.
        samples_timed: 16, or the largest number of samples of the model.
        many: the results with a single number of samples above 16; None if there are
            none.
        chosen: the results of 16 stratified or weighted samples; None if there are
            none.
        multiply_adds: of the samples that are timed; None if it is not known.
        seeds: the results of all trainings of the model, `results` among them.
    """

    results: Results
    training_seconds: float
    sampling_seconds: float
    samples_timed: int
    many: Results | None = None
    chosen: Results | None = None
    multiply_adds: int | None = None
    seeds: Sequence[Results] = ()


def table(entries: Sequence[Entry], reference: str) -> list[list[str]]:
    """Returns the table as rows of cells; the first row is the header.

    Args:
        entries: the models, in the order of the rows.
        reference: the name of the model that the others are tested against.

    Returns:
        The rows. The smallest energy distance of each column is in bold. The distances
        for 16 samples have 95 % intervals. The p-values are those of Wilcoxon's
        signed-rank test on the energy distances of the images, for the largest number
        of samples up to 16 that both models have. "chosen 16" are 16 stratified (s) or
        weighted (w) samples. "modes 16" is the distance of 16 samples from the exact
        modes. "seeds" is the energy distance of the largest number of samples up to 16
        as mean and standard deviation over the trainings.

    Raises:
        ValueError: there is no such reference, or the results can't be compared.
    """
    first = entries[0].results
    many = [entry.many for entry in entries if entry.many is not None]
    results_dir.check_comparable([*(entry.results for entry in entries), *many])
    rows = compare.compare([entry.results for entry in entries], reference)
    p_values = {
        (row["model"], row["num_samples"]): row["p_value"]
        for row in rows
        if row["metric"] == "energy distance" and "p_value" in row
    }
    counts = sorted({*COUNTS, *(count for found in many for count in found.counts)})
    distances = [_distances(entry) for entry in entries]
    floors = _intervals([first, *many], "floor")
    head = ["model", *(f"GED {count}" for count in counts), "p", "HM-IoU"]
    head += [_ambiguity_title(first), "ECE", "training", "16 samples", "parameters"]
    head += ["presence ECE", "chosen 16", "modes 16", "multiply-adds", "seeds"]
    floor = ["(floor)", *(_number(_mean(floors.get(count))) for count in counts)]
    floor += ["-"] * (len(head) - len(floor))
    columns = [_column([found.get(c) for found in distances], c) for c in counts]
    table_rows = [
        _row(entry, list(cells), p_values)
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


def _row(entry: Entry, distances: list[str], p_values: dict) -> list[str]:
    results = entry.results
    tested = [p_values.get((results.name, count)) for count in COUNTS]
    tested = [p_value for p_value in tested if p_value is not None]
    accuracy = lookup(results.summary, "ambiguity.accuracy")
    sampling = f"{1e3 * entry.sampling_seconds:.0f} ms"
    if entry.samples_timed != COUNTS[-1]:
        sampling += f" ({entry.samples_timed})"
    return [
        results.name,
        *distances,
        f"{tested[-1]:.1e}" if tested else "-",
        _number(lookup(results.summary, "hungarian_iou.mean")),
        "-" if accuracy is None else f"{100 * accuracy:.1f} %",
        _number(lookup(results.summary, "calibration.marked_pixels.ece")),
        f"{entry.training_seconds / 60:.1f} min",
        sampling,
        f"{results.summary['model']['parameters'] / 1e6:.2f} M",
        _number(lookup(results.summary, "calibration.presence.ece")),
        _chosen(entry.chosen),
        _number(lookup(results.summary, f"exact_modes.ged.{COUNTS[-1]}.mean")),
        "-" if entry.multiply_adds is None else f"{entry.multiply_adds / 1e9:.2f} G",
        _over_seeds(entry.seeds),
    ]


def _chosen(results: Results | None) -> str:
    if results is None:
        return "-"
    (interval,) = _intervals([results], "ged").values()
    return f"{interval['mean']:.3f} ({results.sampling[0]})"


def _over_seeds(seeds: Sequence[Results]) -> str:
    """Returns mean and standard deviation of the energy distance over trainings."""
    if len(seeds) < 2:
        return "-"
    most = max(count for count in _intervals(seeds[:1], "ged") if count <= COUNTS[-1])
    means = [_intervals([found], "ged")[most]["mean"] for found in seeds]
    spread = statistics.stdev(means)
    return f"{statistics.mean(means):.3f} ± {spread:.3f} ({len(means)})"


def _ambiguity_title(results: Results) -> str:
    always = lookup(results.summary, "ambiguity.always_ambiguous")
    known = "" if always is None else f" (always: {100 * always:.1f} %)"
    return f"ambiguity{known}"


def _distances(entry: Entry) -> dict[int, dict]:
    """Returns `mean`, `low` and `high` by number of samples."""
    return _intervals([r for r in (entry.results, entry.many) if r], "ged")


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
