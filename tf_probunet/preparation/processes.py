"""Worker processes that end with the process that started them."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import threading


def pool(num_workers: int) -> concurrent.futures.ProcessPoolExecutor:
    """Returns a pool of processes; its functions must be at the top level of a module.

    The workers die without a word, on Ctrl-C and with the main process, so whatever
    they write must be written whole or not at all.
    """
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    return concurrent.futures.ProcessPoolExecutor(
        num_workers, mp_context=context, initializer=_start_worker
    )


def _start_worker() -> None:
    # Ctrl-C reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """Waits for the end of the main process, which may have been killed.

    A worker does not notice that by itself: it would wait for work for ever.
    """
    multiprocessing.parent_process().join()
    os._exit(1)
