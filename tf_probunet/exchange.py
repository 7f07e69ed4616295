"""Replaces several files and directories together: all of them, or none.

New files are written to a staging directory next to the old results. When they are
complete, a journal is written, and then the names are exchanged. A command that is
killed before the journal has changed nothing. If it is killed later, the next command
completes the exchange. The caller holds a lock (`tf_probunet.locks`) all the time.
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
# Everything in a staging directory; the last two are from earlier versions.
_OWN_NAMES = {_NEW, _OLD, _SCRATCH, _JOURNAL, "write", "saved_model"}


class Staging:
    """A directory for new files, before they replace the old ones."""

    def __init__(self, path: pathlib.Path) -> None:
        """Makes the directories."""
        self.path = path
        self.new.mkdir()
        self.scratch.mkdir()

    @property
    def new(self) -> pathlib.Path:
        """Its content replaces the old files of the same name at the end."""
        return self.path / _NEW

    @property
    def scratch(self) -> pathlib.Path:
        """Its content is discarded at the end."""
        return self.path / _SCRATCH


@contextlib.contextmanager
def staged(directory: files.Path, name: str, last: str = "") -> Iterator[Staging]:
    """Yields a staging directory in `directory`; its content is exchanged at the end.

    Args:
        directory: the directory of the results, locked by the caller.
        name: the staging directory is called `.name.` and some letters.
        last: the file that marks complete results. The old one is removed first, and
            the new one is put in place last.

    Yields:
        The staging directory. After an error, it is removed.
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
    except (KeyboardInterrupt, SystemExit):  # A signal; there is time to finish.
        _complete(path)
        raise


def recover(directory: files.Path, name: str, *, by_name: bool = False) -> None:
    """Completes or removes the staging directories of killed commands.

    Args:
        directory: the directory of the results, locked by the caller.
        name: as for `staged`.
        by_name: whether the name is enough to recognise a staging directory. If not,
            a directory with any other content is left alone.

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

    After an interruption, it can be called again.
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
