"""Checksums of a SavedModel's files, kept inside the SavedModel."""

from __future__ import annotations

import hashlib
import pathlib

from tf_probunet import files

# TensorFlow reads nothing in this directory.
NAME = "assets.extra/checksums.json"


def write(path: files.Path) -> None:
    """Writes the checksums of all files of a SavedModel into it."""
    path = pathlib.Path(path)
    files.write_json(path / NAME, _checksums(path))


def check(path: files.Path) -> None:
    """Checks a SavedModel against its checksums. Older exports have none.

    This comes before TensorFlow reads the graph, since a damaged one may end the
    process.

    Raises:
        ValueError: a file is missing or changed.
    """
    path = pathlib.Path(path)
    if not (path / NAME).is_file():
        return
    written, found = files.read_json(path / NAME, "checksums"), _checksums(path)
    for name in sorted(written):
        if written[name] != found.get(name):
            raise ValueError(
                f"{path / name}: damaged SavedModel (the file is not the one that was "
                "exported)"
            )


def fingerprint(path: files.Path) -> str:
    """Returns a short name for the content of a SavedModel, its card included."""
    digest, path = hashlib.sha256(), pathlib.Path(path)
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path)} {files.sha256(file)}\n".encode())
    return digest.hexdigest()[:16]


def _checksums(path: pathlib.Path) -> dict[str, str]:
    paths = sorted(p for p in path.rglob("*") if p.is_file())
    names = {p.relative_to(path).as_posix(): p for p in paths}
    return {n: files.sha256(p) for n, p in names.items() if n != NAME}
