"""Finds images and their masks in a folder, by the names of files and folders."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence

from tf_probunet.imaging import read_file
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.preparation import tree
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
from tf_probunet.preparation.folder.config import LAYOUTS, FolderConfig

MANIFEST_NAME = "manifest.csv"

_IMAGE_FOLDERS = ("images", "image", "imgs", "img")
_MASK_FOLDERS = (
    *("masks", "mask", "labels", "label", "gt"),
    *("annotations", "annotation", "segmentations", "segmentation"),
)
# "masks_0", "mask-2", "labels3", "masks_smith".
_NUMBERED = re.compile(
    rf"(?:{'|'.join(_MASK_FOLDERS)})(?:[ _-]+(.+)|(\d+))", re.IGNORECASE
)
# The image of a case folder; all other images in it are masks.
_IMAGE_STEMS = ("image", "img")
# A folder of this name, next to masks, holds the DICOM slices of one image.
_SERIES_FOLDERS = ("image", "img", "dicom")
_SEPARATORS = "_-. "
_TOKENS = re.compile(r"[ _.-]+")
# As in QUBIQ: several tasks for the same graders.
_TASK = re.compile(r"(task\d+)[_-].*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class _File:
    """A file that may be an image or a mask.

    Attributes:
        path: relative to the input directory.
        folders: the directories above it, without that of a split.
        stem: the name without suffix.
        split: that a directory names, or None.
        class_name: one of the nested classes, whose name `folders` and `stem` lack.
    """

    path: str
    folders: tuple[str, ...]
    stem: str
    split: str | None
    class_name: str | None = None


# Where an image belongs: the folders around "images", those inside, and its name.
_Place = tuple[tuple[str, ...], tuple[str, ...], str]


class _Matches:
    """Images, and the masks that were matched to them."""

    def __init__(self) -> None:
        self.images: dict[_Place, _File] = {}
        self.masks: dict[_Place, list[tuple[str, _File]]] = collections.defaultdict(
            list
        )
        self.problems: list[Problem] = []

    def add_image(self, place: _Place, file: _File) -> None:
        """Adds an image; two at one place are a problem, and neither is used."""
        if place not in self.images:
            self.images[place] = file
            return
        self.problems.append(
            Problem(
                "duplicate name",
                file.path,
                f"{self.images[place].path} has the same name; it is used, this is not",
            )
        )

    def add_mask(self, place: _Place, grader: str, file: _File) -> None:
        """Adds a mask to the image at a place, if there is one."""
        if place in self.images:
            self.masks[place].append((grader, file))
        else:
            self.problems.append(_without_image(file))


def find(root: pathlib.Path, config: FolderConfig) -> Found:
    """Finds the images of a folder and the masks of each.

    Args:
        root: the folder.
        config: has the layout, or leaves it to be recognised.

    Returns:
        The cases, sorted by key.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: no layout fits, or several do.
    """
    found, problems = _files(root, config)
    wanted = config.layout
    names = [n for n in _FINDERS if wanted in ("auto", n)]
    tried = [_FINDERS[name](found) for name in names]
    results = [_result(name, *t) for name, t in zip(names, tried)]
    best = _chosen(root, found, results, problems, wanted)
    cases, duplicates = without_duplicates(best.cases)
    _check_tasks(cases, config)
    return dataclasses.replace(
        best,
        cases=sorted(cases, key=lambda case: natural(case.key)),
        problems=problems + best.problems + duplicates,
    )


def _files(
    root: pathlib.Path, config: FolderConfig
) -> tuple[list[_File], list[Problem]]:
    """Lists what may be an image or a mask."""
    names, problems = tree.list_files(tree.check_directory(root))
    found = []
    for name in names:
        why = _unfit(root, name)
        if why is None:
            found.append(_file(name))
        else:
            reason, detail, expected = why
            problems.append(Problem(reason, ascii(name)[1:-1], detail, expected))
    found = _joined_series(root, found)
    if config.nested_names:
        found, others = _with_classes(found, config)
        problems += others
    if config.mask_pattern is not None:
        found = [f for f in found if _is_image(f) or fits(f.path, config.mask_pattern)]
    return found, problems


def _unfit(root: pathlib.Path, name: str) -> tuple[str, str, bool] | None:
    """Returns why a file can be neither an image nor a mask; None if it can."""
    if not name.isprintable():
        return "name with control characters", "not read; rename it", False
    parts = name.split("/")
    if any(part.startswith(".") or part == "__MACOSX" for part in parts):
        return "hidden file", "not read", True
    try:
        kind = read_file.kind(root / name)
    except OSError as error:
        return "unreadable file", error.strerror or "", False
    return None if kind else ("not an image", "not read", True)


def _file(name: str) -> _File:
    path = pathlib.PurePosixPath(name)
    folders = list(path.parts[:-1])
    splits = [i for i, part in enumerate(folders) if part.lower() in SPLIT_NAMES]
    split = None
    if len(splits) == 1:
        split = SPLIT_NAMES[folders.pop(splits[0]).lower()]
    return _File(name, tuple(folders), name_without_suffix(name), split)


def _joined_series(root: pathlib.Path, found: Sequence[_File]) -> list[_File]:
    """Replaces the DICOM slices in a case's folder "image" by that folder."""
    by_folder = collections.defaultdict(list)
    for file in found:
        by_folder[str(pathlib.PurePosixPath(file.path).parent)].append(file)
    series = {
        folder
        for folder, inside in by_folder.items()
        if pathlib.PurePosixPath(folder).name.lower() in _SERIES_FOLDERS
        and str(pathlib.PurePosixPath(folder).parent) in by_folder
        and all(read_file.kind(root / file.path) == "dicom" for file in inside)
    }
    joined = [
        dataclasses.replace(
            inside[0], path=folder, folders=inside[0].folders[:-1], stem="image"
        )
        for folder, inside in by_folder.items()
        if folder in series
    ]
    rest = [f for f in found if str(pathlib.PurePosixPath(f.path).parent) not in series]
    return rest + joined


