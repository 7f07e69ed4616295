"""A progress bar with rate and time left, or plain lines without a terminal."""

from __future__ import annotations

import collections
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable, TextIO, TypeVar

T = TypeVar("T")

_BAR_WIDTH = 24
_SECONDS_BETWEEN_DRAWS = 0.2
_SECONDS_BETWEEN_LINES = 15.0
_RECENT = 6


def leave_closed_terminal() -> None:
    """Discards further output if the terminal was closed.

    Otherwise a command that is about to save would fail when it prints a line.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        try:
            is_device = stat.S_ISCHR(os.fstat(number).st_mode)
        except OSError:  # The stream is not open.
            continue
        if is_device and not os.isatty(number):
            os.dup2(nowhere, number)
    os.close(nowhere)


class Progress:
    """Shows how far a long piece of work has come.

    On a terminal one line is redrawn. Elsewhere (a log file) a plain line is written
    every 15 seconds and at the end.
    """

    def __init__(
        self,
        total: int,
        label: str,
        *,
        done: int = 0,
        unit: str = "",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts the clock.

        Args:
            total: how many items there are.
            label: what is being done, shown at the front.
            done: how many items were done before, in resumed work. The rate does not
                count them.
            unit: what one item is called, shown with the rate.
            stream: where to write; standard error by default.
            clock: seconds, for tests.
        """
        self._total, self._label, self._unit = total, label, unit
        self._done = done
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._clock = clock
        self._start = clock()
        # (time, done) now and then, so that the rate is that of the last minute or so:
        # the first step of a training takes as long as many later ones.
        self._recent = collections.deque([(self._start, done)], maxlen=_RECENT)
        self._last_shown = float("-inf") if self._terminal else self._start
        self._note = ""
        self._last_width = 0

    @property
    def due(self) -> bool:
        """Whether the next update would be shown (to fetch numbers only then)."""
        pause = _SECONDS_BETWEEN_DRAWS if self._terminal else _SECONDS_BETWEEN_LINES
        return self._clock() - self._last_shown >= pause

    def update(self, done: int, note: str | None = None) -> None:
        """Shows that `done` of the items are done, followed by a short note."""
        self._done = done
        if note is not None:
            self._note = note
        if self.due:
            self._show()

    def close(self) -> None:
        """Shows the last state and ends the line."""
        self._show()
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def write(self, line: str) -> None:
        """Writes a line of its own, above the bar."""
        if self._terminal:
            self._stream.write("\r" + " " * self._last_width + "\r")
        self._stream.write(line + "\n")
        self._stream.flush()
        if self._terminal:
            self._show()

    def _show(self) -> None:
        self._last_shown = self._clock()
        if self._last_shown - self._recent[-1][0] >= _SECONDS_BETWEEN_LINES:
            self._recent.append((self._last_shown, self._done))
        text = self._text()
        if self._terminal:
            # A line that wraps cannot be redrawn.
            text = text[: _columns(self._stream) - 1]
            padding = " " * max(0, self._last_width - len(text))
            self._last_width = len(text)
            self._stream.write("\r" + text + padding)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _text(self) -> str:
        seconds = self._last_shown - self._start
        since, done_then = self._recent[0]
        rate = (self._done - done_then) / max(self._last_shown - since, 1e-9)
        parts = [f"{self._done}/{self._total}"]
        if self._terminal and self._total:
            filled = min(_BAR_WIDTH, _BAR_WIDTH * self._done // self._total)
            parts.insert(0, "[" + "#" * filled + "." * (_BAR_WIDTH - filled) + "]")
        if rate > 0:
            unit = self._unit or "items"
            parts.append(f"{_number(rate)} {unit}/s")
            left = (self._total - self._done) / rate
            parts.append(f"{duration(left)} left" if left > 0 else duration(seconds))
        if self._note:
            parts.append(self._note)
        return f"{self._label}: " + "  ".join(parts)


def track(items: Iterable[T], total: int, label: str, **kwargs: Any) -> Iterator[T]:
    """Yields `items` and shows how many have been handled."""
    progress = Progress(total, label, **kwargs)
    done = kwargs.get("done", 0)
    try:
        for item in items:
            yield item
            done += 1
            progress.update(done)
    finally:
        progress.close()


def _number(value: float) -> str:
    """Returns three digits, or all before the point; never 1.2e+03."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _columns(stream: TextIO) -> int:
    try:
        # Some pseudo-terminals report 0.
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def duration(seconds: float) -> str:
    """Returns a duration as "1h02m", "2m05s" or "7s"."""
    seconds = int(round(seconds))
    if seconds >= 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    if seconds >= 60:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds}s"
