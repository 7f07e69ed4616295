"""Damaged NPZ files: samples, parts of an evaluation, saved results."""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import struct
import zipfile

import numpy as np
import pytest
from helpers.mutations import mutate, mutate_json, mutate_text
from helpers.results_writer import write_lesion_results

from tf_probunet import arrays, limits
from tf_probunet.evaluation import compare, parts, sample_files
from tf_probunet.figures import make

TRIES = 400
RESULT_TRIES = 150
NUMBER_TRIES = {"compare": 60, "figures": 200}
SIZE = (4, 6)
_HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 6), }\n"


def _samples() -> np.ndarray:
    return (np.arange(3 * 4 * 6) % 2).astype(np.uint8).reshape(3, 4, 6)


def _npz(**stored) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **stored)
    return buffer.getvalue()


def _zip(members: dict[str, bytes], compression=zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy(header: str, content: bytes) -> bytes:
    text = header.encode("latin-1", "replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 2**16) + text + content


def _damaged(rng, seeds: list[bytes]) -> bytes:
    """Damages the archive, or an array in an archive that is whole."""
    if rng.random() < 0.4:
        return mutate(rng.choice(seeds), rng, seeds)
    with zipfile.ZipFile(io.BytesIO(rng.choice(seeds))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    if rng.random() < 0.5:
        members[name] = mutate(members[name], rng)
    else:
        header = members[name][10 : 10 + members[name][8]].decode("latin-1")
        content = members[name][10 + members[name][8] :]
        members[name] = _npy(mutate_text(header, rng), content)
    return _zip(members)


def _read_samples(path: pathlib.Path) -> np.ndarray:
    found = sample_files.find(path.parent, ["a"])
    return sample_files.read(found, "a", count=3, size=SIZE, num_classes=2)


def _valid_samples(samples: np.ndarray) -> None:
    assert samples.shape == (3, *SIZE) and samples.dtype == np.uint8
    assert samples.max() <= 1


def test_damaged_samples(fuzz, tmp_path):
    seeds = [
        _npz(samples=_samples()),
        _zip({"samples.npy": _npy(_HEADER, bytes(72))}, 0),
    ]
    for rng in fuzz.rngs(TRIES):
        data = _damaged(rng, seeds)
        fuzz.check_file(tmp_path / "a.npz", data, _read_samples, _valid_samples)
    assert 0 < fuzz.accepted < fuzz.tried


def _read_parts(path: pathlib.Path) -> parts.Parts:
    table = parts.Parts(path.parent)
    assert table.done == len(table.table().get("keys", ()))
    return table


def _valid_parts(table: parts.Parts) -> None:
    # A damaged part counts as none: its images are scored again.
    assert table.done in range(100)


def test_damaged_parts(fuzz, tmp_path):
    seeds = [_npz(keys=np.array(["a", "b"]), ged=np.zeros((2, 3)), few=np.zeros(1))]
    for rng in fuzz.rngs(TRIES):
        path = tmp_path / "00000000.npz"
        fuzz.check_file(path, _damaged(rng, seeds), _read_parts, _valid_parts)
    assert fuzz.accepted == fuzz.tried


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> pathlib.Path:
    """The results of two models."""
    folder = tmp_path_factory.mktemp("results")
    for seed, name in enumerate(("first", "second")):
        write_lesion_results(folder / name, num_images=5, seed=seed, saved=2)
    return folder


def _compare(folder: pathlib.Path) -> list[dict]:
    found = compare.read_all([folder / "first", folder / "second"])
    rows = compare.compare(found)
    assert compare.text_table(rows) and compare.markdown_table(rows)
    return rows


def _valid_rows(rows: list[dict]) -> None:
    for row in rows:
        assert {"metric", "num_samples", "model", "mean", "low", "high"} <= set(row)


def _read_figures(folder: pathlib.Path):
    found = make.read_results([str(folder / "first"), str(folder / "second")])
    return found[0].samples(), found[0].array("ged")


def _valid_figures(found) -> None:
    samples, _ = found
    shape = samples.images.shape[1:3]
    assert samples.graders.shape[2:] == samples.samples.shape[2:] == shape
    assert len(samples.keys) == len(samples.images)


READERS = {
    "compare": (_compare, _valid_rows),
    "figures": (_read_figures, _valid_figures),
}
_NAMES = ["first", "second"]  # The directory, or the key of the model in it.


@pytest.mark.parametrize("reader", READERS)
def test_damaged_result_numbers(fuzz, tmp_path, evaluated, reader):
    shutil.copytree(evaluated, tmp_path / "x")
    read, valid = READERS[reader]
    path = tmp_path / "x" / "first" / "results.json"
    seed = json.loads(path.read_text())
    for rng in fuzz.rngs(NUMBER_TRIES[reader]):
        path.write_text(json.dumps(mutate_json(seed, rng)))
        fuzz.check(lambda: read(tmp_path / "x"), valid, _NAMES)
    assert 0 < fuzz.accepted < fuzz.tried


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        ("compare", "per_image.npz"),
        ("figures", "per_image.npz"),
        ("figures", "samples.npz"),
    ],
)
def test_damaged_result_arrays(fuzz, tmp_path, evaluated, reader, name):
    shutil.copytree(evaluated, tmp_path / "x")
    read, valid = READERS[reader]
    path = tmp_path / "x" / "first" / name
    seeds = [path.read_bytes()]
    for rng in fuzz.rngs(RESULT_TRIES):
        path.write_bytes(_damaged(rng, seeds))
        fuzz.check(lambda: read(tmp_path / "x"), valid, _NAMES)
    assert 0 < fuzz.accepted < fuzz.tried


def _bomb() -> bytes:
    """A megabyte that truly unpacks to a gigabyte."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("samples.npy", "w", force_zip64=True) as stream:
            shape = (2**30 // 24, 4, 6)
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "|u1", "fortran_order": False, "shape": shape}
            )
            for _ in range(2):
                stream.write(bytes(2**20))
    return buffer.getvalue()


def _lying_size() -> bytes:
    """An entry whose directory announces 2 GB."""
    data = _zip({"samples.npy": _npy(_HEADER, bytes(72))})
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<I", 2**31) + data[at + 4 :]


HOSTILE = {
    "empty": b"",
    "no array": _zip({}),
    "another array": _npz(other=_samples()),
    "100000 x 100000": _zip(
        {"samples.npy": _npy(_HEADER.replace("(3, 4, 6)", "(3, 100000, 100000)"), b"")}
    ),
    "more samples than there are": _zip(
        {"samples.npy": _npy(_HEADER.replace("(3,", "(4000,"), bytes(72))}
    ),
    "a gigabyte": _bomb(),
    "an entry of 2 GB": _lying_size(),
    "packed with bzip2": _zip(
        {"samples.npy": _npy(_HEADER, bytes(72))}, zipfile.ZIP_BZIP2
    ),
    "packed with lzma": _zip(
        {"samples.npy": _npy(_HEADER, bytes(72))}, zipfile.ZIP_LZMA
    ),
    "objects": _zip({"samples.npy": _npy(_HEADER.replace("|u1", "|O"), bytes(72))}),
    "a path that leads out": _zip({"../../samples.npy": _npy(_HEADER, bytes(72))}),
    "other labels": _npz(samples=_samples() + 1),
    "text": _npz(samples=np.full((3, *SIZE), "x")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_samples_are_refused(fuzz, tmp_path, name):
    path = tmp_path / "a.npz"
    error = fuzz.check_file(path, HOSTILE[name], _read_samples, _valid_samples)
    assert isinstance(error, ValueError), error
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def _announcing(header: str, size: int) -> bytes:
    """An NPZ file of zeros: a thousandth of their number."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("keys.npy", "w") as stream:
            stream.write(_npy(header, bytes(size)))
    return buffer.getvalue()


def test_names_count_as_the_objects_that_they_become(fuzz, tmp_path, evaluated):
    # 12 MB of three million names: as Python's text, in sets and tables, 3 GB.
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (3000000,), }\n"
    shutil.copytree(evaluated, tmp_path / "x")
    path = tmp_path / "x" / "first" / "per_image.npz"
    path.write_bytes(_announcing(header, 12_000_000))
    error = fuzz.check(lambda: _compare(tmp_path / "x"), _valid_rows, [path])
    assert "an array of 3000000 values would take 2.81 GiB of memory" in str(error)


