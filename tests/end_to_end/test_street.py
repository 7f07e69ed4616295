"""Cityscapes from raw PNGs to the calibration figure, on the street phantom."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_TINY = [
    "--flagfile=cityscapes_cpu.flags",
    "--base_channels=4",
    "--num_scales=4",
    "--convs_per_block=1",
    "--crop_size=64",
    "--steps=2",
    "--batch_size=2",
    "--validate_every=2",
    "--validation_images=1",
    "--validation_samples=2",
]


def _run(script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, f"run/{script}", *words],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}: {done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_street_phantom_from_raw_files_to_the_calibration_figure(tmp_path):
    raw, data, run, saved, results, figures = (
        str(tmp_path / name) for name in ("raw", "data", "run", "saved", "res", "figs")
    )
    _run("prepare_street_phantom.py", f"--out_dir={raw}", "--images_per_city=1")
    _run("prepare_cityscapes.py", f"--cityscapes_dir={raw}", f"--out_dir={data}")
    _run("train.py", *_TINY, f"--data_dir={data}", f"--run_dir={run}")
    _run("export.py", f"--run_dir={run}", f"--out_dir={saved}")
    words = [f"--saved_model={saved}", f"--data_dir={data}", "--num_samples=1,4"]
    _run("evaluate.py", *words, f"--out_dir={results}")
    found = json.loads((pathlib.Path(results) / "results.json").read_text())
    assert found["data"]["split"] == "test"
    assert found["ged"]["4"]["mean"] > found["floor"]["4"]["mean"] > 0
    with np.load(pathlib.Path(results) / "per_image.npz") as arrays:
        # Every sample is counted for the modes that are closest to it.
        np.testing.assert_allclose(arrays["mode_counts"].sum(-1), 4.0)
    words = [f"--results={results}", f"--out_dir={figures}"]
    _run("figures.py", *words, "--figure=mode_calibration")
    svg = (pathlib.Path(figures) / "mode_calibration.svg").read_text()
    assert "probability" in svg
