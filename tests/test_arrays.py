"""NPY and NPZ files: what NumPy wrote comes back; damaged files: tests/fuzz."""

from __future__ import annotations

import numpy as np
import pytest

from tf_probunet import arrays, limits

_ARRAYS = {
    "numbers": np.arange(12, dtype=np.int16).reshape(3, 4),
    "columns_first": np.asfortranarray(np.random.default_rng(0).random((2, 3))),
    "text": np.array(["a", "bcd"]),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 4), np.uint8),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were_saved(tmp_path, save):
    save(tmp_path / "a.npz", **_ARRAYS)
    found = arrays.read_npz(tmp_path / "a.npz")
    assert list(found) == list(_ARRAYS)
    for name, array in _ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_only_the_named_arrays_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", **_ARRAYS)
    assert list(arrays.read_npz(tmp_path / "a.npz", ["text"])) == ["text"]
    with pytest.raises(ValueError, match=r"a\.npz: .*expected the array 'absent'"):
        arrays.read_npz(tmp_path / "a.npz", ["absent"])


def test_headers_are_read_alone(tmp_path):
    np.savez(tmp_path / "a.npz", **_ARRAYS)
    shape, dtype = arrays.npz_header(tmp_path / "a.npz", "numbers")
    assert (shape, dtype) == ((3, 4), np.dtype(np.int16))


def test_a_single_array(tmp_path):
    np.save(tmp_path / "a.npy", _ARRAYS["numbers"])
    np.testing.assert_array_equal(
        arrays.read_npy(tmp_path / "a.npy"), _ARRAYS["numbers"]
    )


def test_python_objects_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy: .*an array of Python objects"):
        arrays.read_npy(tmp_path / "a.npy")


def test_the_limit_of_memory_counts(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", zeros=np.zeros(1000))
    monkeypatch.setattr(limits, "MAX_BYTES", 7999)
    with pytest.raises(ValueError, match=r"a\.npz: .*would take"):
        arrays.read_npz(tmp_path / "a.npz")


def test_missing_files_are_named(tmp_path):
    for read, kind in ((arrays.read_npy, "NPY"), (arrays.read_npz, "NPZ")):
        with pytest.raises(FileNotFoundError, match=f"absent: no such {kind} file"):
            read(tmp_path / "absent")
