"""The results directory of an evaluation: its files, and how to read and write them.

This module also decides which results can be compared. It does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_probunet import arrays, files
from tf_probunet.config import MAX_SAMPLES

RESULTS_NAME = "results.json"
PER_IMAGE_NAME = "per_image.npz"
SAMPLES_NAME = "samples.npz"
MARKDOWN_NAME = "results.md"
CSV_NAME = "results.csv"

# What every `results.json` holds. There is more, depending on the data.
_SECTIONS: dict[str, list[type]] = {
    "ged": [dict],
    "protocol": [dict],
    "data": [dict],
    "model": [dict],
    "command": [str],
}
_FIELDS: dict[str, dict[str, list[type]]] = {
    "protocol": {"image_size": [list], "statistic": [str], "limit": [int]},
    "data": {
        "name": [str],
        "fingerprint": [str],
        "split": [str],
        "images": [int],
        "groups": [int],
        "graders": [int],
    },
    "model": {"name": [str], "source": [str], "path": [str], "fingerprint": [str]},
}
_OPTIONAL_SECTIONS = {"ambiguity", "calibration"}

# Results can be compared if these agree. Of the protocol, everything must agree except
# the numbers of samples, of which the common ones are compared, the split that the
# threshold for ambiguity was chosen on, what the protocol is called, and the sampling:
# tables and figures name it.
_SAME_DATA = ("fingerprint", "split", "images")
_FREE_SETTINGS = {
    "num_samples",
    "sampling",
    "validation_split",
    "name",
    "source",
    "matching",
}


class UnavailableError(ValueError):
    """The input does not hold what was asked for."""


class Samples(NamedTuple):
    """Images with the labels of the graders and of the model.

    Images of a mixed data set differ in size and in G; each field is then a list of an
    array for each image.

    Attributes:
        keys: names of the K images.
        images: [K, H, W, C] float32 in 0..1.
        graders: [K, G, H, W] uint8.
        samples: [K, S, H, W] uint8.
    """

    keys: list[str]
    images: Sequence[np.ndarray]
    graders: Sequence[np.ndarray]
    samples: Sequence[np.ndarray]

    def first(self, number: int) -> Samples:
        """Returns the first `number` images."""
        return Samples(
            self.keys[:number],
            self.images[:number],
            self.graders[:number],
            self.samples[:number],
        )


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of one model.

    The arrays are read when they are first used.

    Attributes:
        path: the results directory.
        name: the model's name in tables and legends.
        summary: the content of `results.json`.
    """

    path: pathlib.Path
    name: str
    summary: dict[str, Any]

    @property
    def sampling(self) -> str:
        """How the samples were drawn: independent, stratified or weighted."""
        return str(self.summary["protocol"].get("sampling", "independent"))

    @property
    def title(self) -> str:
        """The name, marked if the samples are not the published protocol's."""
        mark = "" if self.sampling == "independent" else f" ({self.sampling})"
        return self.name + mark

    @functools.cached_property
    def per_image(self) -> dict[str, np.ndarray]:
        """The arrays of `per_image.npz`.

        Raises:
            FileNotFoundError: the file is missing.
            ValueError: the file is damaged, or its arrays do not fit each other.
        """
        path = self.path / PER_IMAGE_NAME
        found = arrays.read_npz(path)
        _check_per_image(found, path)
        return found

    @property
    def counts(self) -> list[int]:
        """The numbers of samples that were scored, in ascending order."""
        return self.per_image["counts"].tolist()

    def has(self, name: str) -> bool:
        """Returns whether there is a per-image array of this name."""
        return name in self.per_image

    def array(self, name: str) -> np.ndarray:
        """Returns a per-image array.

        Raises:
            UnavailableError: there is no array of this name.
        """
        return _entry(self.per_image, name, self.path / PER_IMAGE_NAME)

    def values(self, name: str, count: int) -> dict[str, float] | None:
        """Returns the per-image values of a metric.

        Args:
            name: of the metric.
            count: the number of samples.

        Returns:
            The values by the images' keys; None if the metric is a number of the data
            set as a whole.

        Raises:
            ValueError: the array does not have one number per image and count.
        """
        values = self.per_image.get(name)
        if values is None:
            return None
        _check_metric(self.per_image, name, self.path / PER_IMAGE_NAME)
        if values.ndim > 1:
            values = values[:, self.counts.index(count)]
        return dict(zip(self.per_image["keys"].tolist(), values.tolist()))

    def interval(self, name: str, count: int) -> dict[str, Any] | None:
        """Returns the `mean`, `low` and `high` of a metric.

        Args:
            name: of the metric, with dots between the levels of `results.json`.
            count: the number of samples. Metrics that are reported for the largest
                number only have no interval for the others.

        Returns:
            The interval, in which `low` and `high` may be None; None if the results
            lack the metric.

        Raises:
            ValueError: `results.json` holds something else.
        """
        if count not in self.counts:
            return None
        found = lookup(self.summary, name)
        if isinstance(found, dict) and "mean" not in found:
            found = found.get(str(count))
        elif found is None or count != self.counts[-1]:
            return None
        elif not isinstance(found, dict):
            found = {"mean": found, "low": None, "high": None}
        _check_interval(f"{name} of {count} samples", found, self.path / RESULTS_NAME)
        return found

    def required_interval(self, name: str, count: int) -> dict[str, Any]:
        """Returns the `mean`, `low` and `high` of a metric; see `interval`.

        Raises:
            ValueError: the results lack the metric.
        """
        found = self.interval(name, count)
        if found is None:
            raise ValueError(
                f"{self.path / RESULTS_NAME}: lacks {name} of {count} samples"
            )
        return found

    def samples(self, keys: Sequence[str] = (), number: int = 0) -> Samples:
        """Returns the images that were kept with their samples.

        Args:
            keys: the images to return; the first `number` if none are given.
            number: how many images to return; 0 for all.

        Raises:
            FileNotFoundError: `samples.npz` is missing.
            UnavailableError: no images were kept.
            ValueError: the file is damaged, or a key is not in it.
        """
        path = self.path / SAMPLES_NAME
        stored = [_entry(self._samples, name, path) for name in Samples._fields]
        _check_samples(stored, path)
        places = _places([str(key) for key in stored[0]], keys, number, path)
        chosen = [array[places] for array in stored]
        names, images, graders, samples = chosen
        maps: list[Any] = [images, graders, samples]
        if "sizes" in self._samples:
            sizes = _entry(self._samples, "sizes", path)
            num_graders = _entry(self._samples, "num_graders", path)
            _check_extents(sizes, num_graders, stored[1:], path)
            maps = [*_unpadded(sizes[places], num_graders[places], *chosen[1:])]
        return Samples([str(key) for key in names], *maps)

    @functools.cached_property
    def _samples(self) -> dict[str, np.ndarray]:
        return arrays.read_npz(self.path / SAMPLES_NAME)


