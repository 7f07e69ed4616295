"""One command at a time in a directory: locks that name their owner.

A lock is a small file that exists while its owner works. The owner holds it by `flock`,
which the system releases however the owner ends. The content of the file is for people,
and for file systems without `flock`.
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

_FIELDS: dict[str, list[type]] = {
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
    """Locks a directory that the caller writes into, and creates it if necessary.

    If the directory was created here and is empty at the end, it is removed. A thread
    may lock the same directory several times.

    Raises:
        InUseError: another command, or another thread, holds it.
        OSError: it can't be written to.
    """
    directory = pathlib.Path(directory)
    with _made(directory), _held(directory / NAME, directory):
        yield


@contextlib.contextmanager
def beside(path: files.Path) -> Iterator[None]:
    """Locks a file or directory that the caller replaces. The lock file is next to it.

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
    """Makes a function lock the path that it writes to.

    Args:
        argument: the name of the function's argument with the path.
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
    """Creates a directory; removes it at the end if it was created and is empty."""
    missing = [p for p in (directory, *directory.parents) if not p.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # It is a file: say so.
        code = errno.ENOTDIR
        raise NotADirectoryError(code, os.strerror(code), str(directory)) from error
    try:
        yield
    finally:
        for path in missing:
            # It may hold something, or be gone.
            with contextlib.suppress(OSError):
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
        # Removed before it is unlocked, so that others who opened it notice.
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
    handle: int | None
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
        # Without flock, the file belongs to its creator until it is removed.
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
    """Opens an existing lock file; returns None if it has just been removed."""
    try:
        return os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except PermissionError:  # It is another user's; read it to name the owner.
        return os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)


def _flock(handle: int) -> bool | None:
    """Tries to lock the file: false if another process has it, None without flock."""
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
    """Whether the owner of a file that this process has just locked has ended.

    Some network file systems do not show locks of other machines. The content of the
    file decides there.
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
    """Reads the owner from a lock file; None if it does not name one."""
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
