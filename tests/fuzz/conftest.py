"""The tally of inputs, under a limit of memory."""

from __future__ import annotations

import pathlib
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.fuzzing import Fuzz

# No input of a few kilobytes may take this much more memory.
_MEMORY_GIB = 1.0
_STATM = pathlib.Path("/proc/self/statm")


@pytest.fixture
def fuzz(
    request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]
) -> Iterator[Fuzz]:
    """Tries inputs under a limit of memory, and reports how many."""
    tally = Fuzz(request.node.nodeid.rpartition("/")[2])
    before = resource.getrlimit(resource.RLIMIT_AS)
    gib = getattr(request.module, "MEMORY_GIB", _MEMORY_GIB)
    limit = _address_space() + int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield tally
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert tally.tried, "no input was tried"
    record_property("fuzz_inputs", tally.tried)


def _address_space() -> int:
    return int(_STATM.read_text().split()[0]) * resource.getpagesize()
