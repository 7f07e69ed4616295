"""The measurements of run/bench_*.py that train, with settings as small as can be."""

from __future__ import annotations

import re

import pytest
from helpers import processes

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
