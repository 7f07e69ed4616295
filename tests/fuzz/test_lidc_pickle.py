"""Damaged and hostile pickles."""

from __future__ import annotations

import collections
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest
from helpers.mutations import mutate

from tf_probunet import limits
from tf_probunet.preparation.lidc import pickles
from tf_probunet.preparation.runner import Unit

TRIES = 900
# What arrays and numbers of NumPy pickle as; where it lies depends on the release.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]


def _entry(uid: str, small: bool = False) -> dict:
    size = 4 if small else 128
    image = np.linspace(0, 1, size * size).reshape(size, size)
    masks = [np.eye(size, dtype=np.uint8) for _ in range(4)]
    return {"image": image, "masks": masks, "series_uid": uid, "z": np.float32(1)}


def _seeds() -> list[bytes]:
    """Pickles of all protocols; small arrays, so that opcodes are hit often."""
    value = {"a_0": _entry("1.2", small=True), "b_0": _entry("1.3", small=True)}
    whole = {"a_0": _entry("1.2")}
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    return [*(pickle.dumps(value, p) for p in protocols), pickle.dumps(whole)]


def _read(path):
    source = pickles.source(path)
    return source, [source.process(Unit(i.name, ("val", i.task))) for i in source.items]


def _valid(found) -> None:
    source, results = found
    entries = sum(len(item.task.entries) for item in source.items)
    # Nothing is dropped in silence.
    assert entries + len(source.problems) == source.counts["slices in the pickle"]
    answers = sum(len(r.examples) + len(r.problems) for r in results)
    assert answers == entries
    for result in results:
        for _, example in result.examples:
            assert example.image.shape == (128, 128, 1)
            assert example.image.dtype == np.uint8
            assert example.labels.shape == (4, 128, 128) and example.labels.max() <= 1


def test_damaged_pickles(fuzz, tmp_path):
    seeds = _seeds()
    for rng in fuzz.rngs(TRIES):
        data = mutate(rng.choice(seeds), rng, seeds)
        fuzz.check_file(tmp_path / "data.pickle", data, _read, _valid)
    assert 0 < fuzz.accepted < fuzz.tried


def test_the_seeds_are_read(fuzz, tmp_path):
    for data in _seeds():
        fuzz.check_file(tmp_path / "data.pickle", data, _read, _valid)
    assert fuzz.accepted == fuzz.tried


class _Call:
    """Pickles as a call of a function with arguments."""

    def __init__(self, function, *arguments, state=None):
        self._reduced = (function, arguments, state)

    def __reduce__(self):
        return self._reduced


def _array_state(shape, dtype, content=b"", fortran=False):
    return pickle.dumps(
        _Call(
            _RECONSTRUCT,
            np.ndarray,
            (0,),
            b"b",
            state=(1, shape, dtype, fortran, content),
        ),
        2,
    )


def _shared_tuples(levels: int) -> bytes:
    """A dict with a key whose hash takes 2^levels steps."""
    nested = b")q\x00" + b"".join(
        b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(levels)
    )
    return b"\x80\x02}" + nested + b"K\x01s."


def _shared_lists(levels: int) -> bytes:
    """A list of 2^levels lists, each filled where the memo holds it."""
    filled = b""
    for i in range(levels):
        this, inner = bytes([i + 1]), bytes([i])
        filled += b"]q" + this + b"0h" + this + b"(h" + inner + b"h" + inner + b"e0"
    return b"\x80\x02}K\x01]q\x000" + filled + b"h" + bytes([levels]) + b"s."


def _chained_lists(levels: int) -> bytes:
    """A list in a list in a list, each put into the next when that was memoised."""
    empty = b"".join(b"]r" + struct.pack("<I", i) + b"0" for i in range(levels))
    chain = b"".join(
        b"j" + struct.pack("<I", i) + b"j" + struct.pack("<I", i + 1) + b"a0"
        for i in range(levels - 1)
    )
    return b"\x80\x02}K\x01" + empty + chain + b"j\0\0\0\0s."


def _hashed_again_and_again(levels: int, times: int) -> bytes:
    """A tuple of 2^levels tuples that is hashed so many times over."""
    nested = b")q\x00" + b"".join(
        b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(levels)
    )
    return b"\x80\x04}" + nested + (b"(h" + bytes([levels]) + b"\x910") * times + b"0."


def _equal_hashes(number: int) -> bytes:
    """A dict of whole numbers with one hash: each is compared with all before it."""
    value = {k * (2**61 - 1): None for k in range(number)}
    return pickle.dumps(value, 2)


