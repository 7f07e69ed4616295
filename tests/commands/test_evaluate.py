"""The command line of run/evaluate.py, from sample files to a table."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from helpers import datasets

from tf_probunet.evaluation import sample_files

ROOT = pathlib.Path(__file__).resolve().parents[2]


def call(*arguments):
    command = [sys.executable, str(ROOT / "run" / "evaluate.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_table_and_results(tmp_path):
    spec = datasets.spec(class_names=("none", "lesion"))
    labels = np.zeros((4, 8, 8), np.uint8)
    labels[:2, :3] = 1
    examples = [datasets.example(i, labels=labels) for i in range(2)]
    datasets.write(tmp_path / "data", {"test": examples}, spec)
    for example in examples:
        sample_files.write(tmp_path / "samples", example.key, 1 - labels[2:])
    done = call(
        f"--samples_dir={tmp_path / 'samples'}",
        f"--data_dir={tmp_path / 'data'}",
        f"--out_dir={tmp_path / 'out'}",
        "--num_samples=1,2",
    )
    assert (done.returncode, done.stdout.count("energy distance")) == (0, 2)
    # Samples that mark all 64 pixels; graders mark 24 of them, or none: the mean
    # distance is (40/64 + 1) / 2, and that among graders 1/2.
    expected = 40 / 64 + 1 - 0.5
    row = next(x for x in done.stdout.splitlines() if x.startswith("samples  "))
    assert row.split()[1] == f"{expected:.3f}"
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["ged"]["2"]["mean"] == pytest.approx(expected)
    assert results["command"].endswith("--num_samples=1,2")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--out_dir=x"], "error: flag --data_dir is required; see --help"),
        (
            [
                "--out_dir=x",
                "--data_dir=y",
                "--saved_model=z",
                "--protocol=d_persona",
                "--both_empty=zero",
            ],
            "error: both_empty is zero, but the protocol d_persona has one; leave out "
            "--both_empty or --protocol",
        ),
        (
            ["--out_dir=x", "--data_dir=y", "--num_samples=1,many"],
            "error: num_samples is '1,many', expected numbers such as 1,4,8,16",
        ),
        (
            ["--out_dir=x", "--data_dir=y", "--saved_model=z", "--limit=-1"],
            "error: limit is -1, expected at least 0",
        ),
        (["--out_dir=x", "y"], "error: unexpected argument 'y'; flags start with --"),
    ],
)
def test_errors_are_one_line(arguments, message):
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (1, message + "\n")
