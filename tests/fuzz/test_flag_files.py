"""Damaged flag files, read by the commands' own code."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys

import pytest
from helpers.mutations import mutate, mutate_text

TRIES = 400
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Starts the command once per flag file and notes how it ended.
_READER = """
import contextlib, io, json, os, sys
sys.argv[0] = "run/train.py"
from tf_probunet.commands import cli, train, train_flags

def main():
    print(json.dumps(train_flags.config().to_json()), file=answers)

for path in json.load(sys.stdin):
    for name in cli.FLAGS:
        cli.FLAGS[name].unparse()
    cli.FLAGS.unparse_flags()
    sys.argv[1:] = [f"--flagfile={path}"]
    answers, errors, ended = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.start(main)
        except SystemExit as error:
            ended = error.code
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
    print(json.dumps([ended, answers.getvalue(), errors.getvalue()]))
"""


def _answers(paths: list[pathlib.Path]) -> list[list]:
    done = subprocess.run(
        [sys.executable, "-c", _READER],
        input=json.dumps([str(path) for path in paths]),
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _check(answers: list[list]) -> int:
    """Asserts that each is a configuration or one line of an error."""
    accepted = 0
    for ended, config, errors in answers:
        assert ended in (0, 1), ended
        if ended == 0:
            assert set(json.loads(config)) >= {"model", "data", "training"}
            accepted += 1
        else:
            assert errors.splitlines()[-1].startswith("error: "), errors
            assert "Traceback" not in errors
    return accepted


def test_damaged_flag_files(fuzz, tmp_path):
    seeds = [path.read_text() for path in sorted(_ROOT.glob("*.flags"))]
    paths = []
    for index, rng in enumerate(fuzz.rngs(TRIES)):
        path = tmp_path / f"{index}.flags"
        path.write_bytes(_damaged(rng, seeds))
        paths.append(path)
    answers = _answers(paths)
    fuzz.tried += len(answers)
    assert len(answers) == len(paths)
    assert 0 < _check(answers) < len(answers)


def _damaged(rng: random.Random, seeds: list[str]) -> bytes:
    text = rng.choice(seeds)
    if rng.random() < 0.3:
        data = mutate(text.encode(), rng)
    else:
        data = mutate_text(text, rng).encode("utf-8", "replace")
    # Shifted far: 2 to that power is no number that a machine computes with.
    return b"\n".join(line for line in data.split(b"\n") if b"num_scales" not in line)


@pytest.mark.parametrize(
    "text",
    [
        "--flagfile=x.flags",
        "--flagfile=/nowhere/at/all",
        "--flagfile=.",
        "--flagfile=a\0b",
        "--steps=" + "9" * 5000,
        "--learning_rate=nan",
        "--learning_rate=1e999",
        "--seed=9223372036854775808",
        "--nosuch=1",
        "--" + "x" * 5000,
        "steps",
        "--",
    ],
)
def test_hostile_flag_files(fuzz, tmp_path, text):
    path = tmp_path / "x.flags"
    path.write_text(text.replace("x.flags", str(path)) + "\n")
    answers = _answers([path])
    fuzz.tried += len(answers)
    _check(answers)


def test_a_flag_file_that_is_no_text_is_named(fuzz, tmp_path):
    path = tmp_path / "x.flags"
    path.write_bytes(b"--steps=\xff\xfe\n")
    ((ended, _, errors),) = _answers([path])
    fuzz.tried += 1
    assert ended == 1 and "x.flags" in errors, errors
