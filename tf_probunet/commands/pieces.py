"""Runs commands once each, so that an interrupted series of commands can continue."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

from tf_probunet import files, locks
from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli

_INTERRUPTED = 130
# TensorFlow's number of threads. Without it, TensorFlow uses all cores.
_THREADS = "TF_NUM_INTRAOP_THREADS"
_T = TypeVar("_T")


class Pieces:
    """Commands that write below one directory, each run once.

    A finished command leaves a note in the directory, and a second run skips it.
    """

    def __init__(
        self, out_dir: files.Path, settings: dict[str, object], jobs: int = 1
    ) -> None:
        """Makes the directory, or checks that it has the same settings.

        Args:
            out_dir: the directory for everything.
            settings: everything that the results depend on.
            jobs: how many commands `side_by_side` runs at a time. With several, each
                gets its share of the threads and prints to a file in `logs`.

        Raises:
            ValueError: the directory has other settings, or another command uses it.
        """
        self.path = pathlib.Path(out_dir)
        self._notes = self.path / "done"
        self._jobs = jobs
        self._exit_code: str | int | None = 0
        self._running: set[subprocess.Popen] = set()
        self._seconds: dict[str, float] = {}
        # Held until this command ends. Its pieces lock their own directories.
        hold = contextlib.ExitStack()
        hold.enter_context(locks.inside(self.path))
        atexit.register(hold.close)
        known = self.path / "settings.json"
        if not known.exists():
            files.write_json(known, settings)
        before = files.read_json(known, "settings")
        for name in sorted({*before, *settings}):
            if before.get(name) != settings.get(name):
                raise ValueError(
                    f"{self.path}: holds a run with {name} "
                    f"{before.get(name)!r}, not {settings.get(name)!r}; choose another "
                    "--out_dir"
                )

    def run(self, name: str, *words: object) -> float:
        """Runs a command unless it is done, and returns its seconds.

        Args:
            name: the name of this piece of work.
            *words: a command of the package, or the path of a script (.py), followed
                by its arguments.

        Returns:
            The seconds, including those of earlier runs that were stopped.

        Raises:
            SystemExit: the command failed or was stopped; with its exit code.
        """
        note = self._notes / f"{name}.json"
        before: dict[str, Any] = {"seconds": 0.0}
        if note.exists():
            before = files.read_json(note, "note")
        files.check_fields(before, {"seconds": [int, float]}, note)
        given = _resolved(words)
        if before.get("done") and before.get("flags", given) != given:
            raise ValueError(
                f"{self.path}: {name} was made with other flags (or the flag file has "
                f"changed), {_difference(before['flags'], given)}; choose another "
                "--out_dir"
            )
        if before.get("done"):
            print(f"{name}: done before", flush=True)
            self._seconds[name] = before["seconds"]
            return before["seconds"]
        if self._exit_code:  # Another piece failed or was stopped.
            sys.exit(self._exit_code)
        line = _command_line(*map(str, words))
        print(f"\n$ python {shlex.join(line)}", flush=True)
        start = time.monotonic()
        try:
            with self._output(name) as output:
                code = self._call(line, output)
        finally:
            seconds = before["seconds"] + time.monotonic() - start
            files.write_json(note, {"seconds": seconds, "done": False})
        if self._jobs > 1:
            ended = f"exit code {code}" if code else f"done in {seconds:.0f} s"
            print(f"{name}: {ended}", flush=True)
        if code:
            sys.exit(code)
        files.write_json(note, {"seconds": seconds, "done": True, "flags": given})
        self._seconds[name] = seconds
        return seconds

    @property
    def seconds(self) -> float:
        """The seconds of all finished pieces together."""
        return sum(self._seconds.values())

    def side_by_side(self, tasks: Sequence[Callable[[], _T]]) -> list[_T]:
        """Runs tasks that consist of pieces, `jobs` at a time.

        When a piece fails, the pieces that are running finish, and no more are started.
        Ctrl-C reaches the commands themselves, which save and end. Other signals are
        passed on to them.

        Returns:
            The result of each task.

        Raises:
            SystemExit: with the exit code of a piece that failed or was stopped.
        """

        def noting_failure(task: Callable[[], _T]) -> _T:
            try:
                return task()
            except SystemExit as error:
                self._exit_code = error.code
                raise

        self._exit_code = 0
        with concurrent.futures.ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(noting_failure, task) for task in tasks]
            while not all(future.done() for future in futures):
                try:
                    concurrent.futures.wait(futures)
                except KeyboardInterrupt:
                    self._exit_code = _INTERRUPTED
                except SystemExit as stop:  # A signal: see cli.
                    self._exit_code = stop.code
                    for process in list(self._running):
                        process.terminate()
        return [future.result() for future in futures]

    @contextlib.contextmanager
    def _output(self, name: str) -> Iterator[IO[str] | None]:
        """Opens the log of a piece; yields None if it writes to the terminal."""
        if self._jobs == 1:
            yield None
            return
        path = self.path / "logs" / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"  {path}", flush=True)
        with path.open("a", encoding="utf-8") as log:
            yield log

    def _call(self, words: list[str], output: IO[str] | None) -> int:
        """Runs a command; after Ctrl-C, which reaches it too, waits until it ends."""
        environment = dict(os.environ)
        if self._jobs > 1:
            threads = max(1, (os.cpu_count() or 1) // self._jobs)
            environment.setdefault(_THREADS, str(threads))
        process = subprocess.Popen(
            [sys.executable, *words],
            env=environment,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )
        self._running.add(process)
        try:
            while True:
                try:
                    code = process.wait()
                    return 128 - code if code < 0 else code
                except KeyboardInterrupt:
                    continue
                except SystemExit:  # A signal: see cli.
                    process.terminate()
                    process.wait()
                    raise
        finally:
            self._running.discard(process)

    def remember(self, name: str, compute: Callable[[], dict]) -> dict:
        """Returns the result of `compute`, of this run or an earlier one."""
        note = self._notes / f"{name}.json"
        if not note.exists():
            files.write_json(note, compute())
        return files.read_json(note, "note")


def _resolved(words: Sequence[object]) -> list[str]:
    """Returns the words of a command with the content of its flag files."""
    plain = cli.with_packaged_flag_files([*map(str, words)])
    return cli.FLAGS.read_flags_from_files(plain)


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    """Says which flags two commands do not have in common."""
    lost = [word for word in before if word not in now]
    new = [word for word in now if word not in before]
    return f"{' '.join(lost) or 'nothing'} instead of {' '.join(new) or 'nothing'}"


def _command_line(name: str, *flags: str) -> list[str]:
    """Returns what is typed behind `python` to run a command or a script."""
    if name.endswith(".py"):
        return [name, *flags]
    root = pretrained.checkout()
    if root is None:
        return ["-m", "tf_probunet", name, *flags]
    # The scripts in run/ use the checkout, whether or not another is installed.
    return [os.path.relpath(root / "run" / f"{name}.py"), *flags]