def padded_samples(
    kept: Mapping[str, np.ndarray], size: tuple[int, int], num_graders: int
) -> dict[str, np.ndarray]:
    """Pads what is kept of images that have one size to the largest of a data set.

    Args:
        kept: `keys`, `images`, `graders`, `samples` and possibly `mean` of `Samples`.
        size: the largest height and width.
        num_graders: the largest number of graders.

    Returns:
        The same, padded at the end of each axis with 0, and what was there before:
        `sizes` [K, 2] and `num_graders` [K].
    """
    number, found, *shape = kept["graders"].shape
    border = [(0, most - side) for side, most in zip(shape, size)]
    missing = (0, num_graders - found)
    widths = {
        "images": [(0, 0), *border, (0, 0)],
        "graders": [(0, 0), missing, *border],
        "samples": [(0, 0), (0, 0), *border],
        "mean": [(0, 0), *border, (0, 0)],
    }
    return {
        **{k: np.pad(v, widths[k]) if k in widths else v for k, v in kept.items()},
        "sizes": np.tile(np.array(shape, np.int32), (number, 1)),
        "num_graders": np.full(number, found, np.int32),
    }


def _unpadded(
    sizes: np.ndarray,
    num_graders: np.ndarray,
    images: np.ndarray,
    graders: np.ndarray,
    samples: np.ndarray,
) -> list[list[np.ndarray]]:
    """Undoes `padded_samples`."""
    cut = [
        (image[:h, :w], maps[:count, :h, :w], drawn[:, :h, :w])
        for (h, w), count, image, maps, drawn in zip(
            sizes.tolist(), num_graders.tolist(), images, graders, samples
        )
    ]
    return [list(column) for column in zip(*cut)]


