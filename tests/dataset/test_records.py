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


def test_unreadable_records_are_named(written, tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"this is no record, whatever its name says")
    with pytest.raises(ValueError, match="^here: unreadable record"):
        with records.named_errors("here"):
            list(tf.data.TFRecordDataset(str(path)))


@pytest.mark.parametrize("version", ["2.0", "0.9", 3, None])
def test_other_format_version_says_what_to_do(written, version):
    _edit_info(written, lambda raw: raw.update(format_version=version))
    message = (
        rf"record format {version}, .*reads 1\.0; prepare the data again with run/"
    )
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
