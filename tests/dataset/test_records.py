"""Tests of tf_probunet.dataset.records."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets

from tf_probunet.dataset import records

_RNG = np.random.default_rng(5)


def _stored(info: records.DatasetInfo, split: str) -> list[dict[str, np.ndarray]]:
    """Reads a split back, everything decoded."""
    result = []
    for serialized in tf.data.TFRecordDataset(info.shard_paths(split)):
        parsed = records.parse(serialized, info.spec)
        decoded = {k: v.numpy() for k, v in parsed.items()}
        decoded["image"] = records.decode_image(parsed["image"], info.spec).numpy()
        for name in ("labels", "modes"):
            if name in parsed:
                maps = records.decode_all_labels(parsed[name], info.spec)
                decoded[name] = maps.numpy()
        result.append(decoded)
    return result


def _keys(info: records.DatasetInfo, split: str) -> list[str]:
    return [
        records.parse(serialized, info.spec)["key"].numpy().decode()
        for serialized in tf.data.TFRecordDataset(info.shard_paths(split))
    ]


@pytest.fixture
def written(tmp_path):
    """Twenty examples in shards of at most eight."""
    examples = [datasets.example(i) for i in range(20)]
    return datasets.write(tmp_path / "data", {"train": examples}, examples_per_shard=8)


def _edit_info(info: records.DatasetInfo, change) -> None:
    path = info.data_dir / records.INFO_NAME
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_hounsfield_units_round_trip(tmp_path):
    image = _RNG.integers(-32768, 32768, size=(8, 8, 1)).astype(np.int16)
    image[0, :4, 0] = -32768, -1024, 0, 32767
    spec = datasets.spec(image_dtype="int16", intensity="hu")
    example = datasets.example(0, image=image, spacing_mm=(0.5, 0.75))
    (stored,) = _stored(datasets.write(tmp_path, {"test": [example]}, spec), "test")
    assert stored["image"].dtype == np.float32
    np.testing.assert_array_equal(stored["image"], image.astype(np.float32))
    np.testing.assert_array_equal(stored["spacing_mm"], [0.5, 0.75])
    assert (stored["key"], stored["group"]) == (b"key-000", b"group-000")


def test_colour_images_and_labels_round_trip(tmp_path):
    image = _RNG.integers(0, 256, size=(6, 9, 3)).astype(np.uint8)
    labels = _RNG.choice([0, 1, 2, 3, 255], size=(2, 6, 9)).astype(np.uint8)
    spec = datasets.spec(image_shape=(6, 9, 3), num_graders=2, ignore_label=255)
    example = datasets.example(0, key="schlüssel", image=image, labels=labels)
    (stored,) = _stored(datasets.write(tmp_path, {"test": [example]}, spec), "test")
    np.testing.assert_array_equal(stored["image"], image.astype(np.float32))
    assert stored["labels"].dtype == np.int32
    np.testing.assert_array_equal(stored["labels"], labels)
    assert stored["key"].decode() == "schlüssel"
    assert np.isnan(stored["spacing_mm"]).all()


def test_modes_round_trip(tmp_path):
    modes = _RNG.integers(0, 4, size=(3, 8, 8)).astype(np.uint8)
    probs = np.array([0.2, 0.5, 0.3])
    example = datasets.example(0, modes=modes, mode_probs=probs)
    info = datasets.write(tmp_path, {"test": [example]}, datasets.spec(num_modes=3))
    (stored,) = _stored(info, "test")
    np.testing.assert_array_equal(stored["modes"], modes)
    np.testing.assert_allclose(stored["mode_probs"], probs, rtol=1e-6)


def test_specification_round_trip(tmp_path):
    spec = datasets.spec(ignore_label=255, preparation={"a": [1, 2.5], "b": {"c": "d"}})
    datasets.write(tmp_path, {"test": [datasets.example(0)]}, spec)
    assert records.read_info(tmp_path).spec == spec


def test_info_tells_counts_and_shards(written):
    names = [f"train-{i:05d}-of-00003.tfrecord" for i in range(3)]
    described = written.splits["train"]
    assert (described["count"], described["groups"]) == (20, 20)
    assert [shard["file"] for shard in described["shards"]] == names
    assert [shard["count"] for shard in described["shards"]] == [6, 7, 7]
    assert sorted(datasets.contents(written.data_dir)) == ["dataset_info.json", *names]
    assert written.count("train") == 20


def test_order_is_that_of_the_hash_and_not_of_the_input(tmp_path, written):
    keys = _keys(written, "train")
    assert sorted(keys) == [f"key-{i:03d}" for i in range(20)]
    assert keys != sorted(keys)
    examples = [datasets.example(i) for i in reversed(range(20))]
    again = datasets.write(
        tmp_path / "again", {"train": examples}, examples_per_shard=8
    )
    assert datasets.contents(again.data_dir) == datasets.contents(written.data_dir)
    assert again.fingerprint == written.fingerprint


def test_order_of_some_does_not_depend_on_the_others(tmp_path, written):
    few = [datasets.example(i) for i in (3, 7, 11, 2)]
    info = datasets.write(tmp_path / "few", {"train": few})
    chosen = {example.key for example in few}
    expected = [key for key in _keys(written, "train") if key in chosen]
    assert _keys(info, "train") == expected


def test_fingerprint_tells_contents_apart(tmp_path, written):
    examples = [datasets.example(i) for i in range(20)]
    examples[4] = datasets.example(4, image=np.full((8, 8, 1), 99, np.uint8))
    other = datasets.write(tmp_path / "x", {"train": examples}, examples_per_shard=8)
    assert other.fingerprint != written.fingerprint


def test_description_tells_meanings_apart(written):
    before = written.description
    _edit_info(written, lambda raw: raw.update(class_names=["b", "a", "c", "d"]))
    after = records.read_info(written.data_dir).description
    assert after["fingerprint"] == before["fingerprint"]
    assert after != before


def test_writing_over_a_data_set_leaves_no_old_shard(written):
    examples = [datasets.example(i) for i in range(3)]
    datasets.write(written.data_dir, {"val": examples})
    assert sorted(datasets.contents(written.data_dir)) == [
        "dataset_info.json",
        "val-00000-of-00001.tfrecord",
    ]


def test_half_written_data_set_can_not_be_read(written):
    spec = datasets.spec()

    def fail() -> bytes:
        raise KeyboardInterrupt

    good = records.encode(datasets.example(0), spec)
    with pytest.raises(KeyboardInterrupt):
        records.write_dataset(
            written.data_dir,
            spec,
            {"train": [("a", "a", lambda: good)], "val": [("b", "b", fail)]},
        )
    with pytest.raises(FileNotFoundError, match="no dataset_info.json here"):
        records.read_info(written.data_dir)
    assert not [name for name in datasets.contents(written.data_dir) if "tmp" in name]


@pytest.mark.parametrize(
    "splits, message",
    [
        ({"train": [0, 1, 0]}, "duplicate key 'key-000' in split 'train'"),
        ({"train": [0, 1], "val": [1]}, "duplicate key 'key-001' in split 'val'"),
        ({"train": [0], "val": []}, "split 'val' would be empty"),
    ],
)
def test_bad_splits_are_refused(tmp_path, splits, message):
    examples = {k: [datasets.example(i) for i in v] for k, v in splits.items()}
    with pytest.raises(ValueError, match=message):
        datasets.write(tmp_path, examples)
    assert datasets.contents(tmp_path) == {}


def test_group_in_two_splits_is_refused(tmp_path):
    first = datasets.example(0, group="patient 7")
    second = datasets.example(1, group="patient 7")
    datasets.write(tmp_path / "one", {"train": [first, second]})
    message = "'patient 7' is in two splits: 'train' and 'test'"
    with pytest.raises(ValueError, match=message):
        datasets.write(tmp_path / "two", {"train": [first], "test": [second]})


_LABELS = np.zeros((4, 8, 8), np.uint8)
_MODES = np.zeros((2, 8, 8), np.uint8)


@pytest.mark.parametrize(
    "spec, changes, message",
    [
        (
            {},
            {"image": np.zeros((8, 8, 1), np.float32)},
            r"image is float32\[8, 8, 1\], expected uint8\[8, 8, 1\]",
        ),
        (
            {},
            {"image": np.zeros((8, 9, 1), np.uint8)},
            r"image is uint8\[8, 9, 1\], expected uint8\[8, 8, 1\]",
        ),
        (
            {},
            {"labels": _LABELS[:3]},
            r"labels is uint8\[3, 8, 8\], expected uint8\[4, 8, 8\]",
        ),
        ({}, {"labels": _LABELS.astype(bool)}, r"labels is bool\[4, 8, 8\]"),
        ({}, {"labels": _LABELS + 4}, r"labels \[4\] are not among the 4 classes"),
        (
            {"ignore_label": 255},
            {"labels": np.where(np.arange(8) == 3, 9, _LABELS + 255).astype(np.uint8)},
            r"labels \[9\] are not among the 4 classes of made up",
        ),
        ({}, {"modes": _MODES}, "modes are given, but the data set has 0 of them"),
        ({"num_modes": 2}, {}, "modes are missing, but the data set has 2 of them"),
        (
            {"num_modes": 2},
            {"modes": _MODES, "mode_probs": np.array([0.5, 0.4])},
            "mode probabilities sum to 0.9, expected 1",
        ),
        (
            {"num_modes": 2},
            {"modes": _MODES, "mode_probs": np.array([1.5, -0.5])},
            "expected 2 numbers of at least 0",
        ),
        (
            {"num_modes": 2},
            {"modes": _MODES, "mode_probs": None},
            "mode probabilities are None, expected 2 numbers",
        ),
        (
            {"num_modes": 2},
            {"modes": _MODES + 7, "mode_probs": np.array([0.5, 0.5])},
            r"labels \[7\] are not among",
        ),
        ({}, {"spacing_mm": (1.0,)}, "spacing_mm is .*, expected two numbers"),
    ],
)
def test_examples_that_do_not_fit_are_named(spec, changes, message):
    example = datasets.example(17, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        records.encode(example, datasets.spec(**spec))
    assert str(caught.value).startswith("key-017: ")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"image_dtype": "int16"}, "intensity 'uint8' stored as 'int16', expected"),
        ({"intensity": "kelvin"}, "intensity 'kelvin' stored as 'uint8', expected"),
        ({"image_shape": (8, 8, 2)}, "2 channels, expected 1 or 3"),
        (
            {"image_shape": (8, 8, 3), "image_dtype": "int16", "intensity": "hu"},
            "3 channels, expected 1",
        ),
        ({"image_shape": (8, 8)}, "image_shape"),
        ({"num_graders": 0}, "num_graders 0"),
    ],
)
def test_specifications_that_can_not_be_read_are_not_written(
    tmp_path, changes, message
):
    with pytest.raises(ValueError, match=message):
        datasets.write(
            tmp_path, {"train": [datasets.example(0)]}, datasets.spec(**changes)
        )
    assert datasets.contents(tmp_path) == {}


def _damage_each_way(path) -> list[tuple[bytes | None, type, str]]:
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    return [
        (data[:-10], ValueError, "truncated or damaged shard"),
        (b"", ValueError, "truncated or damaged shard"),
        (data + b"x", ValueError, "truncated or damaged shard"),
        (bytes(flipped), ValueError, "its checksum differs"),
        (None, FileNotFoundError, "missing shard"),
    ]


def test_damaged_shards_are_named(written):
    path = written.data_dir / "train-00001-of-00003.tfrecord"
    for data, error, message in _damage_each_way(path):
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(error, match=message) as caught:
            written.shard_paths("train")
        assert str(caught.value).startswith(f"{path}: ")
        assert str(caught.value).endswith("prepare the data again")
        if data is None:
            break


_SHARD = "train-00001-of-00003.tfrecord"


def _frame(length: int) -> bytes:
    """The head of a record that announces a length, with a checksum that fits."""
    data = length.to_bytes(8, "little")
    return data + records._masked_crc32c(data).to_bytes(4, "little")


def _starts(shard: bytes) -> list[int]:
    starts = [0]
    while starts[-1] < len(shard):
        length = int.from_bytes(shard[starts[-1] :][:8], "little")
        starts.append(starts[-1] + 12 + length + 4)
    return starts[:-1]


def test_lengths_have_the_checksum_of_tensorflow(written):
    shard = (written.data_dir / _SHARD).read_bytes()
    assert len(_starts(shard)) == 7
    for start in _starts(shard):
        length = int.from_bytes(shard[start : start + 8], "little")
        assert _frame(length) == shard[start : start + 12]


@pytest.mark.parametrize(
    "damage, message",
    [
        (
            lambda shard, at: shard[:at] + _frame(2**40) + shard[at + 12 :],
            r"record 3 announces 1099511627776 bytes, but \d+ are left",
        ),
        (
            lambda shard, at: shard[:at] + _frame(2**64 - 1) + shard[at + 12 :],
            "record 3 announces 18446744073709551615 bytes",
        ),
        (
            lambda shard, at: shard[:at] + bytes([shard[at] ^ 1]) + shard[at + 1 :],
            "the length of record 3 does not fit its checksum",
        ),
        (lambda shard, at: shard[: at + 9], "it ends inside record 3"),
        (lambda shard, at: shard[:at], "holds 2 records, but dataset_info.json says 7"),
        (
            lambda shard, at: shard + shard[:at],
            "holds 9 records, but dataset_info.json says 7",
        ),
    ],
)
def test_impossible_records_are_refused_before_tensorflow_reads(
    written, damage, message
):
    """With a checksum of the shard that fits: TensorFlow would end the process."""
    path = written.data_dir / _SHARD
    shard = path.read_bytes()
    path.write_bytes(damage(shard, _starts(shard)[2]))
    datasets.vouch(written.data_dir, _SHARD)
    with pytest.raises(ValueError, match=message) as caught:
        records.read_info(written.data_dir).shard_paths("train")
    assert str(caught.value).startswith(f"{path}: ")


def test_a_count_below_that_of_the_shards_is_refused(written):
    datasets.vouch(written.data_dir, _SHARD, 3)
    info = records.read_info(written.data_dir)
    assert info.count("train") == 16
    with pytest.raises(ValueError, match="holds 7 records, .* says 3; prepare the"):
        info.shard_paths("train")


def _replace_record(info: records.DatasetInfo, number: int, change) -> None:
    """Writes the second shard again with one record changed."""
    path = info.data_dir / _SHARD
    kept = [r.numpy() for r in tf.data.TFRecordDataset(str(path))]
    kept[number - 1] = change(kept[number - 1])
    with tf.io.TFRecordWriter(str(path)) as writer:
        for serialized in kept:
            writer.write(serialized)
    datasets.vouch(info.data_dir, _SHARD)


def _with_feature(name: str, values: list[bytes]):
    def change(serialized: bytes) -> bytes:
        message = tf.train.Example.FromString(serialized)
        message.features.feature[name].bytes_list.value[:] = values
        return message.SerializeToString()

    return change


def _png(array: np.ndarray) -> bytes:
    return records._encode_png(array[..., None])


_GOOD_MAP = _png(np.zeros((8, 8), np.uint8))
_UNREADABLE = [
    (lambda _: b"no example", "parse"),
    (_with_feature("image", [b"no picture"]), "PNG|image"),
    (
        _with_feature("image", [_png(np.zeros((8, 9), np.uint8))]),
        "expected a PNG picture of 8x8 pixels",
    ),
    (_with_feature("labels", [_GOOD_MAP] * 3), "labels"),
    (
        _with_feature("labels", [_GOOD_MAP] * 3 + [_png(np.full((8, 8), 9, np.uint8))]),
        "a label map holds 9 expected 0 to 3",
    ),
    (_with_feature("key", [b"\xff"]), "its key or group is not text"),
]


@pytest.mark.parametrize("change, reason", _UNREADABLE)
def test_an_unreadable_record_is_named_with_shard_and_reason(written, change, reason):
    _replace_record(written, 4, change)
    info = records.read_info(written.data_dir)
    path = written.data_dir / _SHARD
    message = rf"^{path}: unreadable record 4 of 7 \(.*({reason}).*\); prepare the data"
    with pytest.raises(ValueError, match=message) as caught:
        with records.named_errors(info, "train"):
            raise tf.errors.InvalidArgumentError(None, None, "Graph execution error:")
    assert len(str(caught.value)) < 500


def test_a_record_whose_bytes_changed_is_named(written):
    path = written.data_dir / _SHARD
    shard = bytearray(path.read_bytes())
    shard[_starts(shard)[4] + 30] ^= 1
    path.write_bytes(bytes(shard))
    datasets.vouch(written.data_dir, _SHARD)
    with pytest.raises(ValueError, match=r"unreadable record 5 of 7 \(corrupted"):
        with records.named_errors(records.read_info(written.data_dir), "train"):
            raise tf.errors.DataLossError(None, None, "somewhere")


@pytest.mark.parametrize(
    "error", [tf.errors.InternalError, tf.errors.ResourceExhaustedError]
)
def test_errors_that_no_record_is_to_blame_for_stay(written, error):
    with pytest.raises(error, match="No space left"):
        with records.named_errors(written, "train"):
            raise error(None, None, "No space left on device")


@pytest.mark.parametrize("version", ["3.0", "0.9", 3, None])
def test_other_format_version_says_what_to_do(written, version):
    _edit_info(written, lambda raw: raw.update(format_version=version))
    message = rf"record format {version}, .*reads 1\.0 and 2\.0; prepare the data again"
    with pytest.raises(ValueError, match=message):
        records.read_info(written.data_dir)


def test_later_minor_version_is_read(written):
    _edit_info(written, lambda raw: raw.update(format_version="1.7"))
    assert records.read_info(written.data_dir).count("train") == 20


def _shard(raw) -> dict:
    return raw["splits"]["train"]["shards"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.pop("splits"),
        lambda raw: raw.pop("name"),
        lambda raw: raw.update(more=1),
        lambda raw: raw.update(splits=[1]),
        lambda raw: raw.update(image_shape=[8, 8]),
        lambda raw: raw.update(image_shape=[8, 8, "1"]),
        lambda raw: raw.update(image_shape=5),
        lambda raw: raw.update(num_graders=0),
        lambda raw: raw.update(num_modes="2"),
        lambda raw: raw.update(image_dtype="float32"),
        lambda raw: raw.update(intensity="hu"),
        lambda raw: raw.update(preparation=[]),
        lambda raw: raw["splits"]["train"].update(count=21),
        lambda raw: raw["splits"]["train"].update(groups=21),
        lambda raw: _shard(raw).pop("sha256"),
        lambda raw: _shard(raw).update(bytes=None),
        lambda raw: _shard(raw).update(count="six"),
        lambda raw: _shard(raw).update(file=3),
    ],
)
def test_damaged_description_is_named(written, change):
    _edit_info(written, change)
    with pytest.raises(ValueError, match="damaged data set description") as caught:
        records.read_info(written.data_dir)
    assert str(caught.value).startswith(str(written.data_dir / "dataset_info.json"))


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda raw: raw.update(image_shape=[10**9, 8, 1]),
            r"image_shape \[1000000000, 8, 1\], expected .* from 1 to 32768",
        ),
        (
            lambda raw: raw.update(image_shape=[32768, 32768, 1]),
            r"\(32768, 32768, 1\) would take .* GiB of memory",
        ),
        (
            lambda raw: raw.update(num_graders=10**9),
            "num_graders 1000000000, expected a whole number from 1 to 1024",
        ),
        (
            lambda raw: raw.update(num_modes=-1),
            "num_modes -1, expected a whole number from 0 to 1024",
        ),
        (
            lambda raw: raw.update(ignore_label=2**63),
            "ignore_label 9223372036854775808, expected null or .* from 0 to 255",
        ),
        (
            lambda raw: raw.update(class_names=["x"] * 257),
            "257 class_names, expected at most 256",
        ),
        (
            lambda raw: raw["splits"].update(
                val={"count": 0, "groups": 0, "shards": []}
            ),
            "split 'val' with the count 0, expected a whole number of at least 1",
        ),
        (
            lambda raw: _shard(raw).update(bytes=-1),
            "a shard of split 'train' with bytes -1, expected a whole number",
        ),
    ],
)
def test_extreme_numbers_are_refused_with_what_was_expected(written, change, message):
    _edit_info(written, change)
    with pytest.raises(ValueError, match=message) as caught:
        records.read_info(written.data_dir)
    assert str(caught.value).startswith(str(written.data_dir / "dataset_info.json"))


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_are_none_name_the_file(written, number):
    path = written.data_dir / "dataset_info.json"
    path.write_text(path.read_text().replace('"recipe": 1', f'"recipe": {number}'))
    with pytest.raises(
        ValueError, match=f"{number} where a finite number was"
    ) as caught:
        records.read_info(written.data_dir)
    assert str(caught.value).startswith(f"{path}: not a valid data set description")


def test_deep_nesting_names_the_file(written):
    path = written.data_dir / "dataset_info.json"
    nested = '"recipe": ' + "[" * 900 + "]" * 900
    path.write_text(path.read_text().replace('"recipe": 1', nested))
    with pytest.raises(ValueError, match="nested over 50 levels deep") as caught:
        records.read_info(written.data_dir)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b.tfrecord", "x/"])
def test_shards_outside_of_the_data_set_are_refused(written, name):
    _edit_info(written, lambda raw: _shard(raw).update(file=name))
    with pytest.raises(ValueError, match="is not a plain file name"):
        records.read_info(written.data_dir)


def test_truncated_description_is_named(written):
    path = written.data_dir / "dataset_info.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="dataset_info.json: not a valid data set"):
        records.read_info(written.data_dir)


def test_missing_data_set_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="prepare the data first"):
        records.read_info(tmp_path / "nowhere")


def test_unknown_split_is_named(written):
    with pytest.raises(ValueError, match="no split 'test'; there are train"):
        written.count("test")
    with pytest.raises(ValueError, match="no split 'test'; there are train"):
        written.shard_paths("test")


def test_full_disk_names_the_shard(tmp_path, monkeypatch):
    class FullDisk:
        def __init__(self, path: str) -> None:
            self._path = path

        def __enter__(self):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left")

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(tf.io, "TFRecordWriter", FullDisk)
    with pytest.raises(OSError, match="train-00000-of-00001.*No space left"):
        datasets.write(tmp_path, {"train": [datasets.example(0)]})
    assert datasets.contents(tmp_path) == {}


@pytest.mark.parametrize("size", [1, 127, 128, 300, 70_000])
def test_serialised_example_is_what_tensorflow_writes(size):
    text, values = ["é" * size, "", "b"], [0.25, -1.5, 1e-30]
    ours = records._field(
        1,
        b"".join(
            records._field(1, records._field(1, name) + records._field(2, feature))
            for name, feature in [
                (b"image", records._bytes_list([t.encode() for t in text])),
                (b"spacing_mm", records._float_list(values)),
            ]
        ),
    )
    feature = {
        "spacing_mm": tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        "image": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[t.encode() for t in text])
        ),
    }
    theirs = tf.train.Example(features=tf.train.Features(feature=feature))
    assert ours == theirs.SerializeToString(deterministic=True)


def _mixed(tmp_path, *examples: records.Example) -> records.DatasetInfo:
    return datasets.write(tmp_path / "data", {"t": examples}, datasets.mixed_spec())


def test_images_of_any_size_with_any_number_of_graders_round_trip(tmp_path):
    shapes = {"key-000": (1, (5, 9)), "key-001": (4, (8, 6)), "key-002": (1, (7, 7))}
    examples = [
        datasets.mixed_example(i, *shape) for i, shape in enumerate(shapes.values())
    ]
    info = _mixed(tmp_path, *examples)
    for stored in _stored(info, "t"):
        num_graders, size = shapes[stored["key"].decode()]
        index = int(stored["key"][-3:])
        np.testing.assert_array_equal(stored["image"], np.full((*size, 1), index))
        expected = np.broadcast_to(
            np.arange(num_graders)[:, None, None], (num_graders, *size)
        )
        np.testing.assert_array_equal(stored["labels"], expected)
    raw = json.loads((info.data_dir / records.INFO_NAME).read_text())
    assert raw["format_version"] == "2.0"
    assert (raw["min_graders"], raw["num_graders"]) == (1, 4)
    assert (raw["min_size"], raw["image_shape"]) == ([5, 6], [8, 9, 1])
    assert raw["splits"]["t"]["graders"] == {"1": 2, "4": 1}
    assert records.read_info(info.data_dir).spec == info.spec


def test_images_that_turn_out_alike_are_written_as_any_others(tmp_path):
    examples = [datasets.mixed_example(i, 4) for i in range(3)]
    info = _mixed(tmp_path, *examples)
    plain = datasets.write(tmp_path / "plain", {"t": examples})
    assert (info.spec, info.fingerprint) == (plain.spec, plain.fingerprint)
    described = json.loads((plain.data_dir / records.INFO_NAME).read_text())
    assert described["format_version"] == "1.0"
    assert not {"min_graders", "min_size"} & set(described)


@pytest.mark.parametrize(
    "example, message",
    [
        (datasets.mixed_example(0, 33), "key-000: has 33 graders, expected 1 to 32"),
        (datasets.mixed_example(0, 0), "key-000: has 0 graders, expected 1 to 32"),
        (
            datasets.example(0, labels=np.zeros((2, 8, 9), np.uint8)),
            r"key-000: labels is uint8\[2, 8, 9\], expected uint8\[2, 8, 8\]",
        ),
    ],
)
def test_mixed_examples_that_do_not_fit_are_refused(example, message):
    with pytest.raises(ValueError, match=message):
        records.encode(example, datasets.mixed_spec())


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"min_graders": 2}, "an image has.*1.*label maps, expected 2 to 4"),
        ({"min_size": [8, 8]}, "expected a PNG picture of 8x8 to 9x9 pixels"),
        ({"image_shape": [8, 9, 1]}, "expected a PNG picture of 7x8 to 8x9 pixels"),
    ],
)
def test_records_outside_the_limits_are_named(tmp_path, limits, message):
    info = _mixed(
        tmp_path,
        datasets.mixed_example(0, 1, (9, 8)),
        datasets.mixed_example(1, 4, (7, 9)),
    )
    _edit_info(info, lambda raw: raw.update(limits))
    info = records.read_info(info.data_dir)
    with pytest.raises(ValueError, match=f"unreadable record . of 2.*{message}"):
        with records.named_errors(info, "t"):
            _stored(info, "t")


def test_label_map_of_another_size_than_its_image_is_found(tmp_path):
    spec = datasets.mixed_spec()
    small, large = (datasets.mixed_example(i, 2, (5 + i, 8)) for i in (1, 2))
    encoded = records.encode(small, spec)
    png = records._encode_png(small.labels[0][..., None])
    other = records._encode_png(large.labels[0][..., None])
    assert len(png) == len(other)
    broken = encoded.replace(png, other)
    entries = [
        ("a", "a", lambda: records.encode(large, spec)),
        ("b", "b", lambda: broken),
    ]
    info = records.write_dataset(tmp_path, spec, {"t": entries})
    with pytest.raises(ValueError, match="an image and its labels differ in size"):
        with records.named_errors(info, "t"):
            _stored(info, "t")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"min_graders": 5}, "min_graders 5, expected null or a whole number from 1"),
        ({"min_graders": "2"}, "min_graders '2', expected null or a whole number"),
        ({"min_size": [9, 9]}, r"min_size \[9, 9\], expected null or a height and a"),
        ({"min_size": [8]}, r"min_size \[8\], expected null or a height and a width"),
    ],
)
def test_damaged_limits_are_named(written, change, message):
    _edit_info(written, lambda raw: raw.update(change))
    with pytest.raises(ValueError, match=message):
        records.read_info(written.data_dir)
