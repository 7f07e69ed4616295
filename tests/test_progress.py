"""Tests of tf_probunet.progress."""

from __future__ import annotations

import io

import pytest

from tf_probunet import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return _Clock()


def test_log_file_gets_a_line_every_fifteen_seconds_and_at_the_end(clock):
    stream = io.StringIO()
    shown = progress.Progress(100, "work", unit="scans", stream=stream, clock=clock)
    for second in range(1, 41):
        clock.now = 100.0 + second
        shown.update(2 * second)
    shown.close()
    assert stream.getvalue().splitlines() == [
        "work: 30/100  2 scans/s  35s left",
        "work: 60/100  2 scans/s  20s left",
        "work: 80/100  2 scans/s  10s left",
    ]


def test_resumed_items_do_not_count_for_the_rate(clock):
    stream = io.StringIO()
    shown = progress.Progress(100, "work", done=50, stream=stream, clock=clock)
    clock.now += 20
    shown.update(60)
    assert stream.getvalue() == "work: 60/100  0.5 items/s  1m20s left\n"


def test_finished_work_shows_how_long_it_took(clock):
    stream = io.StringIO()
    shown = progress.Progress(10, "work", stream=stream, clock=clock)
    clock.now += 125
    shown.update(10, "GED 0.25")
    assert stream.getvalue() == "work: 10/10  0.08 items/s  2m05s  GED 0.25\n"


def test_more_than_the_total_is_not_negative_time(clock):
    stream = io.StringIO()
    shown = progress.Progress(10, "work", stream=stream, clock=clock)
    clock.now += 20
    shown.update(20)
    assert stream.getvalue() == "work: 20/10  1 items/s  20s\n"


def test_fast_rates_are_written_out(clock):
    stream = io.StringIO()
    shown = progress.Progress(40_000, "work", stream=stream, clock=clock)
    clock.now += 16
    shown.update(20_000)
    assert "  1250 items/s  " in stream.getvalue()


def test_terminal_line_is_drawn_over(clock):
    stream = _Terminal()
    shown = progress.Progress(4, "work", stream=stream, clock=clock)
    clock.now += 1
    shown.update(1, "a long note")
    clock.now += 1
    shown.update(2, "short")
    shown.close()
    _, first, second, last = stream.getvalue().split("\r")
    assert (
        first
        == "work: [######..................]  1/4  1 items/s  3s left  a long note"
    )
    assert second.rstrip() == (
        "work: [############............]  2/4  1 items/s  2s left  short"
    )
    assert len(second) == len(first)  # padded over the longer line
    assert last.endswith("\n")


def test_terminal_is_drawn_five_times_a_second_at_most(clock):
    stream = _Terminal()
    shown = progress.Progress(1000, "work", stream=stream, clock=clock)
    for i in range(1000):
        clock.now += 0.001
        shown.update(i + 1)
    assert stream.getvalue().count("\r") == 5


def test_terminal_line_does_not_wrap(clock):
    stream = _Terminal()
    shown = progress.Progress(4, "work", stream=stream, clock=clock)
    clock.now += 1
    shown.update(1, "x" * 200)
    assert len(stream.getvalue().split("\r")[1]) == 79


def test_write_puts_a_line_above_the_bar(clock):
    stream = _Terminal()
    shown = progress.Progress(4, "work", stream=stream, clock=clock)
    clock.now += 1
    shown.update(1)
    shown.write("step 5: good")
    parts = stream.getvalue().split("\r")
    assert parts[2].strip(" ") == ""
    assert len(parts[2]) == len(parts[1])
    assert parts[3] == "step 5: good\n"
    assert parts[4].startswith("work: [######")


def test_track_yields_everything_and_counts_what_was_handled(clock):
    stream = io.StringIO()
    handled = []
    for item in progress.track("abc", 3, "work", stream=stream, clock=clock):
        clock.now += 1
        handled.append(item)
    assert handled == ["a", "b", "c"]
    assert stream.getvalue() == "work: 3/3  1 items/s  3s\n"


def test_track_ends_the_line_when_the_loop_is_left(clock):
    stream = io.StringIO()
    for item in progress.track("abc", 3, "work", stream=stream, clock=clock):
        clock.now += 1
        if item == "b":
            break
    assert stream.getvalue().startswith("work: 1/3")


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0s"),
        (0.6, "1s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (125, "2m05s"),
        (3599.7, "1h00m"),
        (3725, "1h02m"),
        (90_000, "25h00m"),
    ],
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text
