"""Damaged configurations, descriptions, split files and notes, all in JSON."""

from __future__ import annotations

import json
import math
import pathlib

import pytest
from helpers import fuzzing
from helpers.mutations import mutate, mutate_json
from hypothesis import given
from hypothesis import strategies as st

from tf_probunet import limits
from tf_probunet.config import Config, read_config
from tf_probunet.dataset import records
from tf_probunet.preparation import splits
from tf_probunet.training.run_dir import BEST_NAME, CONFIG_NAME, DATASET_NAME, RunDir

MEMORY_GIB = 4  # TensorFlow's threads.
TRIES = 400
BYTE_TRIES = 150
HYPOTHESIS_TRIES = 150

_SHARD = {"file": "a-00000-of-00001.tfrecord", "count": 3, "bytes": 9}
_INFO = {
    "format_version": records.FORMAT_VERSION,
    "name": "lidc",
    "class_names": ["background", "lesion"],
    "image_shape": [16, 16, 1],
    "image_dtype": "int16",
    "intensity": "hu",
    "num_graders": 4,
    "ignore_label": None,
    "num_modes": 0,
    "preparation": {"spacing_mm": 0.5},
    "splits": {
        "train": {"count": 3, "groups": 2, "shards": [{**_SHARD, "sha256": "0" * 64}]}
    },
}
_DATASET = {
    "name": "lidc",
    "fingerprint": "0" * 16,
    "class_names": ["background", "lesion"],
    "intensity": "hu",
    "image_shape": [16, 16, 1],
    "num_graders": 4,
    "preparation": {},
    "counts": {"train": 3},
}
_SPLITS = {"train": ["a", "b", "c"], "val": ["d"], "test": ["e"]}


def _valid_config(config: Config) -> None:
    again = Config.from_json(json.loads(json.dumps(config.to_json())), "again")
    assert again == config
    for section in config.to_json().values():
        for value in section.values():
            assert not isinstance(value, float) or math.isfinite(value)


def _valid_info(info: records.DatasetInfo) -> None:
    assert info.spec.num_classes >= 1 and len(info.fingerprint) == 16
    for split in info.splits:
        assert info.count(split) >= 0
        # No shard is there: the error names the one that is missing.
        shards = info.splits[split]["shards"]
        with pytest.raises(FileNotFoundError, match="missing shard"):
            info.shard_paths(split)
            assert not shards
            raise FileNotFoundError("missing shard")
        for shard in shards:
            assert (info.data_dir / shard["file"]).parent == info.data_dir


def _valid_dataset(dataset: dict) -> None:
    assert isinstance(dataset["name"], str) and isinstance(dataset["fingerprint"], str)
    assert isinstance(dataset["class_names"], list)


def _valid_best(best: dict) -> None:
    assert type(best["step"]) is int and best["ged"] + best["loss"] is not None


def _valid_splits(found: dict) -> None:
    names = [name for groups in found.values() for name in groups]
    assert names and len(set(names)) == len(names)
    assert set(splits.split_of(found).values()) <= set(splits.SPLITS)
    json.dumps(found, ensure_ascii=False).encode("utf-8")


READERS = {
    CONFIG_NAME: (Config().to_json(), read_config, _valid_config),
    records.INFO_NAME: (_INFO, lambda p: records.read_info(p.parent), _valid_info),
    DATASET_NAME: (_DATASET, lambda p: RunDir(p.parent).dataset(), _valid_dataset),
    BEST_NAME: (
        {"step": 7, "loss": 12.5, "ged": 0.25},
        lambda p: RunDir(p.parent).best_score(),
        _valid_best,
    ),
    "splits.json": (_SPLITS, splits.read, _valid_splits),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_values(fuzz, tmp_path, name):
    seed, read, valid = READERS[name]
    for rng in fuzz.rngs(TRIES):
        value = mutate_json(seed, rng)
        data = json.dumps(value, ensure_ascii=rng.random() < 0.9)
        data = data.encode("utf-8", "surrogatepass")
        fuzz.check_file(tmp_path / name, data, read, valid)
    assert 0 < fuzz.accepted < fuzz.tried


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes(fuzz, tmp_path, name):
    seed, read, valid = READERS[name]
    text = json.dumps(seed, indent=2).encode()
    for rng in fuzz.rngs(BYTE_TRIES):
        data = mutate(text, rng)
        fuzz.check_file(tmp_path / name, data, read, valid)
    assert fuzz.accepted < fuzz.tried


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["train", "val", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@fuzzing.hypothesis_settings(HYPOTHESIS_TRIES)
@given(value=_VALUES)
def test_any_json_as_split_file(fuzz, tmp_path, value):
    data = json.dumps(value).encode()
    fuzz.check_file(tmp_path / "splits.json", data, splits.read, _valid_splits)


HOSTILE = {
    "empty": b"",
    "brackets": b"[" * 100_000,
    "objects in objects": b'{"a":' * 100_000,
    "not text": b"\xff\xfe{}",
    "a number of 400 digits": b'{"train": ' + b"9" * 400 + b"}",
    "a number of 5000 digits": b'{"train": ' + b"9" * 5000 + b"}",
    "a list": b"[]",
    "a lone surrogate": b'{"train": ["\\ud800"]}',
    "a name twice": b'{"train": ["a"], "val": ["a"]}',
    "nobody": b"{}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(fuzz, tmp_path, name):
    path = tmp_path / "splits.json"
    error = fuzz.check_file(path, HOSTILE[name], splits.read, _valid_splits)
    assert isinstance(error, ValueError), error


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**70])
def test_numbers_over_64_bits_are_refused_in_every_setting(fuzz, tmp_path, value):
    for section, fields in Config().to_json().items():
        for field in fields:
            changed = Config().to_json()
            changed[section][field] = value
            data = json.dumps(changed).encode()
            path = tmp_path / CONFIG_NAME
            error = fuzz.check_file(path, data, read_config, _valid_config)
            assert "over 64 bits" in str(error)


def test_oversized_files_are_refused_unread(fuzz, tmp_path, monkeypatch):
    # Python's objects take up to 40 bytes for one of the file.
    data = json.dumps(_INFO).encode()
    path = tmp_path / records.INFO_NAME
    read = READERS[records.INFO_NAME][1]
    monkeypatch.setattr(limits, "MAX_BYTES", 40 * len(data) - 1)
    error = fuzz.check_file(path, data, read, _valid_info)
    assert f"{len(data)} bytes as data set description would take" in str(error)


def test_54_megabytes_are_refused_unread(fuzz, tmp_path):
    data = b'{"train": [' + b'{"":0},' * 7_700_000 + b"0]}"
    path = tmp_path / "splits.json"
    error = fuzz.check_file(path, data, splits.read, _valid_splits)
    assert "53900014 bytes as split file would take 2.01 GiB of memory" in str(error)


@pytest.mark.parametrize(
    "name",
    ["../../x.tfrecord", "/etc/passwd", "..", "a/b.tfrecord", "a\\b.tfrecord", "", "."]
    + ["x\0.tfrecord", "report.json", "..\n.tfrecord", "~/x.tfrecord"],
)
def test_shards_outside_of_the_directory_are_refused(fuzz, tmp_path, name):
    info = json.loads(json.dumps(_INFO))
    info["splits"]["train"]["shards"][0]["file"] = name
    path: pathlib.Path = tmp_path / records.INFO_NAME
    read = READERS[records.INFO_NAME][1]
    error = fuzz.check_file(path, json.dumps(info).encode(), read, _valid_info)
    assert "plain file name" in str(error)
