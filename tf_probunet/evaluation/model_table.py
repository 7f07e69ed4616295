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
    energy = {
        (row["model"], row["num_samples"]): row
        for row in rows
        if row["metric"] == "energy distance"
    }
    head = ["model", *(f"GED {count}" for count in COUNTS), "p", "ambiguity"]
    head += ["training", "16 samples", "parameters"]
    floor = ["(floor)", *(_ged(energy.get(("(floor)", c))) for c in COUNTS)]
    floor += ["-"] * (len(head) - len(floor))
    return [head, *(_row(entry, energy) for entry in entries), floor]


def to_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as Markdown."""
    return tables.markdown(rows) + "\n"


def to_text(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as aligned columns; a star marks the best."""
    plain = [[_unbold(cell) for cell in row] for row in rows]
    return tables.aligned(plain) + "\n"


def _row(entry: Entry, energy: dict) -> list[str]:
    results = entry.results
    mine = {count: energy.get((results.name, count)) for count in COUNTS}
    tested = [row for row in mine.values() if row and "p_value" in row]
    p_value = f"{tested[-1]['p_value']:.1e}" if tested else "-"
    accuracy = lookup(results.summary, "ambiguity.accuracy")
    sampling = f"{1e3 * entry.sampling_seconds:.0f} ms"
    if entry.samples_timed != COUNTS[-1]:
        sampling += f" ({entry.samples_timed})"
    return [
        results.name,
        *(_ged(mine[count]) for count in COUNTS),
        p_value,
        "-" if accuracy is None else f"{100 * accuracy:.1f} %",
        f"{entry.training_seconds:.0f} s",
        sampling,
        f"{results.summary['model']['parameters'] / 1e6:.2f} M",
    ]


def _ged(row: dict | None) -> str:
    if row is None:
        return "-"
    text = f"{row['mean']:.3f}"
    return f"**{text}**" if row["best"] else text


def _unbold(cell: str) -> str:
    return f"{cell[2:-2]} *" if cell.startswith("**") else cell