def _is_image(file: _File) -> bool:
    """Whether a file is an image, whatever the layout."""
    folders = {folder.lower() for folder in file.folders}
    return bool(folders & set(_IMAGE_FOLDERS)) or file.stem.lower() in _IMAGE_STEMS


def _with_classes(
    found: Sequence[_File], config: FolderConfig
) -> tuple[list[_File], list[Problem]]:
    """Takes the class out of the folders and names of masks."""
    names = {name.casefold(): name for name in config.nested_names}
    result, problems = [], []
    for file in found:
        if _is_image(file):
            result.append(file)
            continue
        in_folders = [i for i, f in enumerate(file.folders) if f.casefold() in names]
        tokens = _TOKENS.split(file.stem)
        in_stem = [token for token in tokens if token.casefold() in names]
        if len(in_folders) + len(in_stem) != 1:
            problems.append(
                Problem(
                    "mask of no class" if not in_folders + in_stem else "unclear class",
                    file.path,
                    f"expected one of {', '.join(names.values())} as a folder or a "
                    "part of its name",
                )
            )
        elif in_folders:
            folders = list(file.folders)
            class_name = names[folders.pop(in_folders[0]).casefold()]
            result.append(
                dataclasses.replace(file, folders=tuple(folders), class_name=class_name)
            )
        else:
            class_name = names[in_stem[0].casefold()]
            token = re.escape(in_stem[0])
            # With one of the separators around it, which joined it to the rest.
            stem = re.sub(rf"(^|[ _.-]+){token}(?=$|[ _.-])", "", file.stem, count=1)
            result.append(
                dataclasses.replace(
                    file, stem=stem.lstrip(_SEPARATORS), class_name=class_name
                )
            )
    return result, problems


