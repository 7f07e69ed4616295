"""Splits groups (patients) into training, validation and test sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tf_probunet import files
from tf_probunet.hashing import salted_hash

SPLITS = ("train", "val", "test")
# Patients in the paper; other numbers are split in proportion.
PAPER_SIZES = {"train": 722, "val": 144, "test": 144}

_SALT = "lidc split 1"


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
    ranked = sorted(set(groups), key=lambda name: (salted_hash(name, salt), name))
    total = sum(PAPER_SIZES.values())
    num_val = (2 * len(ranked) * PAPER_SIZES["val"] + total) // (2 * total)
    num_test = (2 * len(ranked) * PAPER_SIZES["test"] + total) // (2 * total)
    held_out = num_val + num_test
    return {
        "train": sorted(ranked[held_out:]),
        "val": sorted(ranked[:num_val]),
        "test": sorted(ranked[num_val:held_out]),
    }


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
