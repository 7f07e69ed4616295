"""Damaged and hostile annotation files."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import fuzzing
from helpers.dicom_writer import (
    ct_message,
    nodule,
    non_nodule,
    region,
    square,
    xray_message,
)
from helpers.mutations import mutate, mutate_text
from hypothesis import given
from hypothesis import strategies as st

from tf_probunet.imaging import dicom
from tf_probunet.preparation.lidc import annotation_xml
from tf_probunet.preparation.lidc.annotations import read_annotations
from tf_probunet.preparation.runner import UnitResult

TRIES = 500
HYPOTHESIS_TRIES = 150
SHAPE = (32, 32)


def _message() -> str:
    outline = [region(f"1.2.{i}", -100.0 + 2 * i, square(5, 6, 7)) for i in range(2)]
    hole = region("1.2.0", -100.0, square(7, 8, 2), inclusion="FALSE")
    point = region("1.2.1", -98.0, [(4, 4)])
    reading = [nodule("Nodule 001", *outline, hole), nodule("2", point)]
    return ct_message([[*reading, non_nodule("1.2.0", -100.0)], reading, [], []])


def _stack() -> dicom.Stack:
    headers = [
        dicom.SliceHeader(
            f"{i}.dcm", "p", "1", "1.1", f"1.2.{i}", -100.0 + 2 * i, None, i, SHAPE
        )
        for i in range(2)
    ]
    return dicom.stack_slices(headers)[0]


def _read(path):
    """As a preparation does: the header, the readings, and their pixels."""
    header = annotation_xml.read_header(path)
    if header.kind != annotation_xml.CT_MESSAGE:
        return header, [], []
    readings = annotation_xml.read_readings(path)
    return header, readings, read_annotations(readings, _stack(), "x", UnitResult())


def _valid(found) -> None:
    header, readings, annotations = found
    assert isinstance(header.series_uid, str) and isinstance(header.kind, str)
    for reading in readings:
        for lesion in reading.nodules:
            for outline in lesion.regions:
                assert outline.z_mm is None or math.isfinite(outline.z_mm)
                assert len(set(outline.points)) > 1
    for annotation in annotations:
        for pixels in annotation.pixels.values():
            assert pixels.min() >= 0 and (pixels < np.array(SHAPE)).all()


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_damaged_files(fuzz, tmp_path, kind):
    seeds = [_message(), xray_message()]
    for rng in fuzz.rngs(TRIES):
        text = seeds[rng.random() < 0.1]
        if kind == "bytes":
            data = mutate(text.encode(), rng, [seed.encode() for seed in seeds])
        else:
            data = mutate_text(text, rng).encode()
        fuzz.check_file(tmp_path / "069.xml", data, _read, _valid)
    assert 0 < fuzz.accepted < fuzz.tried


_NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.text("0123456789e+-._ ", max_size=9),
)


@fuzzing.hypothesis_settings(HYPOTHESIS_TRIES)
@given(
    z=_NUMBERS,
    points=st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=5),
    inclusion=st.sampled_from(["TRUE", "FALSE", "true", "", "maybe"]),
    name=st.text(st.characters(min_codepoint=32, exclude_characters="<&"), max_size=9),
)
def test_any_values(fuzz, tmp_path, z, points, inclusion, name):
    text = ct_message([[nodule(name, region("1.2.0", z, points, inclusion))]])
    data = text.encode("utf-8", "replace")
    fuzz.check_file(tmp_path / "069.xml", data, _read, _valid)


def _entities() -> str:
    levels = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(9))
    return f'<!DOCTYPE x [<!ENTITY e0 "x">{levels}]><LidcReadMessage>&e9;</a>'


HOSTILE = {
    "empty": b"",
    "entities in entities": _entities().encode(),
    "a file as entity": b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    b"<LidcReadMessage>&e;</LidcReadMessage>",
    "an encoding that expat refuses": b'<?xml version="1.0" encoding="gbk"?>'
    b"<LidcReadMessage/>",
    "an encoding that is none": b'<?xml version="1.0" encoding="x-none"?><a/>',
    "a coordinate of 30 digits": _message()
    .replace("<xCoord>5<", f"<xCoord>{'9' * 30}<")
    .encode(),
    "a coordinate of 9999 digits": _message()
    .replace("<xCoord>5<", f"<xCoord>{'9' * 9999}<")
    .encode(),
    "a position that is no number": _message().replace("-98.0 ", "nan").encode(),
    "an infinite position": _message().replace("-98.0 ", "-inf").encode(),
    "a lesion's name of a megabyte": _message()
    .replace("Nodule 001", "x" * 10**6)
    .replace("<xCoord>5<", "<xCoord>?<")
    .encode(),
    "an unclosed file of 100000 levels": b"<a>" * 10**5,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(fuzz, tmp_path, name):
    error = fuzz.check_file(tmp_path / "069.xml", HOSTILE[name], _read, _valid)
    assert isinstance(error, ValueError), error


def test_deep_files_are_read(fuzz, tmp_path):
    levels = 50_000
    data = b"<LidcReadMessage>" + b"<a>" * levels + b"</a>" * levels
    data += b"</LidcReadMessage>"
    found = fuzz.check_file(tmp_path / "069.xml", data, _read, _valid)
    assert found[1] == []


def test_files_of_five_megabytes_are_refused_unread(fuzz, tmp_path):
    # 250 MB of such elements took 6 GB and 91 seconds.
    data = b"<LidcReadMessage>" + b"<a/>" * 1_250_000 + b"</LidcReadMessage>"
    error = fuzz.check_file(tmp_path / "069.xml", data, _read, _valid)
    assert "5000035 bytes, expected at most 4194304" in str(error)


def test_the_longest_comment_that_is_read(fuzz, tmp_path):
    # One of 160 MB took minutes: older versions of expat need its length squared.
    data = b"<IdriReadMessage><!--" + b"x" * 4_190_000 + b"--></IdriReadMessage>"
    found = fuzz.check_file(tmp_path / "069.xml", data, annotation_xml.read_header, id)
    assert found.kind == annotation_xml.XRAY_MESSAGE


def test_oversized_files_are_refused_unread(fuzz, tmp_path, monkeypatch):
    monkeypatch.setattr(annotation_xml, "_MAX_BYTES", 1000)
    data = _message().encode()
    error = fuzz.check_file(tmp_path / "069.xml", data, _read, _valid)
    assert "expected at most 1000" in str(error)
