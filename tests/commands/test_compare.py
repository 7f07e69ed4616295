"""The command line of run/compare.py."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
from helpers import results_writer

ROOT = pathlib.Path(__file__).resolve().parents[2]


def call(*arguments):
    command = [sys.executable, str(ROOT / "run" / "compare.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def write(directory, values, statistic="v"):
    keys = np.array([f"key-{i}" for i in range(len(values))])
    interval = {"mean": float(np.mean(values)), "low": 0.0, "high": 1.0}
    return results_writer.write(
        directory,
        {"ged": {"4": interval}},
        {"keys": keys, "ged": np.array(values)[:, None]},
        counts=(4,),
        protocol__statistic=statistic,
    )


def test_arguments_and_flags_in_any_order(tmp_path):
    low = write(tmp_path / "low", np.linspace(0, 0.1, 20))
    high = write(tmp_path / "high", np.linspace(0.2, 0.4, 20))
    out = tmp_path / "table.md"
    done = call(high, low, f"--out={out}", "--reference=low")
    assert done.returncode == 0
    assert "low  0.050 *  [0.000, 1.000]" in done.stdout
    lines = out.read_text().splitlines()
    assert lines[2] == (
        "| energy distance | 4 | high | 0.300 | [0.000, 1.000] | +0.250 | <0.001 "
        "| +1.00 |"
    )
    assert lines[3] == "|  |  | low | **0.050** | [0.000, 1.000] |  |  |  |"
    assert call(f"--results={high},{low}").returncode == 0


def test_refusals_are_one_line(tmp_path):
    one = write(tmp_path / "one", [0.1, 0.2])
    other = write(tmp_path / "other", [0.1, 0.2], statistic="u")
    done = call(one, other)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {one} and {other} cannot be compared: protocol.statistic is 'v' in "
        "the first and 'u' in the second\n"
    )
    assert "got 1 results, expected at least two" in call(one).stderr
    assert "no such results" in call(one, tmp_path / "none").stderr


def test_comparing_does_not_import_tensorflow():
    code = (
        "import sys, tf_probunet.evaluation.compare, "
        "tf_probunet.evaluation.sample_files, tf_probunet.evaluation.parts; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
