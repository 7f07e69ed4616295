"""Splits groups (patients) into training, validation and test sets."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from tf_probunet import files
from tf_probunet.hashing import salted_hash
from tf_probunet.imaging.problem import Problem

FILE_NAME = "splits.json"
SPLITS = ("train", "val", "test")
# Patients in the paper; other numbers are split in proportion.
PAPER_SIZES = {"train": 722, "val": 144, "test": 144}

_SALT = "lidc split 1"


def names_written(out_dir: files.Path, given: files.Path | None) -> tuple[str, ...]:
    """Returns the name of the split file to write; none if it is the one given."""
    path = pathlib.Path(out_dir, FILE_NAME)
    same = given is not None and path.exists() and path.samefile(given)
    return () if same else (FILE_NAME,)


def assign(groups: Iterable[str], salt: str = _SALT) -> dict[str, list[str]]:
    """Splits groups as 722 : 144 : 144, the same way whatever their order.

    The groups are ranked by a salted hash of their names. The split of a group may
    change when others are added or removed. To keep it, use a split file.

    Args:
        groups: names of the groups; repeated names count once.
        salt: a different salt gives an unrelated split.

    Returns:
        For each split its groups, sorted.
    """
    ranked = _ranked(groups, salt)
    total = sum(PAPER_SIZES.values())
    num_val = (2 * len(ranked) * PAPER_SIZES["val"] + total) // (2 * total)
    num_test = (2 * len(ranked) * PAPER_SIZES["test"] + total) // (2 * total)
    held_out = num_val + num_test
    return {
        "train": sorted(ranked[held_out:]),
        "val": sorted(ranked[:num_val]),
        "test": sorted(ranked[num_val:held_out]),
    }


def assign_shares(
    groups: Iterable[str], *, val_share: float, test_share: float, salt: str
) -> dict[str, list[str]]:
    """Splits groups by shares, the same way whatever their order.

    A split with a share gets at least one group. See `assign` for the order.

    Args:
        groups: names of the groups; repeated names count once.
        val_share: of the groups, for validation.
        test_share: of the groups, for the test.
        salt: a different salt gives an unrelated split.

    Returns:
        For each split its groups, sorted; empty splits are left out.

    Raises:
        ValueError: there are too few groups.
    """
    ranked = _ranked(groups, salt)
    num_val, num_test = (
        max(1, int(share * len(ranked) + 0.5)) if share else 0
        for share in (val_share, test_share)
    )
    held_out = num_val + num_test
    if held_out >= len(ranked):
        raise ValueError(
            f"{len(ranked)} groups, of which {num_val} would be for validation and "
            f"{num_test} for the test; expected at least {held_out + 1}"
        )
    cut = {
        "train": ranked[held_out:],
        "val": ranked[:num_val],
        "test": ranked[num_val:held_out],
    }
    return {split: sorted(names) for split, names in cut.items() if names}


def file_problems(
    groups: Sequence[str], used: Mapping[str, Iterable[str]], path: files.Path
) -> list[Problem]:
    """Reports where a split file and the data name different groups.

    Args:
        groups: of the data.
        used: the split file's groups by split.
        path: the split file.
    """
    listed = {group for names in used.values() for group in names}
    problems = [
        Problem("not in the split file", group)
        for group in groups
        if group not in listed
    ]
    absent = sorted(listed - set(groups))
    if absent:
        # A list of all patients may be used with a part of the data.
        problems.append(
            Problem(
                "in the split file, but not in the data",
                str(path),
                f"{len(absent)}, the first: {absent[0]}",
                expected=True,
            )
        )
    return problems


def _ranked(groups: Iterable[str], salt: str) -> list[str]:
    return sorted(set(groups), key=lambda name: (salted_hash(name, salt), name))


def read(path: files.Path) -> dict[str, list[str]]:
    """Reads a split file: a JSON object of split names and lists of groups.

    Args:
        path: the file, with any of the keys "train", "val" and "test".

    Returns:
        For each split its groups.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a split file, or a group is in it twice.
    """
    splits = files.read_json(path, "split file")
    try:
        json.dumps(splits, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{path}: holds names that are not text") from error
    if not any(splits.values()):
        raise ValueError(f"{path}: the split file names no patient")
    for split, groups in splits.items():
        if split not in SPLITS:
            raise ValueError(
                f"{path}: split {split[:80]!r}, expected one of {', '.join(SPLITS)}"
            )
        if not isinstance(groups, list) or not all(isinstance(g, str) for g in groups):
            raise ValueError(f"{path}: {split!r} is not a list of names")
    try:
        split_of(splits)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return splits


def split_of(splits: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Returns the split of each group.

    Raises:
        ValueError: a group is in two splits, or twice in one.
    """
    found: dict[str, str] = {}
    for split, groups in splits.items():
        for name in groups:
            if found.get(name) == split:
                raise ValueError(f"{name!r} is listed twice in {split!r}")
            if name in found:
                raise ValueError(
                    f"{name!r} is in two splits, {found[name]!r} and {split!r}"
                )
            found[name] = split
    return found