def refuse_existing(path: files.Path, overwrite: bool) -> None:
    """Refuses to replace results, unless that is asked for.

    Raises:
        ValueError: the directory holds results.
    """
    results = pathlib.Path(path, RESULTS_NAME)
    if results.exists() and not overwrite:
        raise ValueError(f"{results}: exists already; --overwrite replaces it")


def write(
    path: files.Path,
    summary: Mapping[str, Any],
    *,
    per_image: Mapping[str, np.ndarray],
    samples: Mapping[str, np.ndarray],
    markdown: str,
    csv: str,
) -> None:
    """Writes the results of an evaluation.

    `results.json` is written last: where it exists, all files are complete.

    Args:
        path: the directory.
        summary: the content of `results.json`.
        per_image: arrays [N, ...], among them `keys` [N]; `counts` [C]; and arrays of
            the data set as a whole.
        samples: the arrays of `Samples`, or none if no images were kept.
        markdown: the results as Markdown tables.
        csv: the results as CSV.
    """
    path = pathlib.Path(path)
    (path / RESULTS_NAME).unlink(missing_ok=True)
    files.write_arrays(path / PER_IMAGE_NAME, per_image)
    files.write_arrays(path / SAMPLES_NAME, samples)
    files.write_text(path / MARKDOWN_NAME, markdown)
    files.write_text(path / CSV_NAME, csv)
    files.write_json(path / RESULTS_NAME, summary)


def read(path: files.Path, name: str | None = None) -> Results:
    """Reads results.

    Args:
        path: the directory, or the `results.json` in it.
        name: for tables and legends; the model's name by default.

    Raises:
        FileNotFoundError: there are no results.
        ValueError: `results.json` is damaged.
    """
    path = pathlib.Path(path)
    if path.name == RESULTS_NAME:
        path = path.parent
    file = path / RESULTS_NAME
    summary = files.read_json(file, "results of an evaluation")
    files.check_fields(summary, _SECTIONS, file)
    optional = {section: [dict] for section in _OPTIONAL_SECTIONS & set(summary)}
    files.check_fields(summary, optional, file)
    for section, fields in _FIELDS.items():
        files.check_fields(summary[section], fields, file)
    _check_numbers(summary, file)
    return Results(path, name or summary["model"]["name"], summary)


def read_all(
    paths: Sequence[files.Path], names: Sequence[str] | None = None
) -> list[Results]:
    """Reads the results of several models, and checks that they can be compared.

    Args:
        paths: the directories.
        names: for tables and legends. By default the models' names, or the paths if
            two models have the same name.

    Raises:
        FileNotFoundError: a directory holds no results.
        ValueError: there are not as many names as paths, two are the same, or the
            results can't be compared.
    """
    if names and len(names) != len(paths):
        raise ValueError(
            f"names are {', '.join(names)}: got {len(names)}, expected {len(paths)}, "
            "one for each of the results"
        )
    found = [read(path) for path in paths]
    check_comparable(found)
    if not names:
        names = [results.name for results in found]
        if len(set(names)) < len(names):
            names = [str(path) for path in paths]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{repeated[0]!r} names two of the results, expected a different name for "
            "each; choose them with --names"
        )
    return [dataclasses.replace(r, name=name) for r, name in zip(found, names)]


def check_comparable(results: Sequence[Results]) -> None:
    """Checks that models were scored on the same data by the same protocol.

    Raises:
        ValueError: they were not; the message names the first difference.
    """
    for second in results[1:]:
        first = results[0]
        for section, names in (("data", _SAME_DATA), ("protocol", None)):
            one, other = first.summary[section], second.summary[section]
            for name in names or sorted({*one, *other} - _FREE_SETTINGS):
                if one.get(name) != other.get(name):
                    raise ValueError(
                        f"{first.path} and {second.path} cannot be compared: "
                        f"{section}.{name} is {one.get(name)!r} in the first and "
                        f"{other.get(name)!r} in the second"
                    )


