"""Per-image values in part files, from which an interrupted evaluation continues."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import numpy as np

from tf_probunet import arrays, files

_IMAGES_PER_PART = 256
_SECONDS_PER_PART = 20.0


class Parts:
    """A growing table of images: rows are added, kept on disk and read back.

    Each part is named after the position of its first image. Only the parts before the
    first gap are used; parts after it are overwritten.
    """

    def __init__(
        self,
        directory: files.Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the parts that exist.

        Args:
            directory: of this table alone; see `resume.parts_dir`.
            clock: returns seconds; replaced in tests.
        """
        self._directory = pathlib.Path(directory)
        self._clock = clock
        self._rows: list[dict[str, np.ndarray]] = []
        self._stored = list(self._read())
        self.done = sum(len(part["keys"]) for part in self._stored)
        self._flushed, self._since = self.done, clock()

    def add(self, rows: dict[str, np.ndarray]) -> None:
        """Adds a batch of images, and writes a part if one is due.

        Args:
            rows: arrays [N, ...] by name, among them `keys` [N]. An array may have
                fewer rows if it is not kept for all images.
        """
        self._rows.append(rows)
        self.done += len(rows["keys"])
        overdue = self._clock() - self._since >= _SECONDS_PER_PART
        if overdue or self.done - self._flushed >= _IMAGES_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Writes what has been added since the last part."""
        if self._rows:
            part = concatenated(self._rows)
            files.write_arrays(self._path(self._flushed), part)
            self._stored.append(part)
            self._rows = []
        self._flushed, self._since = self.done, self._clock()

    def table(self) -> dict[str, np.ndarray]:
        """Returns the arrays of all images so far."""
        return concatenated(self._stored + self._rows)

    def _read(self):
        start = 0
        while (part := _load(self._path(start))) is not None:
            yield part
            start += len(part["keys"])

    def _path(self, start: int) -> pathlib.Path:
        return self._directory / f"{start:08d}.npz"


def concatenated(tables: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Joins tables row by row; one that lacks a name has no rows for it."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {
        name: np.concatenate([table[name] for table in tables if name in table])
        for name in names
    }


def _load(path: pathlib.Path) -> dict[str, np.ndarray] | None:
    """Returns a part; None if it is missing or damaged."""
    try:
        part = arrays.read_npz(path)
    except (OSError, ValueError):
        return None
    keys = part.get("keys")
    if keys is None or keys.ndim != 1 or not len(keys):
        return None
    is_table = all(array.ndim and len(array) <= len(keys) for array in part.values())
    return part if is_table else None
