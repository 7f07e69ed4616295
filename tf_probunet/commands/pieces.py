"""Runs commands as pieces of a longer work, each once, so that it can be resumed."""

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
from typing import IO, TypeVar

from tf_probunet import files, locks
from tf_probunet.artifacts import pretrained

_INTERRUPTED = 130
# The number of threads that TensorFlow uses; if it is not set, one for each core.
_THREADS = "TF_NUM_INTRAOP_THREADS"
_T = TypeVar("_T")


class Pieces:
    """The pieces of work below one directory, each done once.

    A finished piece leaves a note next to the results, and later runs skip it.
    """

    def __init__(
        self, out_dir: files.Path, settings: dict[str, object], jobs: int = 1
    ) -> None:
        """Makes the directory, or checks that it was made with the same settings.

        Args:
            out_dir: where everything goes.
            settings: everything that the results depend on.
            jobs: how many pieces `side_by_side` runs at a time. If there are several,
                they share the threads, and their output goes to `logs`.

        Raises:
            ValueError: the directory holds pieces with other settings, or another
                command is working on them.
        """
        self.path = pathlib.Path(out_dir)
        self._notes = self.path / "done"
        self._jobs, self._exit_code = jobs, 0
        self._running: set[subprocess.Popen] = set()
        # Locked until this command ends. The pieces lock their own directories.
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

        The first word is a command of the package, or a script (a path to a .py file).
        The seconds of interrupted runs count as well.

        Raises:
            SystemExit: with the command's exit code, if it failed or was stopped.
        """
        note = self._notes / f"{name}.json"
        before = files.read_json(note, "note") if note.exists() else {"seconds": 0.0}
        files.check_fields(before, {"seconds": [int, float]}, note)
        if before.get("done"):
            print(f"{name}: done before", flush=True)
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
        files.write_json(note, {"seconds": seconds, "done": True})
        return seconds

    def side_by_side(self, tasks: Sequence[Callable[[], _T]]) -> list[_T]:
        """Runs tasks, each of one or more pieces, `jobs` at a time.

        After a piece has failed, running pieces finish and no others start. Ctrl-C also
        reaches the commands, which save and end. Other signals are passed on to them.

        Returns:
            What each task returned.

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
        """Opens the log of a piece; None if the piece writes to the terminal."""
        if self._jobs == 1:
            yield None
            return
        path = self.path / "logs" / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"  {path}", flush=True)
        with path.open("a", encoding="utf-8") as log:
            yield log

    def _call(self, words: list[str], output: IO[str] | None) -> int:
        """Runs a command; waits for it after Ctrl-C too, which also reaches it."""
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
        """Returns the result of `compute`, from now or from an earlier run."""
        note = self._notes / f"{name}.json"
        if not note.exists():
            files.write_json(note, compute())
        return files.read_json(note, "note")


def _command_line(name: str, *flags: str) -> list[str]:
    """Returns what is typed behind `python` to run a command or a script."""
    if name.endswith(".py"):
        return [name, *flags]
    root = pretrained.checkout()
    if root is None:
        return ["-m", "tf_probunet", name, *flags]
    # The scripts in run/ use the checkout, whether or not another is installed.
    return [os.path.relpath(root / "run" / f"{name}.py"), *flags]
