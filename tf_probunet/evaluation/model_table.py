"""One line per model: energy distances, ambiguity, times, parameters, paired tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tf_probunet.evaluation import compare, tables
from tf_probunet.evaluation.results import lookup

COUNTS = (1, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model in the table.

    Attributes:
        results: of its evaluation, with the name for the table.
        training_seconds: of all its trainings.
        sampling_seconds: for `samples_timed` samples of one image.
        samples_timed: 16, or as many as the model has.
    """

    results: compare.Results
    training_seconds: float
    sampling_seconds: float
    samples_timed: int


def table(entries: Sequence[Entry], reference: str) -> list[list[str]]:
    """Returns the table as rows of cells, the first its head.

    Args:
        entries: the models, in the order of the rows.
        reference: the name of the one that the others are tested against.

    Returns:
        The smallest energy distance of each column is in bold. A p-value is of
        Wilcoxon's signed-rank test over the images' energy distances with the most
        samples that both models have.

    Raises:
        ValueError: there is no such reference, or the results can't be compared.
    """
    first = entries[0].results
    for entry in entries[1:]:
        compare.check_comparable(first, entry.results)
    rows = compare.compare([entry.results for entry in entries], reference)
    p_values = {
        (row["model"], row["num_samples"]): row["p_value"]
        for row in rows
        if row["metric"] == "energy distance" and "p_value" in row
    }
    means = [_means(entry.results.summary["ged"]) for entry in entries]
    least = {c: min((m[c] for m in means if c in m), default=None) for c in COUNTS}
    head = ["model", *(f"GED {count}" for count in COUNTS), "p", "ambiguity"]
    head += ["training", "16 samples", "parameters"]
    floors = _means(first.summary.get("floor", {}))
    floor = ["(floor)", *(_number(floors.get(count)) for count in COUNTS)]
    floor += ["-"] * (len(head) - len(floor))
    table_rows = [
        _row(entry, [_ged(m.get(c), least[c]) for c in COUNTS], p_values)
        for entry, m in zip(entries, means)
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
        "-" if accuracy is None else f"{100 * accuracy:.1f} %",
        f"{entry.training_seconds:.0f} s",
        sampling,
        f"{results.summary['model']['parameters'] / 1e6:.2f} M",
    ]


def _means(by_count: dict) -> dict[int, float]:
    return {int(count): value["mean"] for count, value in by_count.items()}


def _ged(mean: float | None, least: float | None) -> str:
    text = _number(mean)
    return f"**{text}**" if mean is not None and mean == least else text


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _unbold(cell: str) -> str:
    return f"{cell[2:-2]} *" if cell.startswith("**") else cell
