"""The measurements of run/bench_*.py that train, with settings as small as can be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import processes
from helpers.dicom_writer import (
    ct_message,
    nodule,
    region,
    sop_uid,
    square,
    write_series,
)
from helpers.threshold_model import save_threshold_model

pytestmark = pytest.mark.slow


def test_training():
    flags = "--image_size=32 --base_channels=4 --num_scales=2 --batch_size=2"
    stdout = processes.run(
        "bench_training.py", *flags.split(), "--repeats=1", "--matmul_size=64"
    )
    shares = re.search(r"a step of .* s: (.*)", stdout).group(1)
    assert re.findall(r"[a-z]+(?= \S+%)", shares)[:4] == [
        "input",
        "forward",
        "backward",
        "optimizer",
    ]
    found = re.findall(r"batch.* (\S+) G multiply-adds", stdout)
    whole, half_channels, _, half_size, half_batch, double_batch = map(float, found)
    # A quarter of the pixels, half of the images, twice as many; and nearly a quarter
    # of the products, but for the first and last convolutions.
    for found, factor in ((half_size, 4), (half_batch, 2), (double_batch, 0.5)):
        assert found == pytest.approx(whole / factor, rel=0.02)
    assert 2 < whole / half_channels < 4
    for words in ("input alone: ", "steps in a call: ", "logical device", "the peak"):
        assert words in stdout


def test_long_run():
    stdout = processes.run("bench_long_run.py", "--steps=40", "--looks=4")
    rows = re.findall(r"^ +(\d+) +([\d.]+) +(\d+) +([\d.]+)$", stdout, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [10, 20, 30, 40]
    assert [int(row[2]) for row in rows] == [1, 1, 1, 1]
    sizes = [float(row[3]) for row in rows]
    assert sizes == sorted(sizes)
    assert "traces of the training step: 1" in stdout


def test_switches():
    stdout = processes.run("bench_switches.py", "--steps=2")
    rows = [line.split() for line in stdout.splitlines()[1:]]
    assert [row[:3] for row in rows[:3]] == [
        ["3000", "0", "1"],
        ["3000", "0", "3"],
        ["3000", "1000", "1"],
    ]
    for row in rows:
        assert float(row[3]) > float(row[4]) == pytest.approx(0.58 / 16, abs=0.001)


def test_preparation(tmp_path):
    for number in range(2):
        series, folder = f"1.2.{number}", tmp_path / f"s{number}"
        slices = [np.full((64, 64), 100 * k) for k in range(3)]
        write_series(folder, slices, series_uid=series, patient=f"p{number}")
        lesion = nodule("a", region(sop_uid(1, series), -98, square(20, 24, 8)))
        (folder / "a.xml").write_text(ct_message([[lesion], [], [], []], series))
    flags = "--repeats=1 --num_files=1000 --num_scans=100 --num_images=200"
    stdout = processes.run(
        "bench_preparation.py", f"--dicom_dir={tmp_path}", *flags.split()
    )
    rows = re.findall(r"^(files|scans|images): .* +(\S+) +(\S+)$", stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["files"] * 5 + ["scans"] * 2 + ["images"] * 2
    whole = {"files": 1000, "scans": 100, "images": 200}
    for kind, each, seconds in rows:
        # Both are rounded, to a millionth and to a tenth of a second.
        expected = float(each) / 1000 * whole[kind]
        assert float(seconds) == pytest.approx(expected, abs=0.06)
    start = float(re.search(r"start three processes +(\S+)", stdout).group(1))
    total = float(re.search(r": (\d+) s of processor time", stdout).group(1))
    assert total == pytest.approx(start + sum(float(r[2]) for r in rows), abs=1)


def test_serving(tmp_path):
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    model = save_threshold_model(tmp_path / "model", intensity="uint8")
    stdout = processes.run(
        "bench_serving.py", f"--saved_model={model}", "--image_size=16", "--requests=24"
    )
    rates = re.findall(r"max_batch=(\d), clients: (\d), requests/s: (\S+),", stdout)
    assert [row[:2] for row in rates] == [*zip("8181", "1188")]
    assert all(float(row[2]) > 0 for row in rates)
    batches = re.findall(r"max_batch=\d, images in a call: (\S+)", stdout)
    assert float(batches[0]) >= 1 and float(batches[1]) == 1
    assert "killed and restarted: 24 of 24 requests answered" in stdout
