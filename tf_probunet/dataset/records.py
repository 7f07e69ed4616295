"""The record format: sharded TFRecords and a `dataset_info.json`.

An image is one PNG; signed 16-bit values are shifted to unsigned ones. The label map of
each grader is a PNG of its own, so that training decodes only the one it draws. The
images of a data set may differ in size and in their number of graders.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import math
import os
import pathlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from tf_probunet import damage, files, limits
from tf_probunet.config import MAX_SIDE
from tf_probunet.hashing import salted_hash

# The major part changes when old readers would misread new data.
FORMAT_VERSION = "1.0"
# Of data sets whose images differ in size or in their number of graders.
MIXED_FORMAT_VERSION = "2.0"
INFO_NAME = "dataset_info.json"
IGNORE_LABEL = 255

# The start of a PNG file, up to its width and height.
_PNG_HEAD = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"
_INT16_OFFSET = 32768
_ORDER_SALT = "record order"
# No study has more graders or modes; a larger number is a damaged description.
_MAX_MAPS = 1024
MAX_GRADERS = 32  # Of a data set in which the number varies.
_MAX_CLASSES = 256  # Label maps are stored as uint8.
# A record: its length, the checksum of that, its bytes, the checksum of those.
_FRAME_HEAD, _FRAME_TAIL = struct.Struct("<QI"), 4
_SHARD_NAME = re.compile(r"[\w-]+\.tfrecord")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# What the values mean, and how they are stored.
_DTYPES = {"hu": "int16", "uint8": "uint8"}
_CHANNELS = {"hu": (1,), "uint8": (1, 3)}


class _TensorFlow:
    """Loads TensorFlow on first use, because the workers of a preparation need none.

    It would take seconds and hundreds of megabytes in each of them.
    """

    def __getattr__(self, name: str) -> Any:
        import tensorflow

        return getattr(tensorflow, name)


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = _TensorFlow()


@dataclasses.dataclass(frozen=True)
class Example:
    """One image with the label maps of its graders.

    Attributes:
        key: a name that is unique in the data set.
        group: what must be in one split only: the patient, the city.
        image: [H, W, C], uint8 or int16 (Hounsfield units).
        labels: [G, H, W] uint8, a label map for each grader.
        modes: [M, H, W] uint8, the label maps a grader can draw, where they are known.
        mode_probs: [M], how probable each of them is.
        spacing_mm: size of a pixel (row, column), where it is known.
    """

    key: str
    group: str
    image: np.ndarray
    labels: np.ndarray
    modes: np.ndarray | None = None
    mode_probs: np.ndarray | None = None
    spacing_mm: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class DatasetSpec:
    """What all examples of a data set have in common.

    Attributes:
        name: of the data set.
        class_names: of the labels 0, 1, ...
        image_shape: (H, W, C). If sizes vary, the largest height and width.
        image_dtype: "uint8" or "int16".
        intensity: what the values mean: "hu" or "uint8".
        num_graders: label maps per image. If the number varies, the largest.
        ignore_label: the label of ignored pixels, or None.
        num_modes: how many known modes an example carries; 0 for none.
        preparation: the settings of the preparation.
        min_graders: the smallest number of label maps of an image, if it varies.
        min_size: the smallest height and the smallest width, if sizes vary.
    """

    name: str
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    image_dtype: str
    intensity: str
    num_graders: int
    ignore_label: int | None = None
    num_modes: int = 0
    preparation: dict[str, Any] = dataclasses.field(default_factory=dict)
    min_graders: int | None = None
    min_size: tuple[int, int] | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes in the stored label maps."""
        return len(self.class_names)

    @property
    def fewest_graders(self) -> int:
        """The smallest number of label maps of an image."""
        return self.num_graders if self.min_graders is None else self.min_graders

    @property
    def smallest_size(self) -> tuple[int, int]:
        """The smallest height and the smallest width of an image."""
        return self.image_shape[:2] if self.min_size is None else self.min_size

    @property
    def is_mixed(self) -> bool:
        """Whether the images differ in size or in their number of graders."""
        return self.min_graders is not None or self.min_size is not None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, without those that only mixed data sets have."""
        fields = dataclasses.asdict(self)
        for name in ("min_graders", "min_size"):
            if fields[name] is None:
                del fields[name]
        return fields

    @classmethod
    def mixed(cls, *, channels: int, **fields: Any) -> DatasetSpec:
        """Returns a specification for images of any size with any number of graders.

        `write_dataset` replaces the limits by those of the examples that it writes.
        """
        return cls(
            image_shape=(MAX_SIDE, MAX_SIDE, channels),
            min_size=(1, 1),
            num_graders=MAX_GRADERS,
            min_graders=1,
            **fields,
        )


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """A prepared data set on disk: its `dataset_info.json`.

    Attributes:
        data_dir: its directory.
        spec: what the examples look like.
        splits: for each split, `count`, `groups` and a list of `shards` (`file`,
            `count`, `bytes`, `sha256`). If the number of graders varies, also
            `graders`: how many images have how many.
    """

    data_dir: pathlib.Path
    spec: DatasetSpec
    splits: dict[str, dict[str, Any]]

    def count(self, split: str) -> int:
        """Returns the number of examples in a split."""
        return self._split(split)["count"]

    def most_graders(self, split: str) -> int:
        """Returns the largest number of graders of an example in a split."""
        varying = self._split(split).get("graders")
        return max(map(int, varying)) if varying else self.spec.num_graders

    def shard_paths(self, split: str) -> list[str]:
        """Returns the shards of a split, each checked against the description.

        A record with a wrong length crashes TensorFlow, so let it read only shards
        from here.

        Raises:
            FileNotFoundError: a shard is missing.
            ValueError: a shard is truncated or damaged, holds another number of
                records than declared, or there is no such split.
        """
        paths = []
        for shard in self._split(split)["shards"]:
            path = self.data_dir / shard["file"]
            _check_shard(path, shard)
            paths.append(str(path))
        return paths

    @property
    def fingerprint(self) -> str:
        """A short hash of the shards; equal for data sets with the same shards.

        `description` says what the records mean.
        """
        sums = [s["sha256"] for split in self.splits.values() for s in split["shards"]]
        return f"{salted_hash(' '.join(sums), 'fingerprint'):016x}"

    @property
    def description(self) -> dict[str, Any]:
        """What models and results depend on, as JSON: the shards and their meaning."""
        spec = self.spec
        return {
            "name": spec.name,
            "fingerprint": self.fingerprint,
            "class_names": list(spec.class_names),
            "intensity": spec.intensity,
            "image_shape": list(spec.image_shape),
            "num_graders": spec.num_graders,
            "preparation": spec.preparation,
            "counts": {split: self.count(split) for split in self.splits},
            **{
                name: value
                for name, value in spec.to_json().items()
                if name in ("min_graders", "min_size")
            },
        }

    def _split(self, split: str) -> dict[str, Any]:
        if split not in self.splits:
            raise ValueError(
                f"{self.data_dir}: no split {split!r}; there are "
                f"{', '.join(sorted(self.splits))}"
            )
        return self.splits[split]


def encode(example: Example, spec: DatasetSpec) -> bytes:
    """Serialises an example as a `tf.train.Example`.

    Raises:
        ValueError: the example does not fit the specification.
    """
    _check_example(example, spec)
    features = {
        "key": _bytes_list([example.key.encode()]),
        "group": _bytes_list([example.group.encode()]),
        "image": _bytes_list([_encode_png(example.image)]),
        "labels": _bytes_list([_encode_png(m[..., None]) for m in example.labels]),
    }
    if example.modes is not None and example.mode_probs is not None:
        features["modes"] = _bytes_list(
            [_encode_png(m[..., None]) for m in example.modes]
        )
        features["mode_probs"] = _float_list(example.mode_probs)
    if example.spacing_mm is not None:
        features["spacing_mm"] = _float_list(example.spacing_mm)
    # Example.features, and each entry of Features.feature: its key and its value.
    entries = [
        _field(1, _field(1, name.encode()) + _field(2, feature))
        for name, feature in sorted(features.items())
    ]
    return _field(1, b"".join(entries))


def parse(serialized: tf.Tensor, spec: DatasetSpec) -> dict[str, tf.Tensor]:
    """Parses a serialised example; images and label maps stay encoded.

    Args:
        serialized: a string scalar.
        spec: the data set's specification.

    Returns:
        `key` and `group` (strings), `image` (PNG string), `labels` ([G] PNG strings,
        where G is unknown to the graph if the number of graders varies),
        `spacing_mm` ([2], NaN where unknown) and, where the spec has modes, `modes`
        ([M] PNG strings) and `mode_probs` ([M]).
    """
    features = {
        "key": tf.io.FixedLenFeature([], tf.string),
        "group": tf.io.FixedLenFeature([], tf.string),
        "image": tf.io.FixedLenFeature([], tf.string),
        "labels": tf.io.FixedLenFeature([spec.num_graders], tf.string),
        "spacing_mm": tf.io.FixedLenFeature([2], tf.float32, [np.nan, np.nan]),
    }
    if spec.num_modes:
        features["modes"] = tf.io.FixedLenFeature([spec.num_modes], tf.string)
        features["mode_probs"] = tf.io.FixedLenFeature([spec.num_modes], tf.float32)
    if spec.min_graders is not None:
        features["labels"] = tf.io.RaggedFeature(tf.string)
    parsed = tf.io.parse_single_example(serialized, features)
    with tf.control_dependencies(_mixed_checks(parsed, spec)):
        return {name: tf.identity(value) for name, value in parsed.items()}


def _mixed_checks(parsed: dict[str, tf.Tensor], spec: DatasetSpec) -> list[Any]:
    """Checks what the graph can't know beforehand of an image of a mixed data set."""
    checks = []
    if spec.min_graders is not None:
        count = tf.size(parsed["labels"])
        expected = f"label maps, expected {spec.min_graders} to {spec.num_graders}"
        checks.append(
            tf.debugging.Assert(
                (count >= spec.min_graders) & (count <= spec.num_graders),
                ["an image has", count, expected],
            )
        )
    if spec.min_size is not None:
        length = len(_PNG_HEAD) + 8  # With the width and the height.
        image = tf.strings.substr(parsed["image"], 0, length)
        for name in ("labels", "modes"):
            if name in parsed:
                same = tf.strings.substr(parsed[name], 0, length) == image
                message = f"an image and its {name} differ in size"
                checks.append(tf.debugging.Assert(tf.reduce_all(same), [message]))
    return checks


