"""Lists the files of a raw data set and reports those that can't be read."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable

from tf_probunet import files
from tf_probunet.imaging.problem import Problem


def check_directory(root: files.Path) -> pathlib.Path:
    """Returns the directory of a raw data set.

    Raises:
        FileNotFoundError: it does not exist.
        ValueError: it is a file.
    """
    root = pathlib.Path(root)
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such directory")
    if not root.is_dir():
        raise ValueError(
            f"{root}: a file, expected a directory; unpack an archive first"
        )
    return root


def refuse_other_files(root: pathlib.Path, names: Iterable[str]) -> None:
    """Refuses folders that would hold more than the files that are written to them.

    Temporary files of a killed run are removed.

    Args:
        root: where the folders are, if they exist.
        names: paths of the files, as folder/.../name, relative to the root.

    Raises:
        ValueError: one of these folders holds others.
    """
    names = set(names)
    for folder in sorted({root / name.partition("/")[0] for name in names}):
        for directory, _, _ in os.walk(folder):
            files.remove_temporaries(directory)
        there = list_files(folder)[0] if folder.is_dir() else []
        others = [name for name in there if f"{folder.name}/{name}" not in names]
        if others:
            raise ValueError(
                f"{folder}: holds {len(others)} other files, such as {others[0]}, "
                "expected a new folder"
            )


def list_files(
    root: files.Path, max_depth: int | None = None
) -> tuple[list[str], list[Problem]]:
    """Lists the regular files under a directory.

    Links are followed. A directory that can be reached by several paths is read once,
    by the path without a link if there is one, so that loops end.

    Args:
        root: the directory.
        max_depth: how many parts a path may have; None for any number.

    Returns:
        The paths relative to the root, sorted, and what is not read: directories
        without permission, links that lead nowhere, pipes and devices, names that are
        not UTF-8.
    """
    names: list[str] = []
    problems: list[Problem] = []
    seen: set[tuple[int, int]] = set()
    directories = [""]
    links: list[str] = []
    while directories or links:
        directory = directories.pop() if directories else links.pop(0)
        try:
            status = os.stat(os.path.join(root, directory))
            if (status.st_dev, status.st_ino) in seen:
                problems.append(
                    Problem(
                        "directory that is read already",
                        directory,
                        "a link to it",
                        expected=True,
                    )
                )
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(os.path.join(root, directory)) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            problems.append(
                Problem("unreadable directory", directory or ".", error.strerror or "")
            )
            continue
        for entry in entries:
            name = f"{directory}/{entry.name}" if directory else entry.name
            kind = _kind(entry, name, problems)
            if kind == "file":
                names.append(name)
            elif kind == "directory" and (
                max_depth is None or name.count("/") + 2 <= max_depth
            ):
                (links if entry.is_symlink() else directories).append(name)
    return sorted(names), sorted(problems, key=lambda problem: problem.where)


def _kind(entry: os.DirEntry[str], name: str, problems: list[Problem]) -> str | None:
    """Returns "file" or "directory"; anything else is reported."""
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    if shown != name:
        # It could not be written to the records or the report.
        problems.append(Problem("name that is not UTF-8", shown, "not read; rename it"))
        return None
    try:
        if entry.is_file(follow_symlinks=False):
            return "file"
        mode = os.stat(entry.path).st_mode
    except OSError as error:
        reason = "unreadable link" if entry.is_symlink() else "unreadable file"
        problems.append(Problem(reason, name, error.strerror or ""))
        return None
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    problems.append(
        Problem("not a regular file", name, f"{_kind_name(mode)}, which is not read")
    )
    return None


def _kind_name(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