def test_values_without_a_size_count_too(fuzz, tmp_path, evaluated):
    header = "{'descr': '<U0', 'fortran_order': False, 'shape': (2147483648,), }\n"
    shutil.copytree(evaluated, tmp_path / "x")
    path = tmp_path / "x" / "first" / "per_image.npz"
    path.write_bytes(_announcing(header, 0))
    error = fuzz.check(lambda: _compare(tmp_path / "x"), _valid_rows, [path])
    assert "an array of 2147483648 values would take" in str(error)


def test_counts_are_few(fuzz, tmp_path, evaluated):
    shutil.copytree(evaluated, tmp_path / "x")
    path = tmp_path / "x" / "first" / "per_image.npz"
    counts = np.arange(1, 100_001, dtype=np.int32)
    ged = np.zeros((1, 100_000), np.uint8)
    path.write_bytes(_npz(keys=np.array(["a"]), counts=counts, ged=ged))
    error = fuzz.check(lambda: _compare(tmp_path / "x"), _valid_rows, [path])
    assert "100000 counts, expected up to 4096" in str(error)


def test_all_arrays_of_a_file_together_are_bounded(fuzz, tmp_path, monkeypatch):
    data = _npz(samples=_samples(), other=_samples())
    (tmp_path / "a.npz").write_bytes(data)
    monkeypatch.setattr(limits, "MAX_BYTES", 300)
    # 72 values each, and two headers of 128 bytes.
    error = fuzz.check_file(tmp_path / "a.npz", data, arrays.read_npz, len)
    assert "its content would take 400 bytes of memory" in str(error)


def test_arrays_come_back_as_they_were(tmp_path):
    stored = {
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "text": np.array(["a", "bc"]),
        "number": np.array(7, ">i2"),
        "nothing": np.zeros((0, 5)),
        "flags": np.array([True, False]),
    }
    np.savez(tmp_path / "x.npz", **stored)
    np.save(tmp_path / "x.npy", stored["fortran"])
    found = arrays.read_npz(tmp_path / "x.npz")
    assert set(found) == set(stored)
    for name, array in stored.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].flags.writeable
    np.testing.assert_array_equal(
        arrays.read_npy(tmp_path / "x.npy"), stored["fortran"]
    )
    assert arrays.npz_header(tmp_path / "x.npz", "nothing") == ((0, 5), np.float64)
