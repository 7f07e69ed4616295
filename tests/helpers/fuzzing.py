"""What fuzz tests are made of: seeded inputs, what a good answer is, a tally.

`TF_PROBUNET_FUZZ_FACTOR=10` tries ten times as many inputs.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, settings

FACTOR = float(os.environ.get("TF_PROBUNET_FUZZ_FACTOR", "1"))
# No input of a few kilobytes may take so much of a processor; busy machines are slow.
_SECONDS = 20.0
# Room for a value of the file's own.
_LONGEST_MESSAGE = 20_000


class Hang(BaseException):
    """A reader took too long; nothing may catch this by accident."""


class Fuzz:
    """Tries inputs on a reader, and counts them.

    Attributes:
        tried: how many inputs so far.
        accepted: how many of them were read.
    """

    def __init__(self, name: str) -> None:
        """Seeds by the test's name, so that each test has inputs of its own."""
        self._name = name
        self.tried = self.accepted = 0

    def rngs(self, number: int) -> Iterator[random.Random]:
        """Yields so many generators, times the factor, always the same ones."""
        for index in range(number_of_tries(number)):
            yield random.Random(f"{self._name} {index}")

    def check(
        self,
        read: Callable[[], Any],
        valid: Callable[[Any], None],
        names: Sequence[Any],
    ) -> Any:
        """Reads one input: it must be valid, or refused with a clear message.

        Args:
            read: reads the input.
            valid: asserts that what was read makes sense.
            names: a message must hold one of these.

        Returns:
            What was read, or the error.
        """
        self.tried += 1
        try:
            value = _limited(read)
        except (ValueError, OSError) as error:
            check_error(error, names)
            return error
        valid(value)
        self.accepted += 1
        return value

    def check_file(
        self,
        path: pathlib.Path,
        data: bytes,
        read: Callable[[pathlib.Path], Any],
        valid: Callable[[Any], None],
    ) -> Any:
        """Writes `data` to `path` and checks what `read` makes of it."""
        path.write_bytes(data)
        return self.check(lambda: read(path), valid, [path.name])


def number_of_tries(number: int) -> int:
    """Returns a number of tries times the factor."""
    return max(1, round(number * FACTOR))


def hypothesis_settings(number: int) -> Any:
    """Returns settings that try a number of inputs, the same ones every time."""
    return settings(
        max_examples=number_of_tries(number),
        derandomize=True,
        database=None,
        # A directory and a tally may serve all inputs of a test.
        suppress_health_check=list(HealthCheck),
    )


def check_error(error: BaseException, names: Sequence[Any]) -> None:
    """Asserts that an error is one of ours: its type, one line, the file's name."""
    kind, message = type(error), str(error)
    ours = kind in (ValueError, OSError, FileNotFoundError)
    ours = ours or kind.__module__.startswith("tf_probunet.")
    # The operating system's own, which name the file: no permission, a directory.
    ours = ours or (isinstance(error, OSError) and error.filename is not None)
    assert ours, f"{kind.__name__}: {message}"
    assert any(str(name) in message for name in names), message
    assert message and len(message.splitlines()) == 1, message
    assert len(message) <= _LONGEST_MESSAGE, message[:_LONGEST_MESSAGE]
    assert "MemoryError" not in message, message


def _limited(read: Callable[[], Any]) -> Any:
    def stop(*_: Any) -> None:
        raise Hang(f"took over {_SECONDS:g} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        return read()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
