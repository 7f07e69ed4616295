"""Files written whole or not at all, and JSON read with errors that name the file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Union

Path = Union[str, "os.PathLike[str]"]


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside `path` that takes its place on success.

    Args:
        path: the file to write; its directory is made if need be.

    Yields:
        The temporary path. It is flushed to disk and renamed to `path` when the
        block ends well, and removed when it does not.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last: some writers choose the format by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` atomically, as UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Writes `value` to `path` atomically, as indented JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        path: the file.
        what: what the file is, for the error messages ("data set description").

    Returns:
        The object as a dict.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not hold a JSON object.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such {what}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a valid {what} in JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}: expected a JSON object as {what}, got {type(value).__name__}"
        )
    return value


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
