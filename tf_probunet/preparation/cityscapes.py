"""Cityscapes: from the official PNG files to records of 256x512 with 19 classes."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import PIL.Image

from tf_probunet import damage, files
from tf_probunet.dataset import cityscapes_labels, records
from tf_probunet.hashing import content_hash
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation import runner, tree

HEIGHT, WIDTH = 256, 512

# The official training cities that the paper uses for validation.
VALIDATION_CITIES = ("darmstadt", "monchengladbach", "ulm")

# Images per split of the full data set.
FULL_COUNTS = {"train": 2975 - 274, "val": 274, "test": 500}

# The official cities with public labels.
CITIES = {
    "train": tuple(
        "aachen bochum bremen cologne darmstadt dusseldorf erfurt hamburg hanover "
        "jena krefeld monchengladbach strasbourg stuttgart tubingen ulm weimar "
        "zurich".split()
    ),
    "val": ("frankfurt", "lindau", "munster"),
}

# A map looks interpolated if more than this share of the pixels between different ids
# have an id between the two: over 9 % in interpolated street phantoms, and below 1 % in
# intact ones.
_BLENDED_SHARE = 0.05

_SIZES = ((2048, 1024), (WIDTH, HEIGHT))  # (width, height)
_IMAGE_SUFFIX = "_leftImg8bit.png"
_LABEL_SUFFIX = "_gtFine_labelIds.png"
_LARGEST_ID = cityscapes_labels.LABELS[-1].id


class Pair(NamedTuple):
    """The files of one image.

    Attributes:
        key: the common start of the file names, "aachen_000000_000019".
        city: the folder.
        split: of this package, not the official one.
        image: path of the image, relative to the Cityscapes folder.
        labels: path of the label ids, likewise.
    """

    key: str
    city: str
    split: str
    image: str
    labels: str


class _BadFileError(ValueError):
    """A file that cannot be used, with the category of the reason."""

    def __init__(self, reason: str, path: str, detail: str) -> None:
        super().__init__(f"{path}: {reason} ({detail})")
        self.problem = Problem(reason, path, detail)


def prepare(
    cityscapes_dir: files.Path,
    out_dir: files.Path,
    *,
    num_workers: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    num_preview: int = 0,
) -> dict[str, Any]:
    """Writes Cityscapes as records.

    Args:
        cityscapes_dir: the folder with `leftImg8bit` and `gtFine`, pictures at
            2048x1024 or 512x256.
        out_dir: where to write.
        num_workers: processes; 0 stands for one per core.
        strict: whether the first file that can't be used is an error.
        overwrite: replace a data set of other settings.
        num_preview: how many images to show on the contact sheet; 0 for no sheet.

    Returns:
        The report, see `runner.run`.

    Raises:
        FileNotFoundError: if a folder of the layout is missing or has no images.
        ValueError: if a split stays empty, or with `strict` at the first problem.
    """
    pairs, problems = find_pairs(cityscapes_dir)
    problems += tree.list_files(cityscapes_dir, max_depth=4)[1]
    root = str(pathlib.Path(cityscapes_dir))
    return runner.run(
        [
            runner.Unit(
                name=pair.key,
                payload=pair,
                inputs=(f"{root}/{pair.image}", f"{root}/{pair.labels}"),
            )
            for pair in pairs
        ],
        functools.partial(_process, root=root),
        spec=_spec(_content(pathlib.Path(root), pairs)),
        out_dir=out_dir,
        splits=tuple(FULL_COUNTS),
        num_workers=num_workers,
        strict=strict,
        overwrite=overwrite,
        num_preview=num_preview,
        problems=problems,
    )


def split_of(official_split: str, city: str) -> str:
    """Returns the split of a city. The paper validates on some training cities.

    Args:
        official_split: "train" or "val", the folder that contains the city.
        city: the city's folder.

    Returns:
        "train", "val" or "test"; the official validation set is the test set.
    """
    if official_split == "val":
        return "test"
    return "val" if city in VALIDATION_CITIES else "train"


def find_pairs(
    cityscapes_dir: files.Path,
) -> tuple[list[Pair], list[Problem]]:
    """Lists images with their labels, and the files that lack their counterpart.

    Args:
        cityscapes_dir: the folder with `leftImg8bit` and `gtFine`.

    Returns:
        The pairs in the order of their keys, and the problems. These include folders
        that are not read and cities that are not official, which are not faults.

    Raises:
        FileNotFoundError: if a folder of the layout is missing or has no images.
    """
    root = pathlib.Path(cityscapes_dir)
    pairs, problems = [], []
    for official in CITIES:
        images = _by_city_and_key(root, "leftImg8bit", official, _IMAGE_SUFFIX)
        labels = _by_city_and_key(root, "gtFine", official, _LABEL_SUFFIX)
        if not images:
            raise FileNotFoundError(
                f"{root / 'leftImg8bit' / official}: no <city>/*{_IMAGE_SUFFIX} here"
            )
        for (city, key), path in images.items():
            if (city, key) in labels:
                split = split_of(official, city)
                pairs.append(Pair(key, city, split, path, labels[city, key]))
            else:
                expected = f"gtFine/{official}/{city}/{key}{_LABEL_SUFFIX}"
                problems.append(
                    Problem("missing label file", path, f"expected {expected}")
                )
        problems += [
            Problem("label file without image", path)
            for where, path in labels.items()
            if where not in images
        ]
        cities = {city for city, _ in images} - set(CITIES[official])
        problems += [_unofficial(official, city) for city in sorted(cities)]
    return sorted(pairs), problems + _unread_folders(root)


def _unofficial(official: str, city: str) -> Problem:
    """Notes a city that Cityscapes does not have in this folder."""
    split = split_of(official, city)
    elsewhere = [name for name, cities in CITIES.items() if city in cities]
    known = f"officially in {elsewhere[0]}, " if elsewhere else ""
    return Problem(
        "no official city of this folder",
        f"leftImg8bit/{official}/{city}",
        f"{known}used for {split}",
        expected=True,
    )


def _unread_folders(root: pathlib.Path) -> list[Problem]:
    """Notes folders other than train and val, such as test and train_extra."""
    folders = [
        folder
        for kind in ("leftImg8bit", "gtFine")
        for folder in sorted((root / kind).iterdir())
        if folder.is_dir() and folder.name not in CITIES
    ]
    return [
        Problem(
            "folder not read",
            str(folder.relative_to(root)),
            f"{sum(1 for _ in folder.glob('*/*.png'))} PNG files; expected "
            f"{' and '.join(CITIES)}, the folders with public fine labels",
            expected=True,
        )
        for folder in folders
    ]


def count_notes(splits: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Compares the numbers of images with those of the full data set.

    Args:
        splits: `splits` of the report.

    Returns:
        One line if the data set is complete, else one line per split that differs.
    """
    notes = [
        f"note: {split} has {splits[split]['examples']} images, the full data set has "
        f"{full}"
        for split, full in FULL_COUNTS.items()
        if splits[split]["examples"] != full
    ]
    return notes or [
        "counts are those of the full data set: "
        + ", ".join(f"{split} {full}" for split, full in FULL_COUNTS.items())
    ]