HOSTILE = {
    "empty": b"",
    "lists that are filled in the memo": _shared_lists(60),
    "lists that are chained in the memo": _chained_lists(2000),
    "a tuple that is hashed 100 times": _hashed_again_and_again(25, 100),
    "numbers with one hash": _equal_hashes(30_000),
    "a value that holds itself": b"\x80\x02}K\x01]q\x00h\x00as.",
    "only a stop": b".",
    "array of 100000 x 100000": _array_state((100_000, 100_000), np.dtype("f8")),
    "array of nothing, 2^60 times": _array_state((2**60,), np.dtype("S0")),
    "array of objects": _array_state((2,), np.dtype("O"), [1, 2]),
    "array of negative size": _array_state((-1, -8), np.dtype("f8"), b"0" * 64),
    "ndarray called": pickle.dumps(_Call(np.ndarray, (2**20, 2**20)), 2),
    "scalar of two gigabytes": pickle.dumps(_Call(_SCALAR, np.dtype("V2000000000")), 2),
    "type with fields": pickle.dumps(np.zeros(2, [("a", "f8"), ("b", "O")]), 2),
    "memo place 2^32-1": b"\x80\x02}r\xff\xff\xff\xff.",
    "memo place as text": b"}p99999999999\n.",
    "bytes of 2^62": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "text of 2^62": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "bytearray of 2^62": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"x.",
    "frame of 2^62": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",
    "number of 2^31 bytes": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    "number of 100000 digits": b"I" + b"9" * 100_000 + b"\n.",
    "tuples in tuples": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "lists in lists": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "shared tuples": _shared_tuples(60),
    "duplicated tuples": b"\x80\x02})" + b"2\x86" * 60 + b"K\x01s.",
    "mark on top": b"(.",
    "os.system": pickle.dumps(_Call(os.system, "true")),
    "eval": pickle.dumps(_Call(eval, "1")),
    "getattr": pickle.dumps(_Call(getattr, dict, "mro")),
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"Px\n.",
    "instance": b"(ios\nsystem\n.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "codec": pickle.dumps(_Call(__import__("_codecs").encode, "x", "rot13"), 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(fuzz, tmp_path, name):
    error = fuzz.check_file(tmp_path / "x.pickle", HOSTILE[name], _read, _valid)
    assert isinstance(error, ValueError), error


def test_an_array_is_not_taken_for_its_nested_lists(fuzz, tmp_path):
    # np.asarray would walk 2^20 paths through these lists.
    nested = [0.0]
    for _ in range(20):
        nested = [nested, nested]
    value = {"a": {"image": nested, "masks": nested, "series_uid": "1"}}
    data = pickle.dumps(value)
    (_, (result,)) = fuzz.check_file(tmp_path / "x.pickle", data, _read, _valid)
    assert "expected an array" in result.problems[0].detail


def test_what_is_made_of_a_pickle_is_bounded(fuzz, tmp_path, monkeypatch):
    # A dict of one byte takes 64 of memory.
    monkeypatch.setattr(limits, "MAX_BYTES", 10**5)
    data = b"\x80\x02}K\x01(" + b"}" * 1000 + b"ls."
    error = fuzz.check_file(tmp_path / "x.pickle", data, _read, _valid)
    assert "what the pickle holds would take" in str(error)


def test_keys_that_are_no_names_are_reported(fuzz, tmp_path):
    data = pickle.dumps({("a", 1): _entry("1"), "b": _entry("2"), 7: _entry("3")})
    source, _ = fuzz.check_file(tmp_path / "x.pickle", data, _read, _valid)
    assert [p.where for p in source.problems] == ["a key of type tuple"]
    assert source.groups == ["2", "3"]


def test_what_is_read_goes_to_workers_as_plain_arrays(fuzz, tmp_path):
    data = pickle.dumps({"a": _entry("1")})
    source, _ = fuzz.check_file(tmp_path / "x.pickle", data, _read, _valid)
    (item,) = source.items
    again = pickle.loads(pickle.dumps(item.task))
    image = again.entries[0][1]["image"]
    assert type(image) is np.ndarray
    np.testing.assert_array_equal(image, _entry("1")["image"])


def test_python_2_wrote_the_bytes_of_arrays_as_text(fuzz, tmp_path):
    content = repr(bytes(range(250, 256))).encode()[1:]
    data = (
        b"(dp0\nS'a'\np1\n(dp2\nS'series_uid'\np3\nS'1.2'\np4\nsS'x'\np5\n"
        b"cnumpy.core.multiarray\n_reconstruct\np6\n(cnumpy\nndarray\np7\n(I0\ntp8\n"
        b"S'b'\np9\ntp10\nRp11\n(I1\n(I6\ntp12\ncnumpy\ndtype\np13\n"
        b"(S'u1'\np14\nI0\nI1\ntp15\nRp16\n(I3\nS'|'\np17\nNNNI-1\nI-1\nI0\ntp18\n"
        b"bI00\nS" + content + b"\np19\ntp20\nbss."
    )
    source, _ = fuzz.check_file(tmp_path / "x.pickle", data, _read, _valid)
    (item,) = source.items
    assert item.task.entries[0][1]["x"].tolist() == list(range(250, 256))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_normal_pickle_is_far_from_the_limits(tmp_path, protocol):
    shared = collections.OrderedDict(a=_entry("1"))
    shared["b"] = dict(shared["a"])  # The same arrays again.
    path = tmp_path / "x.pickle"
    path.write_bytes(pickle.dumps(shared, protocol))
    with open(path, "rb") as handle:
        pickles.check_opcodes(handle)
    names = {op.name for op, _, _ in pickletools.genops(path.read_bytes())}
    assert names & {"GET", "BINGET", "LONG_BINGET"}
