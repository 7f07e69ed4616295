"""The scripts in run/ start a command once, and not in its worker processes too."""

from __future__ import annotations

import pathlib
import runpy
import sys

import pytest

_RUN = pathlib.Path(__file__).resolve().parents[2] / "run"
_SCRIPTS = sorted(_RUN.glob("[a-z]*.py"))


@pytest.mark.parametrize("script", _SCRIPTS, ids=lambda path: path.name)
def test_worker_processes_do_not_run_the_command_again(script, monkeypatch):
    monkeypatch.syspath_prepend(str(_RUN))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    text = script.read_text(encoding="utf-8")
    if "from _start import command\n" not in text:  # It brings its own flags.
        assert '\nif __name__ == "__main__":\n' in text
        return
    # As `multiprocessing` imports it in a spawned process; a command would exit.
    runpy.run_path(str(script), run_name="__mp_main__")
