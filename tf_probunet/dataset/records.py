"""The record format: sharded TFRecords and a `dataset_info.json`.

An image is one PNG; signed 16-bit values are shifted to unsigned ones. The label map of
each grader is a PNG of its own, so that training decodes only the one it draws.
"""

from __future__ import annotations

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
INFO_NAME = "dataset_info.json"
IGNORE_LABEL = 255

# The start of a PNG file, up to its width and height.
_PNG_HEAD = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"
_INT16_OFFSET = 32768
_ORDER_SALT = "record order"
# No study has more graders or modes; a larger number is a damaged description.
_MAX_MAPS = 1024
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
        image_shape: (H, W, C).
        image_dtype: "uint8" or "int16".
        intensity: what the values mean: "hu" or "uint8".
        num_graders: label maps per image.
        ignore_label: the label of ignored pixels, or None.
        num_modes: how many known modes an example carries; 0 for none.
        preparation: the settings of the preparation.
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

    @property
    def num_classes(self) -> int:
        """Number of classes in the stored label maps."""
        return len(self.class_names)


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """A prepared data set on disk: its `dataset_info.json`.

    Attributes:
        data_dir: its directory.
        spec: what the examples look like.
        splits: for each split, `count`, `groups` and a list of `shards` (`file`,
            `count`, `bytes`, `sha256`).
    """

    data_dir: pathlib.Path
    spec: DatasetSpec
    splits: dict[str, dict[str, Any]]

    def count(self, split: str) -> int:
        """Returns the number of examples in a split."""
        return self._split(split)["count"]

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
        `key` and `group` (strings), `image` (PNG string), `labels` ([G] PNG strings),
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
    return tf.io.parse_single_example(serialized, features)


def decode_image(png: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Decodes an image to [H, W, C] float32, in the units of `spec.intensity`."""
    dtype = tf.uint16 if spec.image_dtype == "int16" else tf.uint8
    png = _with_size(png, spec)
    image = tf.io.decode_png(png, channels=spec.image_shape[2], dtype=dtype)
    image = tf.ensure_shape(tf.cast(image, tf.float32), spec.image_shape)
    return image - _INT16_OFFSET if spec.image_dtype == "int16" else image


def decode_labels(png: tf.Tensor, spec: DatasetSpec) -> tf.Tensor:
    """Decodes one label map to [H, W] int32. Labels must be classes."""
    png = _with_size(png, spec)
    labels = tf.io.decode_png(png, channels=1, dtype=tf.uint8)[..., 0]
    labels = tf.ensure_shape(tf.cast(labels, tf.int32), spec.image_shape[:2])
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
    head = _PNG_HEAD + struct.pack(">II", width, height)
    # Not `assert_equal`: its message would contain the bytes that were found.
    fits = tf.equal(tf.strings.substr(png, 0, len(head)), head)
    check = tf.debugging.Assert(
        fits, [f"expected a PNG picture of {height}x{width} pixels"]
    )
    with tf.control_dependencies([check]):
        return tf.identity(png)


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
        spec: what the examples look like.
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
    _check_splits(splits)
    stale = _earlier_shards(out_dir)
    # The directory is not a data set until all shards are written.
    (out_dir / INFO_NAME).unlink(missing_ok=True)
    described = {}
    for split, examples in splits.items():
        ordered = sorted(examples, key=lambda e: (salted_hash(e[0], _ORDER_SALT), e[0]))
        described[split] = {
            "count": len(ordered),
            "groups": len({group for _, group, _ in ordered}),
            "shards": _write_shards(out_dir, split, ordered, examples_per_shard),
        }
    info = {"format_version": FORMAT_VERSION, **dataclasses.asdict(spec)}
    info["splits"] = described
    files.write_json(out_dir / INFO_NAME, info)
    for name in stale - _shard_names(described):
        (out_dir / name).unlink(missing_ok=True)
    return read_info(out_dir)


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
    if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise ValueError(
            f"{path}: written in record format {version}, but this version reads "
            f"{FORMAT_VERSION}; prepare the data again with run/prepare_*.py"
        )
    try:
        splits = raw.pop("splits")
        spec = DatasetSpec(
            **{
                **raw,
                "class_names": tuple(raw["class_names"]),
                "image_shape": tuple(raw["image_shape"]),
            }
        )
        _check_spec(spec)
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

    height, width, _ = spec.image_shape
    expect("image", example.image, spec.image_shape, spec.image_dtype)
    expect("labels", example.labels, (spec.num_graders, height, width), "uint8")
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
    height, width, channels = spec.image_shape
    maps = channels + spec.num_graders + spec.num_modes
    limits.check(
        4 * height * width * maps, f"an example of image_shape {spec.image_shape}"
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
