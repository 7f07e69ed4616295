"""Files written whole or not at all, and JSON read with errors that name the file."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from tf_probunet import limits

Path = Union[str, "os.PathLike[str]"]

# Bytes of Python objects for one byte of JSON, in the worst case: `{"":0},`.
_JSON_RATIO = 40

# Our files have six levels. Python's own functions fail at a few hundred.
MAX_JSON_DEPTH = 50

_LARGE_READ = 2**20
_TEMPORARY = re.compile(r"\..*\.\d+\.tmp(\.[^.]*)?")
_PATTERN_CHARACTERS = re.compile(r"[\[\]*?\\]")


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path that replaces `path` on success.

    Args:
        path: the file to write. Its directory is created if necessary.

    Yields:
        The temporary path, in the same directory. If the block succeeds, it is flushed
        to disk and renamed to `path`. Otherwise it is removed.

    Raises:
        OSError: it can't be written, for example because the disk is full.
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
    except OSError as error:
        # A failed write has no file name, a failed open that of the temporary file.
        unnamed = error.filename in (None, temporary, str(temporary))
        if unnamed and error.errno is not None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporaries(directory: Path) -> None:
    """Removes the temporary files that a killed process left in a directory.

    Call it only for a directory that nobody else writes to.
    """
    directory = pathlib.Path(directory)
    for path in directory.iterdir() if directory.is_dir() else ():
        if _TEMPORARY.fullmatch(path.name):
            path.unlink()


@contextlib.contextmanager
def without_patterns(directory: Path) -> Iterator[pathlib.Path]:
    """Yields a path to a directory in which TensorFlow sees no pattern.

    TensorFlow treats names of checkpoints and SavedModels as patterns when it reads
    them: for `runs/seed[1]` it looks in `runs/seed1`.

    Args:
        directory: must exist.

    Yields:
        The directory itself, or a symbolic link to it if its name has one of `[]*?\\`.
    """
    directory = pathlib.Path(directory)
    if not _PATTERN_CHARACTERS.search(str(directory)):
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="tf_probunet.") as place:
        if _PATTERN_CHARACTERS.search(place):
            raise ValueError(
                f"{place}: a place for temporary files without any of []*?\\ in its "
                "name is needed; set TMPDIR"
            )
        link = pathlib.Path(place, "link")
        link.symlink_to(directory.resolve(), target_is_directory=True)
        yield link


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


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays to `path` atomically, as a compressed .npz."""
    import numpy as np  # Imported here, so that `--help` stays fast.

    # Not straight to the file: on a full disk NumPy's writer would raise once more
    # when it is deleted.
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        path: the file.
        what: what the file is, for the error messages ("data set description").

    Returns:
        The object as a dict.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not hold a JSON object, would take more memory than
            `limits` allows, is nested over `MAX_JSON_DEPTH` levels, or holds NaN or a
            number that does not fit into 64 bits.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such {what}")
    size = path.stat().st_size
    limits.check(_JSON_RATIO * size, f"{path}: {size} bytes as {what}")
    try:
        value = json.loads(
            path.read_text(encoding="utf-8"),
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_finite_number,
        )
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a valid {what} in JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}: expected a JSON object as {what}, got {type(value).__name__}"
        )
    return value


class BoundedReader(io.BufferedReader):
    """A file for libraries that trust the lengths a file announces.

    Python allocates as many bytes as a read asks for. This file never allocates more
    than it has.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, which must be a regular one."""
        super().__init__(_open_regular(path))

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads at most `size` bytes; -1 or None for all."""
        if size is not None and size > _LARGE_READ:
            size = min(size, os.fstat(self.fileno()).st_size)
        return super().read(size)


def read_start(path: Path, size: int) -> bytes:
    """Reads only the first bytes of a regular file."""
    with _open_regular(path) as handle:
        return handle.read(size)


def _open_regular(path: Path) -> io.FileIO:
    """Opens a file without waiting. A named pipe would wait forever for its writer.

    Raises:
        ValueError: it is a pipe or a device.
    """
    without_waiting = getattr(os, "O_NONBLOCK", 0)  # Windows has none.
    handle = io.FileIO(
        os.fspath(path), opener=lambda p, flags: os.open(p, flags | without_waiting)
    )
    if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
        handle.close()
        raise ValueError(f"{path}: a pipe or a device, expected a regular file")
    return handle


def check_fields(
    found: Mapping[str, Any], fields: Mapping[str, Sequence[type]], path: Path
) -> None:
    """Checks that a JSON object has fields of these types.

    Args:
        found: the object.
        fields: the types that each field may have.
        path: the file it was read from, for the error message.

    Raises:
        ValueError: a field is missing or of another type.
    """
    missing = sorted(set(fields) - set(found))
    if missing:
        raise ValueError(f"{path}: lacks {', '.join(missing)}")
    for name, types in fields.items():
        if type(found[name]) not in types:
            expected = " or ".join(kind.__name__ for kind in types)
            value = repr(found[name])[:80]
            raise ValueError(f"{path}: {name} is {value}, expected {expected}")


def _whole_number(text: str) -> int:
    # No setting is larger, and arithmetic with thousands of digits takes forever.
    number = int(text) if len(text) <= 20 else None
    if number is None or not -(2**63) <= number < 2**64:
        raise ValueError(f"the number {text[:20]}... has over 64 bits")
    return number


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} where a finite number was expected")
    return number


def _check_depth(value: Any) -> None:
    level: list[Any] = [[value]]
    for _ in range(MAX_JSON_DEPTH + 1):
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [v for values in inner for v in values if isinstance(v, (dict, list))]
        if not level:
            return
    raise ValueError(f"nested over {MAX_JSON_DEPTH} levels deep")


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
