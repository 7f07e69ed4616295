"""Pieces of work that are commands, each run once, so that a stopped run goes on."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

from tf_probunet import files

RUN = pathlib.Path(__file__).resolve().parent


class Pieces:
    """The pieces of work below one directory, each done once.

    A piece that is done leaves a note beside the results; a second run skips it.
    """

    def __init__(self, out_dir: files.Path, settings: dict[str, object]) -> None:
        """Makes the directory, or checks that it is of the same settings.

        Args:
            out_dir: where everything goes.
            settings: all that the results depend on.

        Raises:
            ValueError: the directory holds pieces of other settings.
        """
        self.path = pathlib.Path(out_dir)
        self._notes = self.path / "done"
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

        The seconds of runs that were stopped count, too.

        Raises:
            SystemExit: it failed or was stopped; with its exit code.
        """
        note = self._notes / f"{name}.json"
        before = files.read_json(note, "note") if note.exists() else {"seconds": 0.0}
        files.check_fields(before, {"seconds": [int, float]}, note)
        if before.get("done"):
            print(f"{name}: done before", flush=True)
            return before["seconds"]
        print(f"\n$ python run/{' '.join(map(str, words))}", flush=True)
        start = time.monotonic()
        try:
            code = self._call([str(RUN / str(words[0])), *map(str, words[1:])])
        finally:
            seconds = before["seconds"] + time.monotonic() - start
            files.write_json(note, {"seconds": seconds, "done": False})
        if code:
            sys.exit(code)
        files.write_json(note, {"seconds": seconds, "done": True})
        return seconds

    def _call(self, words: list[str]) -> int:
        """Waits for the command also after Ctrl-C, which reaches it as well."""
        process = subprocess.Popen([sys.executable, *words])
        while True:
            try:
                code = process.wait()
                return 128 - code if code < 0 else code
            except KeyboardInterrupt:
                continue

    def remember(self, name: str, compute: Callable[[], dict]) -> dict:
        """Returns what `compute` gave, now or in an earlier run."""
        note = self._notes / f"{name}.json"
        if not note.exists():
            files.write_json(note, compute())
        return files.read_json(note, "note")
