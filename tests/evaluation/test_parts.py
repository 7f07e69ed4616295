"""Part files: when they are written, and which of them count."""

from __future__ import annotations

import numpy as np
import pytest

from tf_probunet.evaluation.parts import Parts, concatenated


def rows(*numbers):
    keys = np.array([f"key-{n}" for n in numbers])
    return {"keys": keys, "values": np.array(numbers)}


def test_parts_are_written_by_time(tmp_path):
    seconds = 0.0
    parts = Parts(tmp_path, clock=lambda: seconds)
    parts.add(rows(0, 1))
    assert not list(tmp_path.iterdir())
    seconds = 21.0
    parts.add(rows(2))
    assert [path.name for path in tmp_path.iterdir()] == ["00000000.npz"]
    parts.add(rows(3))
    assert parts.done == 4
    # What was not written is lost with the process.
    again = Parts(tmp_path)
    assert again.done == 3
    assert again.table()["values"].tolist() == [0, 1, 2]
    parts.flush()
    assert Parts(tmp_path).table()["keys"].tolist() == [f"key-{n}" for n in range(4)]


def test_parts_behind_a_gap_are_written_again(tmp_path):
    parts = Parts(tmp_path)
    for n in range(4):
        parts.add(rows(n))
        parts.flush()
    (tmp_path / "00000002.npz").write_bytes(b"")
    again = Parts(tmp_path)
    assert again.done == 2
    again.add(rows(20, 30))
    again.flush()
    assert Parts(tmp_path).table()["values"].tolist() == [0, 1, 20, 30]


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"x" * 100, np.zeros(3).tobytes()]
)
def test_damaged_parts_do_not_count(tmp_path, content):
    (tmp_path / "00000000.npz").write_bytes(content)
    assert Parts(tmp_path).done == 0


def test_pickles_are_not_loaded(tmp_path):
    np.savez(tmp_path / "00000000.npz", keys=np.array([{"a": 1}], dtype=object))
    assert Parts(tmp_path).done == 0


def test_arrays_kept_for_some_images_only():
    table = concatenated([{**rows(0, 1), "image": np.zeros((1, 2))}, rows(2)])
    assert table["values"].tolist() == [0, 1, 2]
    assert table["image"].shape == (1, 2)
