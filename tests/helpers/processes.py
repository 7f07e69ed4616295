"""Commands of run/ as real processes, killed at chosen moments."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is being written: by tf_probunet.files, and by TensorFlow's checkpoints.
_UNFINISHED = re.compile(r".*\.tmp.*|.*_temp")
_PATIENCE_SECONDS = 300.0


def start(script: str, *words: object, **kwargs) -> subprocess.Popen:
    """Starts a command of run/."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, f"run/{script}", *map(str, words)],
        cwd=ROOT,
        text=True,
        **{**pipes, **kwargs},
    )


def finish(process: subprocess.Popen) -> str:
    """Waits for the end, which must be a good one; returns the standard output."""
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return stdout


def run(script: str, *words: object) -> str:
    """Runs a command, which must succeed; returns its standard output."""
    return finish(start(script, *words))


def kill(process: subprocess.Popen, moment: Callable[[], bool]) -> bool:
    """Kills a process as soon as `moment` says so; false if it ended before."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not moment() and process.poll() is None and time.monotonic() < deadline:
        pass  # Without a pause: a small file is written in less than a millisecond.
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def after(seconds: float) -> Callable[[], bool]:
    """A moment so many seconds from now."""
    end = time.monotonic() + seconds

    def moment() -> bool:
        time.sleep(0.001)
        return time.monotonic() >= end

    return moment


def while_writing(directory: pathlib.Path, number: int) -> Callable[[], bool]:
    """The moment at which the file with this number, from 0 on, is being written."""
    before, seen = set(unfinished(directory)), 0

    def moment() -> bool:
        nonlocal before, seen
        now = set(unfinished(directory))
        seen += len(now - before)
        before = now
        return seen > number

    return moment


def unfinished(directory: pathlib.Path) -> Iterator[str]:
    """Yields the files and directories that are being written, or were when killed."""
    for parent, directories, names in os.walk(directory):
        for name in (*directories, *names):
            if _UNFINISHED.fullmatch(name):
                yield os.path.join(parent, name)


def members(session: int) -> list[int]:
    """Returns the processes of a session that run (Linux)."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # It has just ended.
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
