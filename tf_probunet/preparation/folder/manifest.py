"""Reads a CSV list of images and masks, with a row for each image or for each mask."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Sequence

from tf_probunet import files
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.folder import tables
from tf_probunet.preparation.folder.cases import (
    SPLIT_NAMES,
    Case,
    Found,
    MaskFile,
    fits,
    name_without_suffix,
    natural,
    without_duplicates,
)
from tf_probunet.preparation.folder.config import FolderConfig

_WHAT = "list of images and masks"
_LONG = ("image", "mask", "grader", "class", "group", "split", "key")
_WIDE = ("image", "group", "split", "key")
_EXPECTED = (
    "expected the columns image,mask_1,mask_2,... with a row for each image, or "
    "image,mask,grader with a row for each mask"
)


def find(path: pathlib.Path, root: pathlib.Path, config: FolderConfig) -> Found:
    """Reads the list.

    Args:
        path: the CSV file.
        root: the directory that its paths are relative to.
        config: has the nested classes and the pattern of masks.

    Returns:
        The cases, sorted by key. A file that is missing is a problem.

    Raises:
        FileNotFoundError: there is no such list.
        ValueError: it has other columns, or contradicts itself.
    """
    names, rows = tables.read(path, _WHAT)
    if "image" not in names:
        raise ValueError(f"{path}: no column 'image' among {names[:8]}; {_EXPECTED}")
    columns = [name for name in names if name.startswith("mask_")]
    if ("mask" in names) == bool(columns):
        raise ValueError(f"{path}: the columns {names[:8]}; {_EXPECTED}")
    if columns:
        known = {*_WIDE, *columns}
        masks = [
            (row, *_wide_grader(column, config, path), row.cells[column])
            for row in rows
            for column in columns
            if row.cells[column]
        ]
    else:
        known = set(_LONG)
        masks = _long_masks(rows, names, config, path)
    if config.mask_pattern is not None:
        masks = [mask for mask in masks if fits(mask[3], config.mask_pattern)]
    problems = [
        Problem("column not read", f"{path.name}: {name}", expected=True)
        for name in names
        if name not in known
    ]
    if columns:
        _check_once(rows, path)
    by_image = collections.defaultdict(list)
    for row, grader, class_name, mask in masks:
        by_image[row.cells["image"]].append((grader, class_name, mask, row.line))
    cases = []
    for image, same in _by_image(rows, path).items():
        case = _case(image, same, by_image[image], root, path, problems)
        if case is not None:
            cases.append(case)
    _check_splits(cases, path)
    cases, duplicates = without_duplicates(cases)
    cases.sort(key=lambda case: natural(case.key))
    return Found("manifest", cases, problems + duplicates)


def _wide_grader(
    column: str, config: FolderConfig, path: pathlib.Path
) -> tuple[str, str | None]:
    """Returns grader and class of a column such as mask_1 or mask_1_cup."""
    grader = column[len("mask_") :]
    if not config.nested_names:
        return grader, None
    for name in config.nested_names:
        if grader.endswith(f"_{name.lower()}"):
            return grader[: -len(name) - 1], name
    raise ValueError(
        f"{path}: column {column!r}, expected mask_GRADER_CLASS with one of the "
        f"classes {', '.join(config.nested_names)}"
    )


def _long_masks(
    rows: Sequence[tables.Row],
    names: Sequence[str],
    config: FolderConfig,
    path: pathlib.Path,
) -> list[tuple[tables.Row, str, str | None, str]]:
    needed = ["grader"] + (["class"] if config.nested_names else [])
    for name in needed:
        if name not in names:
            raise ValueError(f"{path}: no column {name!r} next to 'mask'; {_EXPECTED}")
    if "class" in names and not config.nested_names:
        raise ValueError(
            f"{path}: a column 'class', expected --nested_classes with the classes, "
            "the outer one first"
        )
    classes = {name.casefold(): name for name in config.nested_names}
    masks = []
    for row in rows:
        class_name = None
        if classes:
            class_name = classes.get(row.cells["class"].casefold())
            if class_name is None:
                raise ValueError(
                    f"{path}: line {row.line} has the class {row.cells['class']!r}, "
                    f"expected one of {', '.join(classes.values())}"
                )
        if not row.cells["grader"] or not row.cells["mask"]:
            raise ValueError(
                f"{path}: line {row.line} lacks a mask or a grader, expected both"
            )
        masks.append((row, row.cells["grader"], class_name, row.cells["mask"]))
    return masks


def _check_once(rows: Sequence[tables.Row], path: pathlib.Path) -> None:
    lines: dict[str, int] = {}
    for row in rows:
        first = lines.setdefault(row.cells["image"], row.line)
        if first != row.line:
            raise ValueError(
                f"{path}: lines {first} and {row.line} are both about "
                f"{row.cells['image']}, expected one row for each image"
            )


def _by_image(
    rows: Sequence[tables.Row], path: pathlib.Path
) -> dict[str, list[tables.Row]]:
    """Returns the rows of each image, which must agree on group, split and key."""
    found = collections.defaultdict(list)
    for row in rows:
        if not row.cells["image"]:
            raise ValueError(f"{path}: line {row.line} has no image")
        found[row.cells["image"]].append(row)
    for image, same in found.items():
        for name in ("group", "split", "key"):
            values = {row.cells.get(name, "") for row in same}
            if len(values) > 1:
                raise ValueError(
                    f"{path}: {image} has the {name}s {sorted(values)[:4]}, expected "
                    "one"
                )
    return found


def _case(
    image: str,
    rows: Sequence[tables.Row],
    masks: Sequence[tuple[str, str | None, str, int]],
    root: pathlib.Path,
    path: pathlib.Path,
    problems: list[Problem],
) -> Case | None:
    """Returns the case of an image; None, and a problem, if it can't be used."""
    row = rows[0]
    if not image.isprintable():
        problems.append(
            Problem("name with control characters", ascii(image)[1:-1], "rename it")
        )
        return None
    if not (root / image).exists():
        problems.append(
            Problem("image missing", image, f"{path.name}, line {row.line}")
        )
        return None
    found: dict[tuple[str, str | None], MaskFile] = {}
    for grader, class_name, mask, line in masks:
        where = f"{path.name}, line {line}"
        if not (root / mask).exists():
            problems.append(Problem("mask missing", ascii(mask)[1:-1], where))
        elif (grader, class_name) in found:
            problems.append(
                Problem("second mask of a grader", mask, f"{where}; not used")
            )
        else:
            found[grader, class_name] = MaskFile(grader, mask, class_name)
    if not found:
        problems.append(Problem("image without a mask", image))
        return None
    split = row.cells.get("split", "").lower()
    if split and split not in SPLIT_NAMES:
        raise ValueError(
            f"{path}: line {row.line} has the split {split!r}, expected train, val or "
            "test"
        )
    key = row.cells.get("key") or _key(image)
    if "/" in key or not key.isprintable():
        raise ValueError(
            f"{path}: line {row.line} has the key {key!r}, expected a name without '/'"
        )
    return Case(
        key=key,
        folders=(),
        image=image,
        masks=tuple(sorted(found.values(), key=lambda m: natural(m.grader))),
        split=SPLIT_NAMES.get(split),
        group=row.cells.get("group") or None,
    )


def _key(image: str) -> str:
    path = pathlib.PurePath(os.path.normpath(image))
    parts = [part for part in path.parts if part not in (path.anchor, "..")]
    return "_".join([*parts[:-1], name_without_suffix(parts[-1])])


def _check_splits(cases: Sequence[Case], path: files.Path) -> None:
    for what in ("split", "group"):
        without = [case for case in cases if getattr(case, what) is None]
        if 0 < len(without) < len(cases):
            raise ValueError(
                f"{path}: {without[0].image} has no {what}, but others have; expected "
                "one for every image, or for none"
            )
