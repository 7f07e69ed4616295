import collections
import os
import pickle

import numpy as np
import pytest
from helpers.lidc_pickles import entry, write

from tf_probunet.preparation.lidc import pickles
from tf_probunet.preparation.runner import Unit


def process(source):
    results = [source.process(Unit(i.name, ("val", i.task))) for i in source.items]
    examples = [e for result in results for _, e in result.examples]
    return {e.key: e for e in examples}, [p for r in results for p in r.problems]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", [np.float64, np.uint8, bool])
def test_slices_are_read_by_series(tmp_path, protocol, dtype):
    value = {
        "0001_0": entry("1.9", dtype=dtype),
        "0002_0": entry("1.2", areas=(0, 0, 0, 5), dtype=dtype),
        "0002_1": entry("1.2", areas=(3, 3, 3, 3), dtype=dtype),
    }
    source = pickles.source(write(tmp_path, value, protocol))
    assert source.groups == ["1.2", "1.9"]
    assert [len(item.task.entries) for item in source.items] == [2, 1]
    assert source.problems == []
    examples, problems = process(source)
    assert problems == [] and sorted(examples) == ["0001_0", "0002_0", "0002_1"]
    example = examples["0001_0"]
    assert example.group == "1.9"
    assert example.labels.sum(axis=(1, 2)).tolist() == [1, 0, 2, 0]
    assert example.image.dtype == np.uint8
    # 256 grey values: no pixel is off by more than half a step.
    error = example.image[..., 0] / 255.0 - value["0001_0"]["image"]
    assert np.abs(error).max() <= 0.5 / 255 + 1e-12
    assert (example.image.min(), example.image.max()) == (0, 255)


def test_four_empty_masks_are_dropped(tmp_path):
    value = {"a": entry(areas=(0, 0, 0, 0)), "b": entry()}
    examples, problems = process(pickles.source(write(tmp_path, value)))
    assert list(examples) == ["b"]
    assert [str(p) for p in problems] == ["a: image with four empty masks"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (entry(image=np.full((128, 128), 1.5)), "image values from 1.5 to 1.5"),
        (entry(image=np.full((128, 128), np.nan)), "image values from nan to nan"),
        (entry(image=np.zeros((64, 64))), "image of shape (64, 64)"),
        (entry(areas=(1, 1, 1)), "3 masks, expected 4"),
        (entry(masks=[np.full((128, 128), 2.0)] * 4), "mask values other than 0 and 1"),
        ({"image": 1, "series_uid": "1.2"}, "image of type int, expected an array"),
        ({"masks": [], "series_uid": "1.2"}, "KeyError('image')"),
        ({"image": "x", "series_uid": "1.2"}, "image of type str, expected an array"),
    ],
)
def test_bad_entries_are_named(tmp_path, bad, message):
    source = pickles.source(write(tmp_path, {"bad": bad, "good": entry()}))
    examples, (problem,) = process(source)
    assert list(examples) == ["good"]
    assert (problem.reason, problem.where) == ("unusable entry", "bad")
    assert message in problem.detail


@pytest.mark.parametrize("bad", [3, {}, {"series_uid": 5}, {"series_uid": ""}])
def test_entries_without_series_are_reported(tmp_path, bad):
    source = pickles.source(write(tmp_path, {"bad": bad, "good": entry()}))
    assert [problem.where for problem in source.problems] == ["bad"]
    assert len(source.items) == 1


def test_content_must_be_a_dict(tmp_path):
    with pytest.raises(ValueError, match="expected a dict of slices, got list"):
        pickles.source(write(tmp_path, [entry()]))


def test_plain_containers_and_arrays_are_admitted(tmp_path):
    value = collections.OrderedDict(
        a=[1, 2.5, "x", None, True, (b"bytes", {3})],
        b=np.float32(2.5),
        c=np.arange(6, dtype=">i2").reshape(2, 3),
        d=np.array(["text"]),
    )
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = pickles.load(write(tmp_path, value, protocol))
        assert found["a"] == value["a"] and found["b"] == np.float32(2.5)
        np.testing.assert_array_equal(found["c"], value["c"])
        assert found["d"].tolist() == ["text"]


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch {target}",), "posix.system"),
        (eval, ("open({target!r}, 'w')",), "eval"),
        (getattr, (dict, "keys"), "getattr"),
        (np.load, ("{target}",), "load"),
        (np.fromfile, ("{target}",), "fromfile"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_malicious_pickles_are_refused(tmp_path, function, arguments, name, protocol):
    target = tmp_path / "owned"
    arguments = [
        a.format(target=str(target)) if isinstance(a, str) else a for a in arguments
    ]
    evil = {"a": entry(), "b": Call(function, *arguments)}
    path = write(tmp_path, evil, protocol)
    with pytest.raises(
        ValueError, match="data.pickle: cannot read the pickle"
    ) as error:
        pickles.source(path)
    assert "refused to import" in str(error.value) and name in str(error.value)
    assert not target.exists()


def test_other_codecs_are_refused(tmp_path):
    # Protocol 2 writes bytes as _codecs.encode(text, 'latin1').
    path = write(tmp_path, {"a": b"\xff"}, protocol=2)
    path.write_bytes(path.read_bytes().replace(b"latin1", b"base64"))
    with pytest.raises(ValueError, match="refused the codec 'base64'"):
        pickles.load(path)


def test_nested_name_is_no_way_around(tmp_path):
    # STACK_GLOBAL with a dotted name: numpy's ndarray, then any attribute.
    path = tmp_path / "data.pickle"
    path.write_bytes(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.")
    with pytest.raises(ValueError, match="refused to import numpy.ndarray.tofile"):
        pickles.load(path)


def test_damaged_pickles_are_refused(tmp_path):
    path = write(tmp_path, {"a": np.arange(3.0), "b": [1, 2]})
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 5):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="data.pickle: cannot read the pickle"):
            pickles.load(path)
    with pytest.raises(FileNotFoundError, match="none: no such pickle"):
        pickles.load(tmp_path / "none")