def _apart(file: _File, names: Iterable[str]) -> tuple[tuple, tuple, str] | None:
    """Returns the folders before and behind the first of these names, and the stem."""
    for i, folder in enumerate(file.folders):
        if folder.lower() in names:
            return file.folders[:i], file.folders[i + 1 :], file.stem
    return None


def _images_and_masks(found: Sequence[_File]) -> tuple[_Matches, list[_File]]:
    """Returns the images in folders called "images", and all other files."""
    matches, rest = _Matches(), []
    for file in found:
        place = _apart(file, _IMAGE_FOLDERS)
        if place is None:
            rest.append(file)
        else:
            matches.add_image(_with_split(place, file), file)
    return matches, rest


def _with_split(place: _Place, file: _File) -> _Place:
    """Keeps images of different splits apart, which may have the same names."""
    around, inside, stem = place
    return (file.split or "", *around), inside, stem


def _grader_suffixes(found: Sequence[_File]) -> tuple[_Matches, list[_File]]:
    matches, rest = _images_and_masks(found)
    unused, several = [], []
    known: set[str] = set()
    for file in rest:
        place = _apart(file, _MASK_FOLDERS)
        if place is None:
            unused.append(file)
            continue
        around, inside, stem = _with_split(place, file)
        ends = [i for i, letter in enumerate(stem) if letter in _SEPARATORS]
        # "a__x" belongs to "a_", if there is one, rather than to "a".
        longest = {
            stem[end:].strip(_SEPARATORS): (around, inside, stem[:end])
            for end in [*ends, len(stem)]
            if (around, inside, stem[:end]) in matches.images
        }
        fitting = [(place, grader) for grader, place in longest.items()]
        if len(fitting) == 1:
            matches.add_mask(*fitting[0], file)
            known.add(fitting[0][1])
        elif fitting:
            several.append((file, fitting))
        else:
            matches.problems.append(_without_image(file))
    for file, fitting in several:
        # "a_1_x" belongs to "a_1" if there is a grader "x" but no grader "1_x".
        sure = [(place, grader) for place, grader in fitting if grader in known]
        if len(sure) == 1:
            matches.add_mask(*sure[0], file)
            continue
        images = " and ".join(matches.images[place].path for place, _ in fitting[:3])
        matches.problems.append(
            Problem(
                "mask that fits several images",
                file.path,
                f"{images}; not used, rename them or list them in a manifest",
            )
        )
    return matches, unused


def _grader_folders(found: Sequence[_File]) -> tuple[_Matches, list[_File]]:
    matches, rest = _images_and_masks(found)
    unused = []
    for file in rest:
        place = _apart(file, _MASK_FOLDERS)
        if place is None or not place[1]:
            unused.append(file)
        else:
            around, inside, stem = _with_split(place, file)
            matches.add_mask((around, inside[1:], stem), inside[0], file)
    return matches, unused


def _mask_folders(found: Sequence[_File]) -> tuple[_Matches, list[_File]]:
    matches, rest = _images_and_masks(found)
    unused = []
    for file in rest:
        numbered = [
            (i, match)
            for i, folder in enumerate(file.folders)
            if (match := _NUMBERED.fullmatch(folder))
        ]
        if not numbered:
            unused.append(file)
        else:
            i, match = numbered[0]
            place = file.folders[:i], file.folders[i + 1 :], file.stem
            grader = match[1] or match[2]
            matches.add_mask(_with_split(place, file), grader, file)
    return matches, unused


def _case_folders(found: Sequence[_File]) -> tuple[_Matches, list[_File]]:
    matches, rest = _Matches(), []
    for file in found:
        if file.folders and file.stem.lower() in _IMAGE_STEMS:
            matches.add_image(_with_split((file.folders, (), ""), file), file)
        else:
            rest.append(file)
    for file in rest:
        # Masks may lie deeper: the nearest folder above with an image is the case.
        folders = file.folders
        place = _with_split((folders, (), ""), file)
        while folders and place not in matches.images:
            folders = folders[:-1]
            place = _with_split((folders, (), ""), file)
        grader = "/".join([*file.folders[len(folders) :], file.stem])
        matches.add_mask(place, grader, file)
    return matches, []


