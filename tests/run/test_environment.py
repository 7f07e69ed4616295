"""Tests of how commands find the virtual environment of `make setup`."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

_RUN = pathlib.Path(__file__).resolve().parents[2] / "run"


@pytest.fixture
def clone(tmp_path):
    """A checkout with one command, which says what it was given."""
    (tmp_path / "run").mkdir()
    shutil.copy(_RUN / "_environment.py", tmp_path / "run")
    (tmp_path / "run" / "x.py").write_text("import _environment\nprint('has all')\n")
    return tmp_path


def _make_environment(clone, name, *, finished=True):
    """An environment whose Python prints its name and arguments."""
    python = clone / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "{name}:" "$@"\n')
    python.chmod(0o755)
    if finished:
        (clone / name / ".installed").touch()


def _run(clone, *options):
    """Types the command from another directory; -S hides all installed packages."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *options, str(clone / "run" / "x.py"), "--input=a b"],
        env=environment,
        cwd=clone.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "names, expected",
    [
        ([".venv"], ".venv"),
        ([".venv-legacy"], ".venv-legacy"),
        ([".venv-legacy", ".venv-current"], ".venv-current"),
        ([".venv", ".venv-current"], ".venv"),
    ],
)
def test_without_packages_the_environment_is_found(clone, names, expected):
    for name in names:
        _make_environment(clone, name)
    done = _run(clone, "-S")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{expected}: {clone / 'run' / 'x.py'} --input=a b\n"


def test_with_packages_no_environment_is_looked_for(clone):
    _make_environment(clone, ".venv")
    for name in ("tf_probunet", "tensorflow", "tensorflow_probability", "numpy"):
        (clone / "run" / f"{name}.py").touch()
    (clone / "run" / "absl.py").touch()
    assert _run(clone, "-S").stdout == "has all\n"


@pytest.mark.parametrize("unfinished", [False, True])
def test_without_an_environment_one_line_says_what_to_do(clone, unfinished):
    if unfinished:
        _make_environment(clone, ".venv", finished=False)
    done = _run(clone, "-S")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {sys.executable} has no tf_probunet, tensorflow, ")
    assert str(clone) in line and "`make setup`" in line


def test_every_command_finds_it():
    for path in sorted(_RUN.glob("[!_]*.py")):
        # Imports above this one must not need the environment.
        start = re.compile(r"^(import|from) _start\b", re.MULTILINE)
        before, *rest = start.split(path.read_text(encoding="utf-8"), maxsplit=1)
        assert rest, f"{path}: does not import _start"
        for package in ("absl", "numpy", "tensorflow", "tf_probunet", "matplotlib"):
            assert f"\nimport {package}" not in before, path
            assert f"\nfrom {package}" not in before, path
