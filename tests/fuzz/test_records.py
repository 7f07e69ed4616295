"""Damaged shards, with and without checksums that fit."""

from __future__ import annotations

import io
import json

import PIL.Image
import pytest
import tensorflow as tf
from helpers import datasets
from helpers.mutations import mutate

from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation import sources

MEMORY_GIB = 6  # TensorFlow's threads.
TRIES = 120
INNER_TRIES = 40
SHARD = "test-00000-of-00001.tfrecord"


@pytest.fixture
def data_dir(tmp_path):
    """A data set of one shard."""
    examples = [datasets.example(i) for i in range(3)]
    datasets.write(tmp_path, {"test": examples})
    return tmp_path


def _read(data_dir):
    """As an evaluation does."""
    info = records.read_info(data_dir)
    keys = sources.split_keys(info, "test")
    examples = input_pipeline.evaluation_examples(info, "test", DataConfig(eval_size=0))
    with records.named_errors(info, "test"):
        return keys, list(examples.as_numpy_iterator())


def _valid(found) -> None:
    keys, examples = found
    assert [example["key"].decode() for example in examples] == keys
    for example in examples:
        assert example["image"].shape == (datasets.SIZE, datasets.SIZE, 1)
        assert 0 <= example["image"].min() <= example["image"].max() <= 1
        assert example["labels"].shape[0] == datasets.NUM_GRADERS


def test_damaged_shards_are_found_by_their_checksum(fuzz, data_dir):
    whole = (data_dir / SHARD).read_bytes()
    for rng in fuzz.rngs(TRIES):
        data = mutate(whole, rng)
        (data_dir / SHARD).write_bytes(data)
        answer = fuzz.check(lambda: _read(data_dir), _valid, [SHARD])
        assert isinstance(answer, ValueError) or data == whole


def test_damaged_shards_with_a_checksum_that_fits(fuzz, data_dir):
    whole = (data_dir / SHARD).read_bytes()
    for rng in fuzz.rngs(INNER_TRIES):
        (data_dir / SHARD).write_bytes(mutate(whole, rng))
        datasets.vouch(data_dir, SHARD)
        fuzz.check(lambda: _read(data_dir), _valid, [SHARD])


def test_damaged_examples_in_a_whole_shard(fuzz, data_dir):
    whole = [records.encode(datasets.example(i), datasets.spec()) for i in range(3)]
    for rng in fuzz.rngs(INNER_TRIES):
        with tf.io.TFRecordWriter(str(data_dir / SHARD)) as writer:
            for serialized in (*whole[:2], mutate(whole[2], rng, whole)):
                writer.write(serialized)
        datasets.vouch(data_dir, SHARD)
        fuzz.check(lambda: _read(data_dir), _valid, [SHARD])


def _write_picture(data_dir, name: str, picture: bytes) -> None:
    """Writes a shard whose one record holds this picture as image or label map."""
    message = tf.train.Example.FromString(
        records.encode(datasets.example(0), datasets.spec())
    )
    message.features.feature[name].bytes_list.value[0] = picture
    with tf.io.TFRecordWriter(str(data_dir / SHARD)) as writer:
        writer.write(message.SerializeToString())
    datasets.vouch(data_dir, SHARD, 1)


def _picture(side: int, kind: str) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("L", (side, side)).save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["image", "labels"])
@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "JPEG"])
def test_pictures_of_another_size_are_not_decoded(fuzz, data_dir, name, kind):
    # 3000 x 3000 pixels; 22000 x 22000 took 6.4 GB.
    side = 3000 if kind == "PNG" else datasets.SIZE
    _write_picture(data_dir, name, _picture(side, kind))
    error = fuzz.check(lambda: _read(data_dir), _valid, [data_dir.name])
    assert "expected a PNG picture of 8x8 pixels" in str(error)


def test_examples_that_take_too_much_memory(fuzz, data_dir):
    # 22000 x 22000 pixels, in an image and four label maps.
    path = data_dir / records.INFO_NAME
    info = json.loads(path.read_text())
    info["image_shape"] = [22_000, 22_000, 1]
    path.write_text(json.dumps(info))
    error = fuzz.check(lambda: _read(data_dir), _valid, [data_dir.name])
    assert "(22000, 22000, 1) would take 9.02 GiB of memory" in str(error)


def test_a_key_that_is_no_text(fuzz, data_dir):
    serialized = records.encode(datasets.example(0), datasets.spec())
    with tf.io.TFRecordWriter(str(data_dir / SHARD)) as writer:
        writer.write(serialized.replace(b"key-000", b"key-\xff\xfe0"))
    datasets.vouch(data_dir, SHARD, 1)
    error = fuzz.check(lambda: _read(data_dir), _valid, [SHARD])
    assert "unreadable record 1 of 1 (its key or group is not text)" in str(error)