_FINDERS: dict[str, Callable[[Sequence[_File]], tuple[_Matches, list[_File]]]] = {
    "grader_suffixes": _grader_suffixes,
    "grader_folders": _grader_folders,
    "mask_folders": _mask_folders,
    "case_folders": _case_folders,
}


def _result(layout: str, matches: _Matches, unused: Sequence[_File]) -> Found:
    problems = list(matches.problems)
    problems += [
        Problem("file of no use in this layout", file.path, layout, expected=True)
        for file in unused
    ]
    cases = []
    for (around, inside, stem), image in matches.images.items():
        masks = matches.masks.get((around, inside, stem), [])
        if not masks:
            problems.append(Problem("image without a mask", image.path))
            continue
        folders = (*around[1:], *inside)
        # A case folder has no other name than its own.
        key = "_".join([*folders, stem] if stem else folders)
        files, doubled = _mask_files(masks)
        problems += doubled
        cases.append(Case(key, folders, image.path, files, image.split))
    return Found(layout, cases, problems)


def _mask_files(
    masks: Sequence[tuple[str, _File]],
) -> tuple[tuple[MaskFile, ...], list[Problem]]:
    """Returns the masks of an image; of two by one grader, the first."""
    result: dict[tuple[str, str | None], MaskFile] = {}
    problems = []
    for grader, file in sorted(masks, key=lambda m: (natural(m[0]), m[1].path)):
        mask = MaskFile(grader or "mask", file.path, file.class_name)
        first = result.setdefault((mask.grader, mask.class_name), mask)
        if first is not mask:
            problems.append(
                Problem(
                    "second mask of a grader",
                    file.path,
                    f"grader {mask.grader!r} has {first.path}; this is not used",
                )
            )
    return tuple(result.values()), problems


def _chosen(
    root: pathlib.Path,
    found: Sequence[_File],
    results: Sequence[Found],
    problems: Sequence[Problem],
    wanted: str,
) -> Found:
    """Returns the only layout that fits."""
    fitting = [result for result in results if result.cases]
    if not fitting:
        tried = [LAYOUTS[r.layout] for r in results]
        every = [p for r in results for p in r.problems if not p.expected]
        why = reasons(every) if wanted != "auto" else reasons(problems)
        raise ValueError(
            f"{root}: {len(found)} files that may be images or masks, but none "
            f"arranged as {'; or '.join(tried)}; list them with --manifest=FILE.csv"
            f"{why}"
        )
    most = max(fitting, key=lambda result: result.num_masks)
    others = [result for result in fitting if result is not most]
    if others and max(result.num_masks for result in others) > most.num_masks // 10:
        listed = " and ".join(
            f"{r.layout} ({len(r.cases)} images, {r.num_masks} masks)" for r in fitting
        )
        raise ValueError(
            f"{root}: fits several layouts, {listed}; choose one with --layout"
        )
    return most


def _check_tasks(cases: Sequence[Case], config: FolderConfig) -> None:
    """Refuses to take the tasks of QUBIQ for graders."""
    if config.nested_names:
        return
    graders = {grader for case in cases for grader in case.graders}
    tasks = {m[1].lower() for grader in graders if (m := _TASK.fullmatch(grader))}
    if len(tasks) > 1:
        names = sorted(tasks)
        raise ValueError(
            f"{cases[0].image}: masks of {len(names)} tasks ({', '.join(names[:4])}), "
            f"expected one: choose with --mask_pattern='{names[0]}_*', or make them "
            f"classes with --nested_classes={','.join(names[:4])}, the outer one first"
        )


def _without_image(file: _File) -> Problem:
    return Problem("mask without an image", file.path)
