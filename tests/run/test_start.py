"""Tests of how the scripts in run/ start a command."""

from __future__ import annotations

import ast
import pathlib

import pytest

_RUN = pathlib.Path(__file__).resolve().parents[2] / "run"


@pytest.mark.parametrize(
    "path", sorted(_RUN.glob("[!_]*.py")), ids=lambda path: path.name
)
def test_worker_processes_do_not_start_the_command_again(path):
    # They import the script of the command, under another name than `__main__`.
    *body, last = ast.parse(path.read_text(encoding="utf-8")).body
    assert ast.unparse(last).startswith("if __name__ == '__main__':")
    calls = [node.value for node in body if isinstance(node, ast.Expr)]
    assert {type(call).__name__ for call in calls} <= {"Constant", "Call"}
    for call in calls:
        if isinstance(call, ast.Call):  # Flags and settings of the environment.
            assert ast.unparse(call.func).startswith(("flags.DEFINE_", "os.environ."))
