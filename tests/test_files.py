"""Tests of tf_probunet.files."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from tf_probunet import files


def test_atomic_path_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "deep" / "er" / "file.txt"
    files.write_text(path, "old")
    with files.atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
        assert temporary.suffix == ".txt"
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["file.txt"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_atomic_path_keeps_the_old_file_on_failure(tmp_path, failure):
    path = tmp_path / "file.bin"
    files.write_bytes(path, b"old")
    with pytest.raises(failure):
        with files.atomic_path(path) as temporary:
            temporary.write_bytes(b"half of the n")
            raise failure
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("named", [None, str, lambda temporary: temporary])
def test_failed_write_names_the_file(tmp_path, named):
    path = tmp_path / "file.bin"
    with pytest.raises(OSError) as caught:
        with files.atomic_path(path) as temporary:
            raise OSError(28, "No space", *([named(temporary)] if named else []))
    assert (caught.value.errno, caught.value.filename) == (28, str(path))


def test_failed_write_leaves_other_names(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        with files.atomic_path(tmp_path / "file.bin"):
            open(tmp_path / "other")
    assert str(caught.value.filename) == str(tmp_path / "other")


def test_temporaries_of_a_killed_process_are_removed(tmp_path):
    ours = [".file.123.tmp.bin", ".train-00000-of-00002.7.tmp.tfrecord", ".LOCK.9.tmp"]
    others = ["file.bin", ".hidden", ".file.tmp.bin", "file.123.tmp", ".a.1.tmp.b.c"]
    for name in ours + others:
        (tmp_path / name).touch()
    files.remove_temporaries(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(others)
    files.remove_temporaries(tmp_path / "no such directory")


def test_temporaries_are_named_as_they_are_removed(tmp_path):
    for name in ("file.bin", "a.b.tfrecord", "no_suffix"):
        with files.atomic_path(tmp_path / name) as temporary:
            temporary.touch()
            files.remove_temporaries(tmp_path)
            assert not temporary.exists()
            temporary.touch()


def test_arrays_round_trip(tmp_path):
    path = tmp_path / "x.npz"
    files.write_arrays(path, {"a": np.arange(3), "b": np.array(["x", "ü"])})
    with np.load(path, allow_pickle=False) as arrays:
        assert sorted(arrays) == ["a", "b"]
        np.testing.assert_array_equal(arrays["a"], [0, 1, 2])
        assert list(arrays["b"]) == ["x", "ü"]


def test_json_round_trip(tmp_path):
    value = {"a": [1, 2.5, None], "ü": "ß", "nested": {"b": True}}
    files.write_json(tmp_path / "x.json", value)
    assert files.read_json(tmp_path / "x.json", "thing") == value


def test_write_json_refuses_nan_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        files.write_json(path, {"a": float("nan")})
    assert files.read_json(path, "thing") == {"a": 1}
    assert os.listdir(tmp_path) == ["x.json"]


def test_read_json_names_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="x.json: no such recipe"):
        files.read_json(tmp_path / "x.json", "recipe")


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "not a valid recipe"),
        (b'{"a": 1', "not a valid recipe"),
        (b"\xff\xfe\x00", "not a valid recipe"),
        (b"[" * 100_000, "not a valid recipe"),
        (b"[1, 2]", "expected a JSON object as recipe, got list"),
        (b"3", "expected a JSON object as recipe, got int"),
        (b'{"a": NaN}', "not a valid recipe in JSON .NaN where a finite number"),
        (b'{"a": -1e400}', "not a valid recipe in JSON .-1e400 where a finite number"),
        (b'{"a": 18446744073709551616}', "not a valid recipe .*over 64 bits"),
        (b'{"a": ' * 51 + b"1" + b"}" * 51, "not a valid recipe .*nested over 50"),
    ],
)
def test_read_json_names_a_damaged_file(tmp_path, data, message):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"x.json: {message}"):
        files.read_json(path, "recipe")


@pytest.mark.parametrize("size", [0, 5, (1 << 20) + 3])
def test_sha256(tmp_path, size):
    data = bytes(i % 251 for i in range(size))
    files.write_bytes(tmp_path / "x", data)
    assert files.sha256(tmp_path / "x") == hashlib.sha256(data).hexdigest()


def test_pipes_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for read in (files.BoundedReader, lambda path: files.read_start(path, 4)):
        with pytest.raises(ValueError, match="pipe.png: a pipe or a device, expected"):
            read(tmp_path / "pipe.png")


def test_start_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert files.read_start(tmp_path / "a", 3) == b"123"
    assert files.read_start(tmp_path / "a", 9) == b"12345"


def test_a_name_without_patterns_is_left_as_it_is(tmp_path):
    with files.without_patterns(tmp_path) as plain:
        assert plain == tmp_path


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "a\\b", "]"])
def test_a_name_with_patterns_is_reached_by_one_without(tmp_path, name, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    with files.without_patterns(name) as plain:
        (plain / "x").touch()
        assert not set(str(plain)) & set("[]*?\\")
    assert not plain.parent.exists()
    assert os.listdir(name) == ["x"]


def test_temporary_files_need_a_place_without_patterns(tmp_path, monkeypatch):
    (tmp_path / "[t]").mkdir()
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path / "[t]"))
    with pytest.raises(ValueError, match="is needed; set TMPDIR"):
        with files.without_patterns(tmp_path / "[t]"):
            pass