def decode_image(png: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Decodes an image to [H, W, C] float32, in the units of `spec.intensity`.

    If sizes vary, the graph does not know H and W.
    """
    dtype = tf.uint16 if spec.image_dtype == "int16" else tf.uint8
    png = _with_size(png, spec)
    image = tf.io.decode_png(png, channels=spec.image_shape[2], dtype=dtype)
    shape = [*_static_size(spec), spec.image_shape[2]]
    image = tf.ensure_shape(tf.cast(image, tf.float32), shape)
    return image - _INT16_OFFSET if spec.image_dtype == "int16" else image


def decode_labels(png: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Decodes one label map to [H, W] int32. Labels must be classes."""
    png = _with_size(png, spec)
    labels = tf.io.decode_png(png, channels=1, dtype=tf.uint8)[..., 0]
    labels = tf.ensure_shape(tf.cast(labels, tf.int32), _static_size(spec))
    is_class = labels < spec.num_classes
    expected = f"0 to {spec.num_classes - 1}"
    if spec.ignore_label is not None:
        is_class |= labels == spec.ignore_label
        expected += f" and {spec.ignore_label}"
    found = tf.reduce_max(tf.where(is_class, 0, labels))
    message = ["a label map holds", found, f"expected {expected}"]
    with tf.control_dependencies([tf.debugging.Assert(found == 0, message)]):
        return tf.identity(labels)


def _with_size(png: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Returns a PNG after checking its size, because decoding allocates any size."""
    height, width, _ = spec.image_shape
    head = _PNG_HEAD
    expected = f"{height}x{width} pixels"
    if spec.min_size is None:
        head += struct.pack(">II", width, height)
    else:
        expected = "{}x{} to ".format(*spec.min_size) + expected
    # Not `assert_equal`: its message would contain the bytes that were found.
    fits = tf.equal(tf.strings.substr(png, 0, len(head)), head)
    if spec.min_size is not None:
        # A file that is too short has no such bytes, and fails the check.
        found = tf.strings.substr(tf.strings.join([png, "\0" * 24]), len(head), 8)
        sides = tf.io.decode_raw(found, tf.int32, little_endian=False)  # Width, height.
        fits &= tf.reduce_all(sides >= spec.min_size[::-1])
        fits &= tf.reduce_all(sides <= [width, height])
    check = tf.debugging.Assert(fits, [f"expected a PNG picture of {expected}"])
    with tf.control_dependencies([check]):
        return tf.identity(png)


def _static_size(spec: DatasetSpec) -> list[int | None]:
    """Returns height and width as far as a graph can know them."""
    return [*spec.image_shape[:2]] if spec.min_size is None else [None, None]


def decode_all_labels(pngs: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Decodes [N] label maps to [N, H, W] int32."""
    return tf.map_fn(
        lambda png: decode_labels(png, spec), pngs, fn_output_signature=tf.int32
    )


# Key, group, and a function that returns the serialised example.
Entry = tuple[str, str, Callable[[], bytes]]


def write_dataset(
    out_dir: files.Path,
    spec: DatasetSpec,
    splits: Mapping[str, Sequence[Entry]],
    *,
    examples_per_shard: int = 512,
) -> DatasetInfo:
    """Writes serialised examples as shards, and then `dataset_info.json`.

    Args:
        out_dir: where to write.
        spec: what the examples look like. If sizes or numbers of graders vary, the
            smallest and largest ones of the examples are written in place of its
            limits.
        splits: for each split its examples in any order, as (key, group, function that
            returns the serialised example).
        examples_per_shard: the largest number in one file.

    Returns:
        The data set as it can be read.

    Raises:
        ValueError: a key occurs twice, a group is in two splits, a split is empty, or
            the specification contradicts itself.
    """
    out_dir = pathlib.Path(out_dir)
    _check_spec(spec)
    if not spec.is_mixed:
        _check_memory(spec)
    _check_splits(splits)
    stale = _earlier_shards(out_dir)
    # The directory is not a data set until all shards are written.
    (out_dir / INFO_NAME).unlink(missing_ok=True)
    described, found = {}, _Found()
    for split, examples in splits.items():
        ordered = sorted(examples, key=lambda e: (salted_hash(e[0], _ORDER_SALT), e[0]))
        here = _Found()
        if spec.is_mixed:
            ordered = [(key, group, here.watch(read)) for key, group, read in ordered]
        described[split] = {
            "count": len(ordered),
            "groups": len({group for _, group, _ in ordered}),
            "shards": _write_shards(out_dir, split, ordered, examples_per_shard),
        }
        found.add(here)
        if spec.min_graders is not None:
            described[split]["graders"] = here.graders
    spec = found.within(spec) if spec.is_mixed else spec
    version = MIXED_FORMAT_VERSION if spec.is_mixed else FORMAT_VERSION
    info = {"format_version": version, **spec.to_json()}
    info["splits"] = described
    files.write_json(out_dir / INFO_NAME, info)
    for name in stale - _shard_names(described):
        (out_dir / name).unlink(missing_ok=True)
    return read_info(out_dir)


class _Found:
    """Notes the sizes and the numbers of graders of the examples that are written."""

    def __init__(self) -> None:
        self._graders: collections.Counter[int] = collections.Counter()
        self._sizes: set[tuple[int, int]] = set()

    @property
    def graders(self) -> dict[str, int]:
        """How many images have how many graders, as JSON."""
        return {str(count): self._graders[count] for count in sorted(self._graders)}

    def watch(self, read: Callable[[], bytes]) -> Callable[[], bytes]:
        """Returns a function that reads a serialised example and notes what it is."""

        def read_and_note() -> bytes:
            data = read()
            features = tf.train.Example.FromString(data).features.feature
            self._graders[len(features["labels"].bytes_list.value)] += 1
            head = features["image"].bytes_list.value[0][len(_PNG_HEAD) :][:8]
            width, height = struct.unpack(">II", head)
            self._sizes.add((height, width))
            return data

        return read_and_note

    def add(self, other: _Found) -> None:
        """Adds what another one has noted."""
        self._graders.update(other._graders)
        self._sizes |= other._sizes

    def within(self, spec: DatasetSpec) -> DatasetSpec:
        """Returns the specification with the limits that were found."""
        changes: dict[str, Any] = {}
        if spec.min_graders is not None:
            least, most = min(self._graders), max(self._graders)
            changes["num_graders"] = most
            changes["min_graders"] = None if least == most else least
        if spec.min_size is not None:
            heights, widths = zip(*self._sizes)
            largest, smallest = ((f(heights), f(widths)) for f in (max, min))
            changes["image_shape"] = (*largest, spec.image_shape[2])
            changes["min_size"] = None if largest == smallest else smallest
        return dataclasses.replace(spec, **changes)


def read_info(data_dir: files.Path) -> DatasetInfo:
    """Reads the description of a prepared data set.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, or of a format that this version does not read.
    """
    data_dir = pathlib.Path(data_dir)
    path = data_dir / INFO_NAME
    if not path.is_file():
        raise FileNotFoundError(
            f"{data_dir}: no {INFO_NAME} here; prepare the data first, for example "
            f"with run/prepare_phantom.py --out_dir={data_dir}"
        )
    raw = files.read_json(path, "data set description")
    version = str(raw.pop("format_version", "unknown"))[:20]
    known = (FORMAT_VERSION, MIXED_FORMAT_VERSION)
    if version.split(".")[0] not in {number.split(".")[0] for number in known}:
        raise ValueError(
            f"{path}: written in record format {version}, but this version reads "
            f"{' and '.join(known)}; prepare the data again with run/prepare_*.py"
        )
    try:
        splits = raw.pop("splits")
        spec = DatasetSpec(
            **{
                **raw,
                "class_names": tuple(raw["class_names"]),
                "image_shape": tuple(raw["image_shape"]),
                "min_size": tuple(raw["min_size"]) if "min_size" in raw else None,
            }
        )
        _check_spec(spec)
        _check_memory(spec)
        _check_shards(splits)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path}: damaged data set description ({type(error).__name__}: "
            f"{damage.reason(error)})"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{path}: damaged data set description ({damage.reason(error)})"
        ) from error
    return DatasetInfo(data_dir=data_dir, spec=spec, splits=splits)


@contextlib.contextmanager
def named_errors(info: DatasetInfo, *splits: str) -> Iterator[None]:
    """Names the shard, the record and the reason when TensorFlow can't read a record.

    TensorFlow's error does not name them. The splits are therefore read again. If every
    record is good, the error has another cause and is raised as it is.

    Args:
        info: the data set.
        *splits: the splits that may contain the bad record.

    Raises:
        ValueError: a record can't be read.
    """
    try:
        yield
    except (
        tf.errors.ResourceExhaustedError
    ):  # Memory or disk: not the fault of a record.
        raise
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        for split in splits:
            fault = _first_fault(info, split)
            if fault is not None:
                raise ValueError(fault) from error
        raise


def _first_fault(info: DatasetInfo, split: str) -> str | None:
    """Returns which record of a split can't be read and why; None if all can."""

    def decode(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = parse(serialized, info.spec)
        for name in {"labels", "modes"} & set(parsed):
            parsed[name] = decode_all_labels(parsed[name], info.spec)
        return {**parsed, "image": decode_image(parsed["image"], info.spec)}

    for path, shard in zip(info.shard_paths(split), info.splits[split]["shards"]):
        decoded = tf.data.TFRecordDataset(path).map(
            decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        number = 1
        try:
            for example in decoded.as_numpy_iterator():
                example["key"].decode()
                example["group"].decode()
                number += 1
        except tf.errors.OpError as error:
            reason = damage.graph_reason(error)
        except UnicodeDecodeError:
            reason = "its key or group is not text"
        else:
            continue
        return (
            f"{path}: unreadable record {number} of {shard['count']} ({reason}); "
            "prepare the data again"
        )
    return None


def _check_example(example: Example, spec: DatasetSpec) -> None:
    def expect(name: str, value: np.ndarray, shape: tuple[int, ...], dtype: str):
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(
                f"{example.key}: {name} is {value.dtype}{list(value.shape)}, "
                f"expected {dtype}{list(shape)}"
            )

    height, width, channels = spec.image_shape
    num_graders = spec.num_graders
    if spec.min_size is not None:
        size = example.image.shape[:2]
        least = spec.min_size
        if not (least[0] <= size[0] <= height and least[1] <= size[1] <= width):
            raise ValueError(
                f"{example.key}: image is {size[0]}x{size[1]}, expected "
                f"{least[0]}x{least[1]} to {height}x{width}"
            )
        height, width = size
    if spec.min_graders is not None:
        num_graders = len(example.labels)
        if not spec.min_graders <= num_graders <= spec.num_graders:
            raise ValueError(
                f"{example.key}: has {num_graders} graders, expected "
                f"{spec.min_graders} to {spec.num_graders}"
            )
    expect("image", example.image, (height, width, channels), spec.image_dtype)
    expect("labels", example.labels, (num_graders, height, width), "uint8")
    if (example.modes is None) != (spec.num_modes == 0):
        raise ValueError(
            f"{example.key}: modes are {'missing' if spec.num_modes else 'given'}, "
            f"but the data set has {spec.num_modes} of them"
        )
    if example.modes is not None:
        expect("modes", example.modes, (spec.num_modes, height, width), "uint8")
        _check_probs(example, spec)
    if example.spacing_mm is not None and len(example.spacing_mm) != 2:
        raise ValueError(
            f"{example.key}: spacing_mm is {example.spacing_mm}, expected two numbers"
        )
    maps = [example.labels] + ([] if example.modes is None else [example.modes])
    found = {
        int(label) for a in maps for label in np.flatnonzero(np.bincount(a.ravel()))
    }
    unknown = found - set(range(spec.num_classes)) - {spec.ignore_label}
    if unknown:
        raise ValueError(
            f"{example.key}: labels {sorted(unknown)} are not among the "
            f"{spec.num_classes} classes of {spec.name}"
        )


def _check_probs(example: Example, spec: DatasetSpec) -> None:
    probs = np.asarray(example.mode_probs, np.float64)
    if probs.shape != (spec.num_modes,) or not np.all(probs >= 0):
        raise ValueError(
            f"{example.key}: mode probabilities are {example.mode_probs}, expected "
            f"{spec.num_modes} numbers of at least 0"
        )
    if not np.isclose(probs.sum(), 1.0, atol=1e-5):
        raise ValueError(
            f"{example.key}: mode probabilities sum to {probs.sum()}, expected 1"
        )


def _check_splits(splits: Mapping[str, Sequence[Entry]]) -> None:
    key_split: dict[str, str] = {}
    group_split: dict[str, str] = {}
    for split, examples in splits.items():
        if not examples:
            raise ValueError(f"split {split!r} would be empty: it has no examples")
        for key, group, _ in examples:
            if key in key_split:
                raise ValueError(f"duplicate key {key!r} in split {split!r}")
            key_split[key] = split
            if group_split.setdefault(group, split) != split:
                raise ValueError(
                    f"{group!r} is in two splits: {group_split[group]!r} and {split!r}"
                )


def _write_shards(
    out_dir: pathlib.Path,
    split: str,
    ordered: Sequence[tuple[str, str, Callable[[], bytes]]],
    examples_per_shard: int,
) -> list[dict[str, Any]]:
    num_shards = -(-len(ordered) // examples_per_shard)
    shards = []
    for index in range(num_shards):
        # Even shares: no last shard of three examples.
        part = ordered[
            index * len(ordered) // num_shards : (index + 1)
            * len(ordered)
            // num_shards
        ]
        path = out_dir / f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord"
        with files.atomic_path(path) as temporary:
            _write_shard(temporary, part)
        shards.append(
            {
                "file": path.name,
                "count": len(part),
                "bytes": path.stat().st_size,
                "sha256": files.sha256(path),
            }
        )
    return shards


def _write_shard(
    path: pathlib.Path, part: Sequence[tuple[str, str, Callable[[], bytes]]]
) -> None:
    try:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _, _, read in part:
                writer.write(read())
    except tf.errors.OpError as error:  # for example a full disk
        raise OSError(f"{path}: can't write the shard ({error.message})") from error


def _earlier_shards(out_dir: pathlib.Path) -> set[str]:
    """Returns the shards of the data set in a directory, if it can be read."""
    try:
        return _shard_names(read_info(out_dir).splits)
    except (FileNotFoundError, ValueError):
        return set()


def _shard_names(splits: dict[str, dict[str, Any]]) -> set[str]:
    return {shard["file"] for split in splits.values() for shard in split["shards"]}


def _check_shard(path: pathlib.Path, shard: dict[str, Any]) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: missing shard; prepare the data again")
    size = path.stat().st_size
    if size != shard["bytes"]:
        raise ValueError(
            f"{path}: truncated or damaged shard ({size} bytes, expected "
            f"{shard['bytes']}); prepare the data again"
        )
    if files.sha256(path) != shard["sha256"]:
        raise ValueError(
            f"{path}: damaged shard (its checksum differs from {INFO_NAME}); prepare "
            f"the data again"
        )
    found = _count_records(path)
    if found != shard["count"]:
        raise ValueError(
            f"{path}: holds {found} records, but {INFO_NAME} says {shard['count']}; "
            "prepare the data again"
        )


def _count_records(path: pathlib.Path) -> int:
    """Counts the records of a shard by their lengths, after checking these."""
    count = 0
    with open(path, "rb") as handle:
        left = os.fstat(handle.fileno()).st_size
        while left:
            head = handle.read(_FRAME_HEAD.size)
            left -= _FRAME_HEAD.size + _FRAME_TAIL
            if left < 0:
                raise ValueError(
                    f"{path}: damaged shard (it ends inside record {count + 1}); "
                    "prepare the data again"
                )
            length, checksum = _FRAME_HEAD.unpack(head)
            if checksum != _masked_crc32c(head[:8]):
                raise ValueError(
                    f"{path}: damaged shard (the length of record {count + 1} does not "
                    "fit its checksum); prepare the data again"
                )
            if length > left:
                raise ValueError(
                    f"{path}: damaged shard (record {count + 1} announces {length} "
                    f"bytes, but {left} are left); prepare the data again"
                )
            handle.seek(length + _FRAME_TAIL, os.SEEK_CUR)
            left -= length
            count += 1
    return count


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C_TABLE = _crc32c_table()


def _masked_crc32c(data: bytes) -> int:
    """Returns the checksum that TFRecord keeps: CRC-32C, rotated, and a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _check_spec(spec: DatasetSpec) -> None:
    shape = spec.image_shape
    if len(shape) != 3 or not all(_is_whole(side, 1, MAX_SIDE) for side in shape):
        raise ValueError(
            f"image_shape {list(shape)[:5]}, expected height, width and channels, "
            f"each from 1 to {MAX_SIDE}"
        )
    for name, least in (("num_graders", 1), ("num_modes", 0)):
        if not _is_whole(getattr(spec, name), least, _MAX_MAPS):
            raise ValueError(
                f"{name} {getattr(spec, name)!r}, expected a whole number from {least} "
                f"to {_MAX_MAPS}"
            )
    fewest = spec.min_graders
    if fewest is not None and not _is_whole(fewest, 1, spec.num_graders):
        raise ValueError(
            f"min_graders {fewest!r}, expected null or a whole number from 1 to "
            f"num_graders, {spec.num_graders}"
        )
    smallest = spec.min_size
    if smallest is not None and not (
        len(smallest) == 2
        and all(_is_whole(side, 1, most) for side, most in zip(smallest, shape))
    ):
        raise ValueError(
            f"min_size {list(smallest)[:5]}, expected null or a height and a width "
            f"from 1 to those of image_shape, {list(shape[:2])}"
        )
    names = (spec.name, *spec.class_names)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"name {spec.name!r}, class_names {list(spec.class_names)[:5]}, expected "
            "text"
        )
    if spec.num_classes > _MAX_CLASSES:
        raise ValueError(
            f"{spec.num_classes} class_names, expected at most {_MAX_CLASSES}"
        )
    if spec.ignore_label is not None and not _is_whole(
        spec.ignore_label, 0, _MAX_CLASSES - 1
    ):
        raise ValueError(
            f"ignore_label {spec.ignore_label!r}, expected null or a whole number from "
            f"0 to {_MAX_CLASSES - 1}"
        )
    if _DTYPES.get(spec.intensity) != spec.image_dtype:
        raise ValueError(
            f"intensity {spec.intensity!r} stored as {spec.image_dtype!r}, expected "
            + " or ".join(f"{what!r} as {dtype!r}" for what, dtype in _DTYPES.items())
        )
    if spec.image_shape[2] not in _CHANNELS[spec.intensity]:
        raise ValueError(
            f"image_shape {spec.image_shape} with {spec.image_shape[2]} channels, "
            f"expected {' or '.join(map(str, _CHANNELS[spec.intensity]))}"
        )
    if not isinstance(spec.preparation, dict):
        raise ValueError(f"preparation {spec.preparation!r}, expected an object")


def _check_memory(spec: DatasetSpec) -> None:
    height, width, channels = spec.image_shape
    maps = channels + spec.num_graders + spec.num_modes
    limits.check(
        4 * height * width * maps, f"an example of image_shape {spec.image_shape}"
    )


def _is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    return type(value) is int and least <= value <= most


def _check_shards(splits: dict[str, dict[str, Any]]) -> None:
    if not splits:
        raise ValueError("no split in it")
    for name, split in splits.items():
        if not _is_whole(split["count"], 1):
            raise ValueError(
                f"split {name!r} with the count {split['count']!r}, expected a whole "
                "number of at least 1: leave an empty split out"
            )
        if not _is_whole(split["groups"], 1, split["count"]):
            raise ValueError(
                f"split {name!r} with {split['groups']!r} groups, expected a whole "
                f"number from 1 to its count, {split['count']}"
            )
        for shard in split["shards"]:
            for what in ("count", "bytes"):
                if not _is_whole(shard[what], 0):
                    raise ValueError(
                        f"a shard of split {name!r} with {what} {shard[what]!r}, "
                        "expected a whole number of at least 0"
                    )
        total = sum(shard["count"] for shard in split["shards"])
        if total != split["count"]:
            raise ValueError(f"shards hold {total} examples of {split['count']}")
        for shard in split["shards"]:
            # Only plain names are read, or removed when the data are prepared again.
            if not _SHARD_NAME.fullmatch(shard["file"]):
                raise ValueError(f"shard {shard['file']!r} is not a plain file name")
            if not _SHA256.fullmatch(shard["sha256"]):
                raise ValueError(f"shard {shard['file']!r} has no checksum")


def _encode_png(image: np.ndarray) -> bytes:
    if image.dtype == np.int16:
        image = (image.astype(np.int32) + _INT16_OFFSET).astype(np.uint16)
    if image.shape[2] == 1:
        image = image[..., 0]
    buffer = io.BytesIO()
    PIL.Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def _bytes_list(values: Sequence[bytes]) -> bytes:
    """Returns a `tf.train.Feature` with a BytesList, serialised."""
    return _field(1, b"".join(_field(1, value) for value in values))


def _float_list(values: Iterable[float]) -> bytes:
    """Returns a `tf.train.Feature` with a FloatList, serialised."""
    return _field(2, _field(1, np.asarray(list(values), "<f4").tobytes()))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer that holds bytes, text or a message."""
    head, length = bytearray([number << 3 | 2]), len(content)
    while length > 127:  # Seven bits a byte, the lowest first.
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + content
