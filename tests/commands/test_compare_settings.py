"""Changes of the settings with several seeds, trained by the command."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_TINY = """
--base_channels=4
--num_scales=2
--convs_per_block=1
--crop_size=16
--eval_size=16
--batch_size=2
--validation_images=4
--validation_samples=2
--learning_rate_steps=0
"""


def _run(data_dir, tmp_path, *words):
    (tmp_path / "tiny.flags").write_text(_TINY)
    command = [
        sys.executable,
        str(_ROOT / "run" / "compare_settings.py"),
        f"--settings={tmp_path / 'tiny.flags'}",
        f"--data_dir={data_dir}",
        f"--out_dir={tmp_path / 'out'}",
        "--common=--steps=2 --validate_every=2",
        *words,
    ]
    return subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, check=False
    )


def _best(tmp_path, name):
    best = json.loads((tmp_path / "out" / name / "best.json").read_text())
    return best["step"], best["ged"]


@pytest.mark.slow
def test_each_change_is_trained_with_each_seed_once(phantom_dir, tmp_path):
    change = "--change=--steps=3 --validate_every=3"
    first = _run(phantom_dir, tmp_path, change, "--seeds=0")
    assert first.returncode == 0, first.stderr
    # What is given twice counts once.
    words = [change, change, "--seeds=0,4,0", "--jobs=2"]
    second = _run(phantom_dir, tmp_path, *words)
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("done before") == 2
    config = json.loads((tmp_path / "out" / "seed_4" / "config.json").read_text())
    assert config["training"]["seed"] == 4 and config["training"]["steps"] == 2
    changed = "steps_3_validate_every_3_seed_"
    bests = {n: _best(tmp_path, n) for n in ("seed_0", "seed_4", f"{changed}4")}
    # The change wins over what is common.
    assert [step for step, _ in bests.values()] == [2, 2, 3]
    table = (tmp_path / "out" / "table.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    assert [row[0] for row in cells] == ["none", "--steps=3 --validate_every=3"]
    assert cells[0][1:3] == [f"{bests[n][1]:.3f}" for n in ("seed_0", "seed_4")]
    assert cells[1][2] == f"{bests[f'{changed}4'][1]:.3f}"


def test_seeds_are_numbers(phantom_dir, tmp_path):
    done = _run(phantom_dir, tmp_path, "--seeds=0,x")
    assert done.returncode == 1
    assert done.stderr == "error: seeds has 'x', expected numbers like 0,1,2\n"
    assert not (tmp_path / "out").exists()


def test_a_missing_flag_file_is_one_line(phantom_dir, tmp_path):
    done = _run(phantom_dir, tmp_path, "--settings=missing.flags", "--seeds=0")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "missing.flags" in done.stderr
