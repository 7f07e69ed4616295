"""Pickles of LIDC slices, as the well-known one."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np


def entry(uid="1.2.3", areas=(1, 0, 2, 0), dtype=np.float64, **changes):
    """A slice of a series; the masks have these areas."""
    masks = []
    for area in areas:
        mask = np.zeros(128 * 128, dtype)
        mask[:area] = 1
        masks.append(mask.reshape(128, 128))
    image = np.linspace(0, 1, 128 * 128).reshape(128, 128)
    return {"image": image, "masks": masks, "series_uid": uid, **changes}


def write(
    directory: pathlib.Path, value: Any, protocol: int = pickle.DEFAULT_PROTOCOL
) -> pathlib.Path:
    """Writes a pickle, and returns its path."""
    path = directory / "data.pickle"
    path.write_bytes(pickle.dumps(value, protocol))
    return path
