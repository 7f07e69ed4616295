"""The demonstration from end to end, with a handful of steps."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_demo_leaves_what_it_promises(tmp_path):
    words = ["run/demo.py", f"--out_dir={tmp_path / 'demo'}", "--steps=3"]
    words += ["--num_train=20", "--num_test=5"]
    done = subprocess.run(
        [sys.executable, *words], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    ged16 = summary["ged16"]
    assert set(ged16) == {"prob_unet", "unet", "always_empty", "majority", "floor"}
    assert ged16["floor"] < ged16["majority"] < ged16["always_empty"]
    assert summary["seconds"] > 0
    assert (pathlib.Path(summary["saved_model"]) / "saved_model.pb").exists()
    assert (tmp_path / "demo" / "samples.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("Probabilistic U-Net", "floor", "16 samples of one image"):
        assert name in done.stdout
    again = subprocess.run(
        [sys.executable, *words], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0 and "train_unet: done before" in again.stdout