def _content(root: pathlib.Path, pairs: Sequence[Pair]) -> str:
    """Returns a hash of the files' names and sizes."""
    paths = [path for pair in pairs for path in (pair.image, pair.labels)]
    return content_hash(f"{path} {(root / path).stat().st_size}" for path in paths)


def _spec(content: str) -> records.DatasetSpec:
    return records.DatasetSpec(
        name="cityscapes",
        class_names=cityscapes_labels.TRAIN_CLASS_NAMES,
        image_shape=(HEIGHT, WIDTH, 3),
        image_dtype="uint8",
        intensity="uint8",
        num_graders=1,
        ignore_label=cityscapes_labels.IGNORE_LABEL,
        preparation={
            "input": content,
            "image_resize": "area",
            "label_resize": "nearest",
            "validation_cities": list(VALIDATION_CITIES),
        },
    )


def _by_city_and_key(
    root: pathlib.Path, kind: str, official: str, suffix: str
) -> dict[tuple[str, str], str]:
    """Paths relative to the root by (city, key), sorted."""
    folder = root / kind / official
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: no such folder; expected leftImg8bit and gtFine with train and "
            "val in it, as in the official Cityscapes archives"
        )
    return {
        (city, file[: -len(suffix)]): f"{kind}/{official}/{name}"
        for name in tree.list_files(folder, max_depth=2)[0]
        for city, _, file in [name.rpartition("/")]
        if city and file.endswith(suffix)
    }


