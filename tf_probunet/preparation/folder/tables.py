"""Reads CSV files: lists of images and masks, and tables of classes."""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib

from tf_probunet import files, limits

# A character takes up to four bytes, a cell a Python object, a row a dict.
_BYTES_RATIO = 60
_DELIMITERS = ",;\t"


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        line: its number in the file, from 1.
        cells: texts by the names of their columns, without spaces around them.
    """

    line: int
    cells: dict[str, str]


def read(path: files.Path, what: str) -> tuple[list[str], list[Row]]:
    """Reads a CSV file with names of columns in its first line.

    Columns are separated by commas, semicolons or tabs, whichever the first line has
    most of. Names of columns are read in lower case. Empty lines are skipped.

    Args:
        path: the file.
        what: what it is, for the error messages.

    Returns:
        The names of the columns, and the rows.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not such a table.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such {what}")
    limits.check(_BYTES_RATIO * path.stat().st_size, f"{path}: as {what}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {what} that is not UTF-8 text ({error})") from None
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    rows: list[Row] = []
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if not names:
                names = [cell.lower() for cell in cells]
                _check_names(names)
                continue
            if len(cells) != len(names):
                raise ValueError(
                    f"line {reader.line_num} has {len(cells)} cells, expected "
                    f"{len(names)} as in the first line"
                )
            rows.append(Row(reader.line_num, dict(zip(names, cells))))
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path}: not a valid {what} ({error})") from None
    if not rows:
        raise ValueError(
            f"{path}: {what} without a row, expected names of columns and rows"
        )
    return names, rows


def _check_names(names: list[str]) -> None:
    if not all(names):
        raise ValueError("a column without a name in its first line")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two columns are called {twice[0]!r}")
