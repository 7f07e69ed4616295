"""Reads the results directories that run/evaluate.py writes."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_probunet import arrays, files

RESULTS_NAME = "results.json"
PER_IMAGE_NAME = "per_image.npz"
SAMPLES_NAME = "samples.npz"

# What has to agree before models may stand in one figure.
_COMPARABLE = (
    ("data", "fingerprint"),
    ("data", "split"),
    ("data", "images"),
    ("protocol", "image_size"),
    ("protocol", "statistic"),
    ("protocol", "both_empty"),
)


class UnavailableError(ValueError):
    """The input does not hold what a figure is made of."""


class Samples(NamedTuple):
    """Some images with what graders and model marked in them.

    Attributes:
        keys: of the K images.
        images: [K, H, W, C] float32 in 0..1.
        graders: [K, G, H, W] uint8.
        samples: [K, S, H, W] uint8.
    """

    keys: list[str]
    images: np.ndarray
    graders: np.ndarray
    samples: np.ndarray

    def first(self, number: int) -> Samples:
        """Returns the first so many images."""
        return Samples(*(entries[:number] for entries in self))


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of one model.

    Attributes:
        name: of the model, for legends.
        directory: where its results lie.
        numbers: the content of `results.json`.
    """

    name: str
    directory: pathlib.Path
    numbers: dict[str, Any]

    def has(self, name: str) -> bool:
        """Whether there is such a per-image array."""
        return name in self._per_image

    def array(self, name: str) -> np.ndarray:
        """Returns an array of `per_image.npz`.

        Raises:
            UnavailableError: there is none of that name.
        """
        return _entry(self._per_image, name, self.directory / PER_IMAGE_NAME)

    def samples(self, keys: Sequence[str] = (), number: int = 0) -> Samples:
        """Returns the images that were kept with their samples.

        Args:
            keys: which ones; if none are named, the first `number`.
            number: how many; 0 for all.

        Raises:
            UnavailableError: no images were kept.
            ValueError: a key is not among them.
        """
        path = self.directory / SAMPLES_NAME
        stored = [
            _entry(self._samples, name, path)
            for name in ("keys", "images", "graders", "samples")
        ]
        numbers = [len(array) if array.ndim else 0 for array in stored]
        if len(set(numbers)) > 1 or not numbers[0]:
            sizes = ", ".join(map(str, numbers))
            raise ValueError(
                f"{path}: keys, images, graders and samples have {sizes} entries; "
                "expected the same number, at least 1"
            )
        images, graders, samples = (array.shape for array in stored[1:])
        if len(images) != 4 or not (
            len(graders) == len(samples) == 4
            and images[1:3] == graders[2:] == samples[2:]
        ):
            raise ValueError(
                f"{path}: images, graders and samples have the shapes {list(images)}, "
                f"{list(graders)} and {list(samples)}; expected [K, H, W, C], "
                "[K, G, H, W] and [K, S, H, W]"
            )
        places = _places([str(key) for key in stored[0]], keys, number, path)
        chosen = [array[places] for array in stored]
        return Samples([str(key) for key in chosen[0]], *chosen[1:])

    @functools.cached_property
    def _per_image(self) -> dict[str, np.ndarray]:
        return read_npz(self.directory / PER_IMAGE_NAME)

    @functools.cached_property
    def _samples(self) -> dict[str, np.ndarray]:
        return read_npz(self.directory / SAMPLES_NAME)


def read(directories: Sequence[str], names: Sequence[str] = ()) -> list[Results]:
    """Reads several results directories.

    Args:
        directories: as run/evaluate.py wrote them.
        names: of the models; the directories' names if there are none.

    Returns:
        The results, in this order.

    Raises:
        FileNotFoundError: a directory holds no results.
        ValueError: there are not as many names as directories, or one stands twice.
    """
    paths = [pathlib.Path(directory) for directory in directories]
    names = list(names) or [path.resolve().name for path in paths]
    if len(names) != len(paths):
        raise ValueError(
            f"names are {', '.join(names)}: {len(names)} for {len(paths)} results; "
            "expected one each"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the name {twice[0]!r} stands twice; name each model apart")
    return [
        Results(name, path, _read_numbers(path / RESULTS_NAME))
        for name, path in zip(names, paths)
    ]


def _read_numbers(path: pathlib.Path) -> dict[str, Any]:
    numbers = files.read_json(path, "results of a model")
    sections = {"data", "protocol", "ged", "ambiguity"} & set(numbers)
    files.check_fields(numbers, {name: [dict] for name in sections}, path)
    return numbers


def check_comparable(results: Sequence[Results]) -> None:
    """Checks that models were scored on the same data in the same way.

    Raises:
        ValueError: they were not; the message names the first difference.
    """
    first = results[0]
    for other in results[1:]:
        for section, name in _COMPARABLE:
            mine, theirs = (
                r.numbers.get(section, {}).get(name) for r in (first, other)
            )
            if mine != theirs:
                raise ValueError(
                    f"{first.directory} has the {section} {name} {mine!r} and "
                    f"{other.directory} has {theirs!r}; only results of the same data "
                    "and protocol can be compared"
                )


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads all arrays of an NPZ file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; run/evaluate.py writes it")
    return arrays.read_npz(path)


def _entry(stored: dict[str, np.ndarray], name: str, path: pathlib.Path) -> np.ndarray:
    if name not in stored:
        raise UnavailableError(f"{path}: no array {name!r} in it")
    return stored[name]


def _places(
    stored: list[str], keys: Sequence[str], number: int, path: pathlib.Path
) -> list[int]:
    for key in keys:
        if key not in stored:
            known = ", ".join(stored[:5]) + (", ..." if len(stored) > 5 else "")
            raise ValueError(f"{path}: no image {key!r}; there are {known}")
    if keys:
        return [stored.index(key) for key in keys]
    return list(range(min(number or len(stored), len(stored))))
