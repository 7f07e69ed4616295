"""Times functions against each other, for the benches."""

import time
from collections.abc import Callable, Hashable


def best_seconds(functions: dict[Hashable, Callable], repeats: int) -> dict:
    """Seconds of the fastest run of each, taken in turn so that load hits all."""
    times = {name: [] for name in functions}
    for i in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if i:  # The first run traces the graph.
                times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}
