"""Tests of the command `tf_probunet`: what it knows, and how it names itself."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

import tf_probunet
from tf_probunet import __main__
from tf_probunet.commands import COMMANDS, cli

_ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def call(monkeypatch, capsys):
    """Types a command that only prints; returns its exit code and what it printed."""

    def typed(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["/somewhere/bin/tf_probunet", *words])
        code: object = 0
        try:
            __main__.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return typed


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"], ["help"]])
def test_help_lists_every_command_with_its_summary(call, words):
    code, printed, _ = call(*words)
    assert code == 0
    for name in COMMANDS:
        source = (_ROOT / "run" / f"{name}.py").read_text(encoding="utf-8")
        summary = ast.get_docstring(ast.parse(source)).splitlines()[0]
        summary = re.sub(r"run/(\w+)\.py", r"tf_probunet \1", summary)
        word = re.escape(name.replace("_", "-"))
        assert re.search(rf"^  {word} +{re.escape(summary)}$", printed, re.MULTILINE)


def test_every_script_that_is_a_door_is_a_command():
    scripts = (_ROOT / "run").glob("[!_]*.py")
    line = "from _start import command\n"
    doors = [p.stem for p in scripts if line in p.read_text(encoding="utf-8")]
    assert sorted(doors) == sorted(COMMANDS)


def test_version(call):
    assert call("--version") == (0, f"{tf_probunet.__version__}\n", "")


@pytest.mark.parametrize(
    "line, expected",
    [
        ("tf_probunet pre", ["predict", "prepare-folder", "prepare-lidc"]),
        ("tf_probunet prepare-phantom --num_t", ["--num_test", "--num_train"]),
        ("tf_probunet explore --input=a.png --sa", ["--saved_model"]),
        ("tf_probunet explore --input=a", []),
        ("tf_probunet explore --input ", []),
        ("tf_probunet no-such --", []),
    ],
)
def test_command_lines_are_completed(line, expected):
    done = subprocess.run(
        [sys.executable, "-m", "tf_probunet", "--complete", "tf_probunet", "x", "y"],
        cwd=_ROOT,
        env={**os.environ, "COMP_LINE": line},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[: len(expected) or None] == expected


def test_unknown_command_is_named(call):
    code, printed, _ = call("trian")
    assert code.startswith("error: unknown command 'trian', expected one of demo, ")
    assert "prepare-lidc" in code and not printed


def test_commands_name_themselves_as_they_are_typed(monkeypatch):
    text = (
        "python run/prepare_lidc.py --x\nas run/predict.py; /home/me/run/train.py "
        "run/bench_training.py"
    )
    monkeypatch.setattr(sys, "argv", ["run/prepare_lidc.py"])
    assert cli.as_started(text) == text
    monkeypatch.setattr(sys, "argv", ["tf_probunet prepare-lidc"])
    assert cli.as_started(text) == (
        "tf_probunet prepare-lidc --x\nas tf_probunet predict; /home/me/run/train.py "
        "run/bench_training.py"
    )
