"""Worker processes that end with the process that started them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool


@contextlib.contextmanager
def pool(num_workers: int) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Yields a pool of processes; its functions must be at the top level of a module.

    On Ctrl-C, and when the main process ends, the workers end silently. They must
    therefore write files atomically.

    Raises:
        OSError: a worker died before it returned its result.
    """
    context = multiprocessing.get_context(
        "spawn"
    )  # TensorFlow does not work after a fork.
    # The workers use all cores, and NumPy's threads would only compete with them.
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    added = {name: "1" for name in names if name not in os.environ}
    os.environ.update(added)
    try:
        with concurrent.futures.ProcessPoolExecutor(
            num_workers, mp_context=context, initializer=_start_worker
        ) as executor:
            yield executor
    except BrokenProcessPool as error:
        raise OSError(
            f"one of {num_workers} processes died, perhaps because memory ran out; run "
            f"again with fewer (--num_workers): finished units are kept"
        ) from error
    finally:
        for name in added:
            del os.environ[name]


def _start_worker() -> None:
    # Ctrl-C reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """Waits for the end of the main process, which may have been killed.

    Without this, a worker would not notice and would wait for work forever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
