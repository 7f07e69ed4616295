"""The well-known pickle of LIDC slices, read without running what it says."""

from __future__ import annotations

import codecs
import collections
import dataclasses
import pathlib
import pickle
from typing import Any

import numpy as np

from tf_probunet import files
from tf_probunet.hashing import content_hash
from tf_probunet.preparation.lidc_source import (
    NUM_GRADERS,
    Item,
    Source,
    add_example,
)
from tf_probunet.preparation.problem import Problem
from tf_probunet.preparation.runner import Unit, UnitResult
from tf_probunet.records import Example

SIZE = 128


@dataclasses.dataclass(frozen=True)
class SeriesTask:
    """All slices of a series: its UID, and (key, entry) pairs."""

    series_uid: str
    entries: tuple[tuple[str, Any], ...]


def load(path: files.Path) -> Any:
    """Reads a pickle that may hold NumPy arrays and plain containers, nothing else.

    The whole content is held in memory: pickles cannot be read in pieces.

    Args:
        path: the file.

    Returns:
        What was pickled.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or asks for anything else to be imported.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such pickle")
    with open(path, "rb") as handle:
        try:
            return _RestrictedUnpickler(handle, encoding="latin1").load()
        except (
            pickle.UnpicklingError,
            AttributeError,
            EOFError,
            ImportError,
            IndexError,
            KeyError,
            MemoryError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            # The unpickler raises all of these for damaged files.
            raise ValueError(f"{path}: cannot read the pickle ({error!r})") from error


def source(path: files.Path) -> Source:
    """Reads a dict of key -> {`image`, `masks`, `series_uid`}.

    Args:
        path: the pickle.

    Returns:
        The slices by series: the file does not name the patients.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be read, or holds something else.
    """
    content = load(path)
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"{path}: expected a dict of slices, got {type(content).__name__}"
        )
    by_series = collections.defaultdict(list)
    problems = []
    for key, entry in content.items():
        uid = entry.get("series_uid") if isinstance(entry, dict) else None
        if isinstance(uid, str) and uid:
            by_series[uid].append((str(key), entry))
        else:
            problems.append(
                Problem("unusable entry", str(key), "expected a dict with series_uid")
            )
    return Source(
        items=[
            Item(uid, uid, SeriesTask(uid, tuple(entries)))
            for uid, entries in sorted(by_series.items())
        ],
        process=process_series,
        groups=sorted(by_series),
        image_size=SIZE,
        image_dtype="uint8",
        content=content_hash(
            f"{uid} {key}" for uid, entries in by_series.items() for key, _ in entries
        ),
        problems=problems,
        counts={"slices in the pickle": len(content)},
    )


def process_series(unit: Unit) -> UnitResult:
    """Makes the examples of a series.

    Args:
        unit: with a split and a `SeriesTask`.

    Returns:
        Examples of [128, 128, 1] uint8 with four masks each.
    """
    split, task = unit.payload
    result = UnitResult()
    for key, entry in task.entries:
        try:
            image, labels = _image(entry), _labels(entry)
        except (KeyError, TypeError, ValueError) as error:
            result.problems.append(Problem("unusable entry", key, repr(error)))
            continue
        example = Example(
            key=key, group=task.series_uid, image=image[..., None], labels=labels
        )
        add_example(result, split, example)
    return result


class _RestrictedUnpickler(pickle.Unpickler):
    """Builds NumPy arrays and scalars; refuses every other class and function."""

    def find_class(self, module: str, name: str) -> Any:
        # As NumPy 2 and Python 2 call them.
        module = module.replace("numpy._core", "numpy.core")
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) == ("_codecs", "encode"):
            return _encode_latin1
        if (module, name) in _ADMITTED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"refused to import {module}.{name}, expected NumPy arrays and plain "
            f"containers only"
        )


_ADMITTED = frozenset(
    [
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy.core.numeric", "_frombuffer"),
        ("builtins", "frozenset"),
        ("builtins", "set"),
        ("collections", "OrderedDict"),
    ]
)


def _encode_latin1(text: str, encoding: str) -> bytes:
    """Stands in for `codecs.encode`, by which old protocols write bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"refused the codec {encoding!r}")
    return codecs.latin_1_encode(text)[0]


def _image(entry: dict[str, Any]) -> np.ndarray:
    """Returns the image as grey values, [128, 128] uint8."""
    image = np.asarray(entry["image"], np.float64)
    if image.shape != (SIZE, SIZE):
        raise ValueError(f"image of shape {image.shape}, expected {(SIZE, SIZE)}")
    if not (image.min() >= 0 and image.max() <= 1):  # also refuses NaN
        raise ValueError(
            f"image values from {image.min()} to {image.max()}, expected 0 to 1"
        )
    return np.rint(image * 255).astype(np.uint8)


def _labels(entry: dict[str, Any]) -> np.ndarray:
    """Returns the masks, [4, 128, 128] uint8."""
    masks = np.asarray([np.asarray(mask, np.float64) for mask in entry["masks"]])
    if masks.shape != (NUM_GRADERS, SIZE, SIZE):
        raise ValueError(
            f"masks of shape {masks.shape}, expected {(NUM_GRADERS, SIZE, SIZE)}"
        )
    if not np.isin(masks, (0, 1)).all():
        raise ValueError("mask values other than 0 and 1")
    return masks.astype(np.uint8)
