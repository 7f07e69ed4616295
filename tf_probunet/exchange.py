"""Files and directories that take the place of others together: all, or none.

What is written goes into a directory beside the old results. Once all of it is there, a
journal says so; then names are exchanged. Killed before the journal, a command has
changed nothing; killed after it, the next one completes the exchange. The caller holds
a lock (`tf_probunet.locks`) all the time.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

from tf_probunet import files

_NEW = "new"
_OLD = "old"
_SCRATCH = "scratch"
_JOURNAL = "journal.json"
# All that a staging directory may hold; the last two in exports of earlier versions.
_OWN_NAMES = {_NEW, _OLD, _SCRATCH, _JOURNAL, "write", "saved_model"}


class Staging:
    """A directory that is written before its content takes its place."""

    def __init__(self, path: pathlib.Path) -> None:
        """Makes the directories."""
        self.path = path
        self.new.mkdir()
        self.scratch.mkdir()

    @property
    def new(self) -> pathlib.Path:
        """What is here in the end takes the place of what has the same name."""
        return self.path / _NEW

    @property
    def scratch(self) -> pathlib.Path:
        """What is here is thrown away."""
        return self.path / _SCRATCH


@contextlib.contextmanager
def staged(directory: files.Path, name: str, last: str = "") -> Iterator[Staging]:
    """Yields a staging directory in `directory`; its content is exchanged at the end.

    Args:
        directory: of the results; held by the caller.
        name: the staging directory is called `.name.` and some letters.
        last: of the new files the one that stands for all: the old one goes first, the
            new one comes last.

    Yields:
        Where to write. After an error, all of it is removed.
    """
    directory = pathlib.Path(directory)
    path = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}.", dir=directory))
    try:
        staging = Staging(path)
        yield staging
        names = sorted(
            (p.name for p in staging.new.iterdir()), key=lambda n: (n == last, n)
        )
        files.write_json(path / _JOURNAL, {"names": names})
    except BaseException:
        shutil.rmtree(path)
        raise
    try:
        _complete(path)
    except (KeyboardInterrupt, SystemExit):  # A signal: there is time for some names.
        _complete(path)
        raise


def recover(directory: files.Path, name: str, *, by_name: bool = False) -> None:
    """Completes or removes what killed commands left in `directory`.

    Args:
        directory: of the results; held by the caller, so that nobody else is at it.
        name: as for `staged`.
        by_name: the name tells enough. Otherwise a directory that holds anything else
            than a staging directory does is left alone.

    Raises:
        ValueError: a journal is damaged.
    """
    directory = pathlib.Path(directory)
    # As tempfile.mkdtemp makes them.
    pattern = re.compile(re.escape(f".{name}.") + "[a-z0-9_]{8}")
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if not pattern.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
            continue
        if by_name or _OWN_NAMES.issuperset(os.listdir(path)):
            _complete(path)


def _complete(path: pathlib.Path) -> None:
    """Exchanges the names of the journal, if there is one, and removes the rest.

    May be called again wherever it was stopped.
    """
    if (path / _JOURNAL).exists():
        names, old = _read_names(path / _JOURNAL), path / _OLD
        old.mkdir(exist_ok=True)
        for name in reversed(names):
            if (path / _NEW / name).exists():
                _move_if_there(path.parent / name, old / name)
        for name in names:
            _move_if_there(path / _NEW / name, path.parent / name)
    if path.exists():
        shutil.rmtree(path)


def _read_names(journal: pathlib.Path) -> list[str]:
    found = files.read_json(journal, "journal")
    files.check_fields(found, {"names": [list]}, journal)
    for name in found["names"]:
        if not isinstance(name, str) or name in ("", ".", "..") or os.sep in name:
            raise ValueError(f"{journal}: has the name {name!r}, expected plain names")
    return found["names"]


def _move_if_there(source: pathlib.Path, target: pathlib.Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(source, target)
