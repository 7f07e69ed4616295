"""Where the real LIDC files lie, for tests marked `real_data`."""

from __future__ import annotations

import os
import pathlib
import tarfile

import pytest

_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def archive(name: str) -> pathlib.Path:
    """Returns an archive of real data; skips the test if it is not there."""
    default = _REPOSITORY.parent / "shared" / "data"
    path = pathlib.Path(os.environ.get("TF_PROBUNET_REAL_DATA", default), name)
    if not path.is_file():
        pytest.skip(f"real data absent: {path} (see data/README.md)")
    return path


def unpack(name: str, target: pathlib.Path, last: str | None = None) -> None:
    """Unpacks an archive whose members are sorted by name.

    Args:
        name: of the archive.
        target: directory to unpack to.
        last: stop behind the members that begin with this; None to unpack all.
    """
    with tarfile.open(archive(name), "r|*") as members:
        for member in members:
            if last and member.name > last and not member.name.startswith(last):
                return
            destination = (target / member.name).resolve()
            assert destination.is_relative_to(target.resolve())
            if member.isfile():
                destination.parent.mkdir(parents=True, exist_ok=True)
                destination.write_bytes(members.extractfile(member).read())
