"""One command at a time in a directory: locks that name their owner.

A lock is a small file that exists as long as its owner works. The owner holds it by
`flock`, which the system gives back however the owner ends; what stands in the file is
for people, and for file systems without `flock`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import inspect
import json
import os
import pathlib
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tf_probunet import files

NAME = ".lock"

_FIELDS = {
    "process": [int],
    "host": [str],
    "started": [str],
    "since": [str],
    "command": [str],
}
_MAX_BYTES = 4096
_MAX_COMMAND = 200
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF)
_T = TypeVar("_T")
_of_thread = threading.local()


class InUseError(ValueError):
    """Another command is writing there."""


@contextlib.contextmanager
def inside(directory: files.Path) -> Iterator[None]:
    """Holds a directory that the caller writes into; makes it if need be.

    A directory that was made and is empty at the end is removed again. Whoever holds it
    may hold it once more.

    Raises:
        InUseError: another command, or another thread, holds it.
        OSError: it can't be written to.
    """
    directory = pathlib.Path(directory)
    with _made(directory), _held(directory / NAME, directory):
        yield


@contextlib.contextmanager
def beside(path: files.Path) -> Iterator[None]:
    """Holds a file or directory that the caller replaces: the lock lies beside it.

    Raises:
        InUseError: another command, or another thread, holds it.
        OSError: its directory can't be written to.
    """
    path = pathlib.Path(path)
    with _made(path.parent), _held(path.with_name(f".{path.name}{NAME}"), path):
        yield


def holding(
    argument: str,
    hold: Callable[[files.Path], contextlib.AbstractContextManager[None]] = inside,
) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Makes a function hold what it writes while it runs.

    Args:
        argument: the name of its argument that says where.
        hold: `inside` or `beside`.
    """

    def decorate(function: Callable[..., _T]) -> Callable[..., _T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def holding_it(*args: Any, **kwargs: Any) -> _T:
            with hold(signature.bind(*args, **kwargs).arguments[argument]):
                return function(*args, **kwargs)

        return holding_it

    return decorate


@contextlib.contextmanager
def _made(directory: pathlib.Path) -> Iterator[None]:
    """Makes a directory; what was made and is empty at the end is removed again."""
    missing = [p for p in (directory, *directory.parents) if not p.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # As a file.
        code = errno.ENOTDIR
        raise NotADirectoryError(code, os.strerror(code), str(directory)) from error
    try:
        yield
    finally:
        for path in missing:
            with contextlib.suppress(OSError):  # It holds something, or is gone.
                path.rmdir()


@contextlib.contextmanager
def _held(lock: pathlib.Path, what: pathlib.Path) -> Iterator[None]:
    real = os.path.realpath(lock)
    if real in _held_here():
        yield
        return
    handle = None
    while handle is None:
        handle = _try(lock, what)
    _held_here().add(real)
    try:
        try:
            os.write(handle, json.dumps(_this_process()).encode())
        except OSError as error:
            error.filename = str(lock)
            raise
        yield
    finally:
        # Removed before it is given back: whoever has opened it sees that it is gone.
        _held_here().discard(real)
        if _is_at(handle, lock):
            lock.unlink()
        os.close(handle)


def _held_here() -> set[str]:
    """Returns the lock files that this thread holds."""
    return _of_thread.__dict__.setdefault("held", set())


def _try(lock: pathlib.Path, what: pathlib.Path) -> int | None:
    """Returns the open lock file if it is ours; None to try again.

    Raises:
        InUseError: it is somebody else's.
    """
    try:
        handle, is_new = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        handle, is_new = _open(lock), False
    if handle is None:
        return None
    is_ours = False
    try:
        got = _flock(handle)
        if got and not _is_at(handle, lock):
            return None
        # Without flock the file belongs to whoever made it, until it is removed.
        is_ours = is_new and got is not False
        if is_ours:
            return handle
        if got and _is_left_behind(handle):
            lock.unlink()
            return None
        raise InUseError(_message(lock, what, _owner(handle)))
    finally:
        if not is_ours:
            os.close(handle)


def _open(lock: pathlib.Path) -> int | None:
    """Opens a lock file that was there; None if it has just gone."""
    try:
        return os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except PermissionError:  # Another user's: to say whose.
        return os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)


def _flock(handle: int) -> bool | None:
    """Tries to hold the file; false if another process does, None if nobody can."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        return None
    return True


def _is_at(handle: int, lock: pathlib.Path) -> bool:
    """Whether the open file is still the one with that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(lock))
    except FileNotFoundError:
        return False


def _is_left_behind(handle: int) -> bool:
    """Whether the owner of a file that this process has come to hold is gone.

    That a process on another machine holds it is not seen on every network file
    system, so that what the file says counts.
    """
    if not os.fstat(handle).st_size:  # Its owner died before it wrote.
        return True
    owner = _owner(handle)
    return (
        owner is not None
        and owner["host"] == socket.gethostname()
        and owner["started"] != _started(owner["process"])
    )


def _owner(handle: int) -> dict[str, Any] | None:
    """Reads who holds the file; None if it does not say."""
    try:
        owner = json.loads(os.pread(handle, _MAX_BYTES, 0))
        files.check_fields(owner, _FIELDS, NAME)
    except (ValueError, TypeError, RecursionError):
        return None
    return owner


def _message(lock: pathlib.Path, what: pathlib.Path, owner: dict | None) -> str:
    if owner is None:
        return (
            f"{what}: in use by another command; if there is none any more, remove "
            f"{lock}"
        )
    text = (
        f"{what}: in use since {owner['since']} by process {owner['process']} on "
        f"{owner['host']} ({owner['command']})"
    )
    if owner["host"] != socket.gethostname():
        return (
            f"{text}, which can't be checked from {socket.gethostname()}; if it has "
            f"ended, remove {lock}"
        )
    if owner["started"] == _started(owner["process"]):
        return f"{text}; wait for its end, or stop it"
    return f"{text}; if it has ended, remove {lock}"


def _this_process() -> dict[str, Any]:
    command = shlex.join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "started": _started(os.getpid()),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": command[:_MAX_COMMAND],
    }


def _started(process: int) -> str:
    """Returns when a process was started, so that its number alone does not count.

    Where the system does not tell, "running"; "" if there is no such process.
    """
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = text.rpartition(")")[2].split()
        if fields[0] in "ZX":  # It has ended, but nobody has asked how.
            return ""
        return f"{boot} {fields[19]}"  # Ticks since the system was started.
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        return "running"
    except (OSError, OverflowError):
        return ""
    return "running"
