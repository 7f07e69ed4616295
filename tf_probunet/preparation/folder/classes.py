"""Which values and colours of masks are which class."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet import files
from tf_probunet.dataset.records import IGNORE_LABEL
from tf_probunet.preparation.folder import tables
from tf_probunet.preparation.folder.masks import MAX_VALUES, RawMask

# The name of the class whose pixels are not counted.
IGNORE_NAME = "ignore"
BACKGROUND = "background"

_WHAT = "table of classes"
_HEX = re.compile(r"#?([0-9a-fA-F]{6})")
_TRIPLE = re.compile(r"(\d{1,3})[ ,;/]+(\d{1,3})[ ,;/]+(\d{1,3})")
_MAX_LISTED = 8
_MAX_VALUE = 2**16 - 1


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes, and how masks show them.

    Attributes:
        names: of the labels 0, 1, ...
        by_value: the label of each value.
        by_color: the label of each colour, as red * 65536 + green * 256 + blue.
    """

    names: tuple[str, ...]
    by_value: Mapping[int, int]
    by_color: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def ignore_label(self) -> int | None:
        """The label of ignored pixels, or None if there are none."""
        labels = {*self.by_value.values(), *self.by_color.values()}
        return IGNORE_LABEL if IGNORE_LABEL in labels else None

    def to_json(self) -> dict[str, Any]:
        """Returns the values and colours of each class, for the description."""
        return {
            "values": {str(v): label for v, label in sorted(self.by_value.items())},
            "colors": {
                f"#{color:06x}": label for color, label in sorted(self.by_color.items())
            },
        }

    def to_labels(self, mask: RawMask, path: files.Path) -> np.ndarray:
        """Returns the label map [H, W] uint8 of a mask.

        Raises:
            ValueError: a value or colour is of no class.
        """
        readings: list[tuple[np.ndarray, Mapping[int, int], Callable[[int], str]]] = []
        if mask.values is not None and self.by_value:
            readings.append((mask.values, self.by_value, str))
        if mask.colors is not None and self.by_color:
            readings.append((codes(mask.colors), self.by_color, _color))
        elif mask.values is not None and not self.by_value:
            grey = codes(np.repeat(mask.values[..., None], 3, axis=2))
            readings.append((grey, self.by_color, _color))
        if not readings:
            raise ValueError(
                f"{path}: a mask in colours, expected the column 'color' in the table "
                "of classes"
            )
        labels = _read_one_way(readings, mask, path)
        return labels if mask.transparent is None else labels * ~mask.transparent


def read(path: files.Path) -> Classes:
    """Reads a table of classes: a CSV file with the columns name, value and color.

    One of value and color is enough. The first row is label 0. Rows of the same name
    are one class. Pixels of the class "ignore" do not count.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not such a table.
    """
    path = pathlib.Path(path)
    names, rows = tables.read(path, _WHAT)
    names = ["color" if name == "colour" else name for name in names]
    if "name" not in names or not {"value", "color"} & set(names):
        raise ValueError(
            f"{path}: the columns {names[:8]}, expected name and at least one of value "
            "and color"
        )
    labels: dict[str, int] = {}
    by_value: dict[int, int] = {}
    by_color: dict[int, int] = {}
    for row in rows:
        name = row.cells["name"]
        if not name or not name.isprintable():
            raise ValueError(f"{path}: line {row.line} has no name of a class")
        label = IGNORE_LABEL
        if name.lower() != IGNORE_NAME:
            label = labels.setdefault(name, len(labels))
        value = row.cells.get("value", "")
        color = row.cells.get("color", row.cells.get("colour", ""))
        if not value and not color:
            raise ValueError(
                f"{path}: line {row.line}, class {name!r}, has neither value nor color"
            )
        for text, parse, known in ((value, _value, by_value), (color, _code, by_color)):
            if text:
                code = parse(text, f"{path}: line {row.line}")
                if code in known:
                    raise ValueError(
                        f"{path}: line {row.line} has {text}, which an earlier line has"
                    )
                known[code] = label
    if not 2 <= len(labels) <= IGNORE_LABEL:
        raise ValueError(
            f"{path}: {len(labels)} classes besides {IGNORE_NAME!r}, expected 2 to "
            f"{IGNORE_LABEL}; the first is the background"
        )
    return Classes(tuple(labels), by_value, by_color)


def nested(names: Sequence[str]) -> Classes:
    """Returns the classes of binary masks that are painted over each other."""
    return Classes((BACKGROUND, *names), {})