def lookup(summary: Mapping[str, Any], name: str) -> Any:
    """Returns the value under a name with dots; None if there is none."""
    value: Any = summary
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _check_numbers(summary: dict[str, Any], path: pathlib.Path) -> None:
    """Checks sizes, energy distances and their floors, and the matched IoU."""
    data, size = summary["data"], summary["protocol"]["image_size"]
    for name in ("images", "groups"):
        if data[name] < 1:
            raise ValueError(f"{path}: {name} is {data[name]}, expected at least 1")
    if len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
        raise ValueError(f"{path}: image_size is {str(size)[:80]}, expected two sizes")
    for name in {"ged", "floor"} & set(summary):
        by_count = summary[name]
        if not isinstance(by_count, dict) or not by_count:
            raise ValueError(
                f"{path}: {name} is {str(by_count)[:80]}, expected one for each number "
                "of samples"
            )
        for count, value in by_count.items():
            if not (count.isascii() and count.isdecimal() and int(count) > 0):
                raise ValueError(f"{path}: {name} of {count[:80]!r}, expected a number")
            _check_interval(f"{name} of {count} samples", value, path)
    if "hungarian_iou" in summary:
        _check_interval("hungarian_iou", summary["hungarian_iou"], path)


def _check_interval(name: str, value: Any, path: pathlib.Path) -> None:
    """Checks for a mean between its bounds.

    A single group has no bounds, and an undefined mean has none either.
    """
    is_object = isinstance(value, dict) and {"low", "mean", "high"} <= set(value)
    bounds = [value[k] for k in ("low", "mean", "high")] if is_object else []
    known = [bound for bound in bounds if bound is not None]
    if (
        not is_object
        or (known and bounds[1] is None)
        or len(known) == 2
        or not all(type(b) in (int, float) and math.isfinite(b) for b in known)
        or known != sorted(known)
    ):
        raise ValueError(
            f"{path}: {name} is {str(value)[:80]}, expected a mean between low and high"
        )


def _check_per_image(per_image: dict[str, np.ndarray], path: pathlib.Path) -> None:
    missing = {"keys", "counts", "ged"} - set(per_image)
    if missing:
        raise ValueError(f"{path}: lacks {', '.join(sorted(missing))}")
    keys, counts = per_image["keys"], per_image["counts"]
    if keys.ndim != 1 or keys.dtype.kind != "U" or len(set(keys.tolist())) < len(keys):
        raise ValueError(f"{path}: keys are not a list of different names")
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or not len(counts):
        raise ValueError(f"{path}: counts are not a list of whole numbers")
    if len(counts) > MAX_SAMPLES:
        raise ValueError(f"{path}: {len(counts)} counts, expected up to {MAX_SAMPLES}")
    _check_metric(per_image, "ged", path)


def _check_metric(
    per_image: dict[str, np.ndarray], name: str, path: pathlib.Path
) -> None:
    array, images = per_image[name], len(per_image["keys"])
    shapes = [(images, len(per_image["counts"])), (images,)]
    if (
        array.dtype.kind not in "biuf"
        or array.shape not in shapes[: 1 + (name != "ged")]
    ):
        raise ValueError(
            f"{path}: {name} is {array.dtype}{list(array.shape)}, expected numbers "
            f"for {images} images and {shapes[0][1]} counts"
        )


def _check_samples(stored: Sequence[np.ndarray], path: pathlib.Path) -> None:
    numbers = [len(array) if array.ndim else 0 for array in stored]
    if len(set(numbers)) > 1 or not numbers[0]:
        sizes = ", ".join(map(str, numbers))
        raise ValueError(
            f"{path}: keys, images, graders and samples have {sizes} entries; "
            "expected the same number, at least 1"
        )
    images, graders, samples = (array.shape for array in stored[1:])
    if not len(images) == len(graders) == len(samples) == 4 or not (
        images[1:3] == graders[2:] == samples[2:]
    ):
        raise ValueError(
            f"{path}: images, graders and samples have the shapes {list(images)}, "
            f"{list(graders)} and {list(samples)}; expected [K, H, W, C], "
            "[K, G, H, W] and [K, S, H, W]"
        )


def _check_extents(
    sizes: np.ndarray,
    num_graders: np.ndarray,
    stored: Sequence[np.ndarray],
    path: pathlib.Path,
) -> None:
    """Checks the sizes and numbers of graders that padded samples come with."""
    images, graders, _ = stored
    fits = (
        sizes.shape == (len(images), 2)
        and num_graders.shape == (len(images),)
        and sizes.dtype.kind in "iu"
        and num_graders.dtype.kind in "iu"
        and (sizes >= 1).all()
        and (sizes <= images.shape[1:3]).all()
        and (num_graders >= 1).all()
        and (num_graders <= graders.shape[1]).all()
    )
    if not fits:
        raise ValueError(
            f"{path}: sizes and num_graders do not fit the images and graders"
        )


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
