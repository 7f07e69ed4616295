"""Tables for people: aligned, and with numbers that say something."""

from __future__ import annotations

import pytest

from tf_probunet.evaluation import tables


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "-"),
        (0.28749, "0.287"),
        (0.0, "0.000"),
        (-1e-18, "0.000"),
        (0.00214, "0.00214"),
        (-0.0025, "-0.00250"),
        (-0.1325, "-0.133"),
        (12.0, "12.000"),
    ],
)
def test_numbers(value, text):
    assert tables.number(value) == text


def test_bounds():
    interval = {"mean": 0.5, "low": 0.25, "high": 0.75}
    assert tables.with_bounds(interval) == "0.500 [0.250, 0.750]"
    assert tables.with_bounds({**interval, "low": None, "high": None}) == "0.500"
    assert tables.with_bounds({"mean": None, "low": None, "high": None}) == "-"


def test_columns_are_aligned():
    rows = [["metric", "1", "16"], ["energy distance", "0.8", "0.25"], ["x", "", "-"]]
    assert tables.aligned(rows).splitlines() == [
        "metric             1    16",
        "--------------------------",
        "energy distance  0.8  0.25",
        "x                        -",
    ]


def test_markdown():
    assert tables.markdown([["a", "b"], ["1", "**2**"]]).splitlines() == [
        "| a | b |",
        "|---|---:|",
        "| 1 | **2** |",
    ]
