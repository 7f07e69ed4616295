"""An image with its masks, as the layouts find them: names of files only."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import pathlib
import re

from tf_probunet.imaging.problem import Problem

# How people call the splits.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}

_DIGITS = re.compile(r"([0-9]{1,18})")


@dataclasses.dataclass(frozen=True)
class MaskFile:
    """A mask.

    Attributes:
        grader: who drew it, as the file's name or the list has it.
        path: the file, relative to the input directory.
        class_name: of a mask of one of several nested classes; otherwise None.
    """

    grader: str
    path: str
    class_name: str | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """An image or volume with its masks.

    Attributes:
        key: a name without slashes.
        folders: the directories that tell cases apart; the first is the group.
        image: the file, or a directory of DICOM files, relative to the input directory.
        masks: sorted by grader.
        split: "train", "val" or "test"; None if folders or list do not say.
        group: None if the list does not say.
    """

    key: str
    folders: tuple[str, ...]
    image: str
    masks: tuple[MaskFile, ...]
    split: str | None = None
    group: str | None = None

    @property
    def graders(self) -> list[str]:
        """The graders, each once, in their order."""
        return list(dict.fromkeys(mask.grader for mask in self.masks))

    @property
    def paths(self) -> list[str]:
        """All files."""
        return [self.image, *(mask.path for mask in self.masks)]


@dataclasses.dataclass(frozen=True)
class Found:
    """What a layout makes of a folder.

    Attributes:
        layout: its name.
        cases: with at least one mask each.
        problems: files that are not used.
    """

    layout: str
    cases: list[Case]
    problems: list[Problem]

    @property
    def num_masks(self) -> int:
        """Masks that belong to an image."""
        return sum(len(case.masks) for case in self.cases)


def natural(text: str) -> tuple:
    """A key to sort by, with which "seg_2" comes before "seg_10"."""
    parts = _DIGITS.split(text)
    return tuple((int(p), p) if i % 2 else p for i, p in enumerate(parts)), text


def name_without_suffix(path: str) -> str:
    """Returns the name of a file without its suffix, which may be ".nii.gz"."""
    name = pathlib.PurePath(path).name
    long = name.lower().endswith(".nii.gz")
    return name[: -len(".nii.gz")] if long else pathlib.PurePath(name).stem


def fits(path: str, pattern: str) -> bool:
    """Whether the name of a file fits a pattern, with or without its suffix."""
    names = pathlib.PurePath(path).name, name_without_suffix(path)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def without_duplicates(cases: list[Case]) -> tuple[list[Case], list[Problem]]:
    """Drops cases that are called alike.

    Cases of different splits get the split in front of their key.
    """
    count = collections.Counter(case.key for case in cases)
    cases = [
        dataclasses.replace(case, key=f"{case.split}_{case.key}")
        if case.split and count[case.key] > 1
        else case
        for case in cases
    ]
    by_key = collections.defaultdict(list)
    for case in cases:
        by_key[case.key].append(case)
    problems = []
    for key, same in by_key.items():
        for case in same if len(same) > 1 else ():
            others = ", ".join([c.image for c in same if c is not case][:3])
            detail = f"{others} would be called {key!r} too; rename them"
            problems.append(Problem("duplicate name", case.image, detail))
    return [same[0] for same in by_key.values() if len(same) == 1], problems