def _process(unit: runner.Unit, root: str) -> runner.UnitResult:
    """Reads one pair of files; what can't be used becomes a problem."""
    pair = unit.payload
    try:
        image = _read(root, pair.image, "RGB", _SIZES)
        picture = _read(root, pair.labels, "L", [image.size])
    except _BadFileError as error:
        return runner.UnitResult(problems=[error.problem])
    blended = blended_share(np.asarray(picture))
    nearest = PIL.Image.Resampling.NEAREST
    ids = np.asarray(picture.resize((WIDTH, HEIGHT), nearest))
    example = records.Example(
        key=pair.key,
        group=pair.city,
        # Rounds once, where resize() rounds after the rows and after the columns.
        image=np.asarray(image.reduce(image.width // WIDTH)),
        labels=cityscapes_labels.to_train_ids(ids)[None],
    )
    unknown = "label maps with ids that are not in the official table"
    return runner.UnitResult(
        examples=[(pair.split, example)],
        problems=[_blended(pair, blended)] if blended > _BLENDED_SHARE else [],
        counts={unknown: 1} if ids.max() > _LARGEST_ID else {},
    )


def blended_share(ids: np.ndarray) -> float:
    """Measures whether a label map was resized by interpolation.

    At a border, interpolation gives numbers between two ids, which are the ids of other
    classes.

    Args:
        ids: [H, W] uint8.

    Returns:
        Of the pixels whose neighbours to the left and right (or above and below) have
        different ids, the share whose own id lies strictly between the two; 0 if there
        are no such pixels.
    """
    borders = between = 0
    for across in (ids, ids.T):
        first, middle, last = across[:, :-2], across[:, 1:-1], across[:, 2:]
        borders += int(np.count_nonzero(first != last))
        rising = (first < middle) & (middle < last)
        falling = (first > middle) & (middle > last)
        between += int(np.count_nonzero(rising | falling))
    return between / borders if borders else 0.0


def _blended(pair: Pair, share: float) -> Problem:
    return Problem(
        "label map that looks interpolated",
        pair.labels,
        f"{share:.0%} of the pixels at borders have an id between those of their "
        f"neighbours, expected at most {_BLENDED_SHARE:.0%}; used as it is, but its "
        "classes are wrong there: resize label maps by nearest neighbour",
    )


def _read(
    root: str, path: str, mode: str, sizes: Sequence[tuple[int, int]]
) -> PIL.Image.Image:
    """Reads a PNG of one of the sizes (width, height) and of the mode, or raises."""
    try:
        with files.BoundedReader(pathlib.Path(root) / path) as file:
            image = PIL.Image.open(file, formats=["PNG"])
            _check_header(image, path, mode, sizes)
            image.load()
            return image
    except _BadFileError:
        raise
    except damage.PICTURE as error:
        raise _BadFileError("unreadable PNG", path, damage.reason(error)) from error


def _check_header(
    image: PIL.Image.Image, path: str, mode: str, sizes: Sequence[tuple[int, int]]
) -> None:
    if image.size not in sizes:
        expected = " or ".join(f"{width}x{height}" for width, height in sizes)
        found = f"{image.size[0]}x{image.size[1]}"
        raise _BadFileError("wrong size", path, f"{found}, expected {expected}")
    if mode != image.mode or mode != damage.stored_mode(image):
        found = image.mode if mode != image.mode else damage.stored_mode(image)
        raise _BadFileError(
            "wrong pixel format", path, f"{found}, expected {mode} of 8 bits"
        )
