"""Reads NPY and NPZ files after checking the sizes that they announce."""

from __future__ import annotations

import contextlib
import math
import pathlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np

from tf_probunet import damage, files, limits

# Bytes of a text as a Python object, in a list, a set and a few tables.
_BYTES_PER_TEXT = 1000
_PIECE = 2**24

_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# zipfile, zlib and NumPy's header parser raise all of these for damaged files.
_DAMAGED = (
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npy(path: files.Path) -> np.ndarray:
    """Reads an NPY file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another kind or over `limits.MAX_BYTES`.
    """
    path = pathlib.Path(path)
    _check_there(path, "NPY")
    with _named_errors(path, "NPY"), open(path, "rb") as stream:
        return _read_array(stream, path.stat().st_size)


def read_npz(
    path: files.Path, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads arrays of an NPZ file.

    Args:
        path: the file.
        names: of the arrays; None for all.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, lacks an array, or is over `limits.MAX_BYTES`.
    """
    path = pathlib.Path(path)
    _check_there(path, "NPZ")
    with _named_errors(path, "NPZ"), zipfile.ZipFile(path) as archive:
        members = _members(archive)
        wanted = list(members) if names is None else list(names)
        size = sum(_member(members, name).file_size for name in wanted)
        limits.check(size, "its content")
        arrays = {}
        for name in wanted:
            with archive.open(members[name]) as stream:
                arrays[name] = _read_array(stream, members[name].file_size)
        return arrays


def npz_names(path: files.Path) -> list[str]:
    """Returns the names of the arrays in an NPZ file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged.
    """
    path = pathlib.Path(path)
    _check_there(path, "NPZ")
    with _named_errors(path, "NPZ"), zipfile.ZipFile(path) as archive:
        return list(_members(archive))


def npz_header(path: files.Path, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Returns shape and type of an array in an NPZ file without unpacking it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or lacks the array.
    """
    path = pathlib.Path(path)
    _check_there(path, "NPZ")
    with _named_errors(path, "NPZ"), zipfile.ZipFile(path) as archive:
        member = _member(_members(archive), name)
        with archive.open(member) as stream:
            shape, _, dtype = _read_header(stream)
        return shape, dtype


def _check_there(path: pathlib.Path, kind: str) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such {kind} file")


@contextlib.contextmanager
def _named_errors(path: pathlib.Path, kind: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(
            f"{path}: damaged {kind} file ({damage.reason(error)})"
        ) from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Returns the arrays' entries by name, after checking what they announce."""
    members = {}
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename!r} is packed in an unknown way")
        limits.check_packed(member.file_size, member.compress_size)
        name = member.filename
        members[name[:-4] if name.endswith(".npy") else name] = member
    return members


def _member(members: dict[str, zipfile.ZipInfo], name: str) -> zipfile.ZipInfo:
    if name not in members:
        raise ValueError(f"it holds {sorted(members)[:5]}, expected the array {name!r}")
    return members[name]


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Returns shape, whether columns come first, and type."""
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"format version {version}, expected 1.0 or 2.0")
    try:
        return _READERS[version](stream)
    except MemoryError as error:  # Python refuses deeply nested brackets like this.
        raise ValueError("a header of too many levels") from error


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """Reads an array from the start of a stream that holds `size` bytes."""
    shape, is_fortran, dtype = _read_header(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, expected numbers or text")
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {list(shape)}")
    values, there = math.prod(shape), size - stream.tell()
    announced = values * dtype.itemsize
    if announced != there:
        raise ValueError(
            f"a header that announces {announced} bytes, where {there} are"
        )
    # Numbers stay in the array; text, and things without a size, become objects.
    extra = 0 if dtype.kind in "biufc" else values * _BYTES_PER_TEXT
    limits.check(announced + extra, f"an array of {values} values")
    content = bytearray(announced)
    # Piece by piece, because a compressed stream copies everything it is asked for.
    view = memoryview(content)
    for start in range(0, announced, _PIECE):
        piece = view[start : start + _PIECE]
        if stream.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise EOFError("it ends too early")
    return np.ndarray(shape, dtype, content, order="F" if is_fortran else "C")