def guess(values_by_file: Mapping[str, Iterable[int] | None]) -> Classes:
    """Returns the classes of masks without a table.

    Masks with a single value besides 0 are binary. Those with 0, 1, 2, ... hold the
    labels themselves.

    Args:
        values_by_file: the values in each mask; None for a mask of colours.

    Raises:
        ValueError: the masks need a table.
    """
    in_color = [name for name, values in values_by_file.items() if values is None]
    if in_color:
        raise ValueError(
            f"{in_color[0]}: a mask in colours (there are {len(in_color)}); say which "
            "color is which class with --classes=classes.csv"
        )
    files_of: dict[int, list[str]] = collections.defaultdict(list)
    for name, values in values_by_file.items():
        for value in values or ():
            files_of[value].append(name)
    found = sorted(files_of)
    marks = [value for value in found if value != 0]
    if not marks:
        raise ValueError(
            f"no mask marks anything: all {len(values_by_file)} hold only 0"
        )
    both = set(files_of[1]) & set(files_of[255]) if marks == [1, 255] else {""}
    if len(marks) == 1 or not both:
        return Classes((BACKGROUND, "foreground"), {0: 0, **dict.fromkeys(marks, 1)})
    if found == list(range(len(found))):
        names = (BACKGROUND, *(f"class_{value}" for value in marks))
        return Classes(names, {value: value for value in found})
    rare = min(marks, key=lambda value: (len(files_of[value]), value))
    listed = ", ".join(map(str, found[:_MAX_LISTED]))
    more = ", ..." if len(found) > _MAX_LISTED else ""
    raise ValueError(
        f"masks hold the values {listed}{more} (the rarest, {rare}, in "
        f"{len(files_of[rare])} files, such as {files_of[rare][0]}), expected 0 and "
        "one other, or 0, 1, 2, ...; say which value is which class with "
        "--classes=classes.csv"
    )


def values_in(mask: RawMask, path: files.Path) -> list[int] | None:
    """Returns the values in a mask; None if it holds colours.

    Raises:
        ValueError: there are too many for a map of classes.
    """
    if mask.values is None or (mask.colors is not None and not mask.starts_black):
        return None
    found = np.flatnonzero(np.bincount(mask.values.ravel()))
    if len(found) > MAX_VALUES:
        raise ValueError(_too_many(path, len(found), found))
    return [int(value) for value in found]


def codes(colors: np.ndarray) -> np.ndarray:
    """Returns [H, W] int32: a number for each colour of [H, W, 3]."""
    return colors.astype(np.int32) @ np.array([65536, 256, 1], np.int32)


def _too_many(path: files.Path, number: int, found: np.ndarray) -> str:
    lossy = pathlib.Path(path).suffix.lower() in (".jpg", ".jpeg")
    why = (
        "JPEG blurs masks: use PNG, or --mask_threshold=128 for a binary one"
        if lossy
        else "is it a picture?"
    )
    return (
        f"{path}: a mask with {number} different values from {found[0]} to "
        f"{found[-1]}, expected at most {MAX_VALUES}; {why}"
    )


def _read_one_way(
    readings: Sequence[tuple[np.ndarray, Mapping[int, int], Any]],
    mask: RawMask,
    path: files.Path,
) -> np.ndarray:
    """Reads a mask by its values or by its colours, whichever the table knows.

    Raises:
        ValueError: it knows neither, or both mean different classes.
    """
    found, errors = [], []
    for numbers, table, show in readings:
        try:
            found.append(_mapped(numbers, table, mask, path, show))
        except ValueError as error:
            errors.append(error)
    if not found:
        raise errors[-1]
    if not (found[0] == found[-1]).all():
        raise ValueError(
            f"{path}: its values and its colours mean different classes; leave one of "
            "the columns value and color out"
        )
    return found[0]


def _mapped(
    numbers: np.ndarray,
    table: Mapping[int, int],
    mask: RawMask,
    path: files.Path,
    show: Any,
) -> np.ndarray:
    if numbers.max() <= _MAX_VALUE:  # Much quicker than sorting all pixels.
        found, where = np.flatnonzero(np.bincount(numbers.ravel())), None
    else:
        found, where = np.unique(numbers, return_inverse=True)
    unknown = [int(number) for number in found if int(number) not in table]
    if unknown and mask.transparent is not None:
        seen = set(np.unique(numbers[~mask.transparent]).tolist())
        unknown = [number for number in unknown if number in seen]
    if unknown:
        raise ValueError(
            f"{path}: {show(unknown[0])} in {np.count_nonzero(numbers == unknown[0])} "
            f"pixels is of no class ({len(unknown)} such in this mask), expected "
            f"{', '.join(show(n) for n in sorted(table)[:_MAX_LISTED])}"
            + (", ..." if len(table) > _MAX_LISTED else "")
        )
    labels = np.array([table.get(int(number), 0) for number in found], np.uint8)
    if where is None:
        by_number = np.zeros(int(found[-1]) + 1, np.uint8)
        by_number[found] = labels
        return by_number[numbers]
    return labels[where.reshape(numbers.shape)]


def _value(text: str, where: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= 5
    if not digits or int(text) > _MAX_VALUE:
        raise ValueError(f"{where} has the value {text!r}, expected 0 to {_MAX_VALUE}")
    return int(text)


def _code(text: str, where: str) -> int:
    if match := _HEX.fullmatch(text):
        return int(match[1], 16)
    match = _TRIPLE.fullmatch(text.strip("()[] "))
    parts = [int(part) for part in match.groups()] if match else [256]
    if max(parts) > 255:
        raise ValueError(
            f"{where} has the color {text!r}, expected #rrggbb, or red, green and blue "
            "from 0 to 255 such as '255 0 0'"
        )
    return parts[0] << 16 | parts[1] << 8 | parts[2]


def _color(code: int) -> str:
    return f"#{code:06x}"
