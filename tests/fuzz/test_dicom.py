"""Damaged and hostile DICOM files, for the preparation and for predictions."""

from __future__ import annotations

import importlib.util
import io
import math
import struct
import warnings
import zlib

import numpy as np
import PIL.Image
import pydicom
import pytest
from helpers.dicom_writer import UID_ROOT, write_slice
from helpers.mutations import mutate, mutate_text
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
)

from tf_probunet import limits
from tf_probunet.imaging import dicom
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.read_inputs import read_inputs

TRIES = 500
TEXT_TRIES = 250
SIDE = 12
# Values that stand in headers as text.
_TEXTS = {
    "ImagePositionPatient": ["-166", "-171.7", "-100.0"],
    "ImageOrientationPatient": ["1", "0", "0", "0", "1", "0"],
    "PixelSpacing": ["0.5", "0.5"],
    "SliceLocation": ["-100.0"],
    "InstanceNumber": ["1"],
    "RescaleSlope": ["1.0"],
    "RescaleIntercept": ["-1024.0"],
    "NumberOfFrames": ["1"],
    "PatientID": ["LIDC-IDRI-0001"],
    "SOPInstanceUID": [UID_ROOT + "1.1.1"],
    "SeriesInstanceUID": [UID_ROOT + "1.1"],
}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> list[bytes]:
    """A slice in all of the encodings."""
    hounsfield = np.arange(SIDE * SIDE).reshape(SIDE, SIDE) - 500
    folder = tmp_path_factory.mktemp("dicom")
    return [
        write_slice(
            folder / f"{syntax}.dcm",
            hounsfield,
            z_mm=-100.0,
            uid=UID_ROOT + "1.1.1",
            slice_location=-100.0,
            syntax=syntax,
        ).read_bytes()
        for syntax in ("explicit", "implicit", "rle")
    ]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom's, about values it reads anyway.
        yield


def _prepare(path):
    """As a preparation does: the header, the stack, the pixels."""
    header = dicom.read_header(path, path.name)
    if header is None:
        return None
    stack, problems = dicom.stack_slices([header])
    image, spacing_mm = dicom.read_pixels(path, path.name)
    return header, stack, problems, image, spacing_mm


def _valid_slice(found) -> None:
    if found is None:
        return
    header, stack, problems, image, spacing_mm = found
    assert len(stack.slices) + len(problems) >= 1
    assert math.isfinite(header.z_mm)
    assert image.dtype == np.int16 and image.min() >= dicom.AIR_HU
    assert image.shape == header.shape
    assert all(0 < size < 100 for size in spacing_mm)


def _valid_images(images) -> None:
    assert images
    for image in images:
        assert image.pixels.ndim == 3 and image.pixels.size
        assert np.isfinite(image.pixels).all()
        if image.geometry is not None:
            assert np.isfinite(image.geometry.affine).all()


def test_damaged_slices(fuzz, tmp_path, seeds):
    for rng in fuzz.rngs(TRIES):
        data = mutate(rng.choice(seeds), rng, seeds)
        path = tmp_path / "a.dcm"
        fuzz.check_file(path, data, _prepare, _valid_slice)
        fuzz.check_file(
            path, data, lambda p: read_inputs([str(p)], CropConfig()), _valid_images
        )
    assert 0 < fuzz.accepted < fuzz.tried


def test_header_values_of_any_kind(fuzz, tmp_path, seeds):
    for rng in fuzz.rngs(TEXT_TRIES):
        name = rng.choice(sorted(_TEXTS))
        text = mutate_text("\\".join(_TEXTS[name]), rng, edits=2)
        data = _with(tmp_path, rng.choice(seeds[:2]), name, text.encode("utf-8"))
        path = tmp_path / "a.dcm"
        fuzz.check_file(path, data, _prepare, _valid_slice)
        fuzz.check_file(
            path, data, lambda p: read_inputs([str(p)], CropConfig()), _valid_images
        )
    assert 0 < fuzz.accepted < fuzz.tried


def _with(tmp_path, data: bytes, name: str, value: bytes) -> bytes:
    """Returns a slice whose attribute has this value, checked by nobody."""
    source = tmp_path / "seed.dcm"
    source.write_bytes(data)
    dataset = pydicom.dcmread(source)
    keyword = pydicom.datadict.tag_for_keyword(name)
    vr = pydicom.datadict.dictionary_VR(keyword)
    value = value[:60_000] + b" " * (len(value[:60_000]) % 2)
    dataset[keyword] = pydicom.dataelem.RawDataElement(
        pydicom.tag.Tag(keyword), vr, len(value), value, 0, False, True
    )
    pydicom.dcmwrite(source, dataset)
    return source.read_bytes()


def _number(name: str, value: int):
    def change(tmp_path, data):
        return _with(tmp_path, data, name, struct.pack("<H", value))

    return change


def _text(name: str, value: str):
    return lambda tmp_path, data: _with(tmp_path, data, name, value.encode())


def _deflated(tmp_path, data):
    """A file of a few kilobytes that unpacks to 64 megabytes."""
    source = tmp_path / "seed.dcm"
    source.write_bytes(data)
    dataset = pydicom.dcmread(source)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.PixelData = bytes(2**26)
    if hasattr(dataset, "is_implicit_VR"):
        dataset.is_implicit_VR = False
    pydicom.dcmwrite(source, dataset)
    packed = source.read_bytes()
    assert len(packed) < 2**17 and zlib
    return packed


def _deflated_after_64_kilobytes(tmp_path, data):
    """Deflated, as an element says that comes behind one of 70 kB."""
    packed = _deflated(tmp_path, data)
    long = struct.pack("<HH2sHI", 2, 1, b"OB", 0, 70_000) + bytes(70_000)
    return packed[:132] + long + packed[132:]


def _packed(stream: bytes, syntax: str):
    """A slice whose pixels are this stream."""

    def change(tmp_path, data):
        source = tmp_path / "seed.dcm"
        source.write_bytes(data)
        dataset = pydicom.dcmread(source)
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.PixelRepresentation = 0
        dataset.PixelData = pydicom.encaps.encapsulate([stream])
        dataset["PixelData"].VR = "OB"
        dataset["PixelData"].is_undefined_length = True
        pydicom.dcmwrite(source, dataset)
        return source.read_bytes()

    return change


def _jpeg(frame: int, side: int, colours: int = 1, before: bytes = b"") -> bytes:
    """The head of a JPEG or JPEG-LS stream of this size."""
    size = struct.pack(">BBHBHHB", 255, frame, 11, 16, side, side, colours)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00"
    return b"\xff\xd8" + before + size + bytes(3) + scan + bytes(9) + b"\xff\xd9"


def _jpeg_2000(side: int, colours: int = 1) -> bytes:
    """The head of a JPEG 2000 stream of this size."""
    sizes = struct.pack(">8I", side, side, 0, 0, side, side, 0, 0)
    head = struct.pack(">HHHH", 0xFF4F, 0xFF51, 38 + 3 * colours, 0)
    return head + sizes + struct.pack(">H", colours) + b"\x0f\x01\x01" * colours


def _long_element(tmp_path, data):
    """Pixels that announce 4 GB, in a short file."""
    start = data.index(struct.pack("<HH2sH", 0x7FE0, 0x0010, b"OW", 0)) + 8
    return data[:start] + struct.pack("<I", 2**32 - 16) + data[start + 4 : -10]


HOSTILE = {
    "65535 rows and columns": lambda t, d: _number("Rows", 65535)(
        t, _number("Columns", 65535)(t, d)
    ),
    "no rows": _number("Rows", 0),
    "64 bits per pixel": _number("BitsAllocated", 64),
    "a million frames": _text("NumberOfFrames", "1000000"),
    "a position that is no number": _text("ImagePositionPatient", "0\\0\\nan"),
    "an infinite position": _text("ImagePositionPatient", "0\\0\\1e999"),
    "no position": _text("ImagePositionPatient", ""),
    "an infinite location": _text("SliceLocation", "-inf"),
    "a slope that is no number": _text("RescaleSlope", "nan"),
    "an infinite intercept": _text("RescaleIntercept", "inf"),
    "no pixel size": _text("PixelSpacing", "0\\0"),
    "three pixel sizes": _text("PixelSpacing", "1\\1\\1"),
    "deflated": _deflated,
    "an element of four gigabytes": _long_element,
    "deflated after 64 kB": _deflated_after_64_kilobytes,
    "JPEG-LS of 46000 x 46000": _packed(_jpeg(0xF7, 46_000), JPEGLSLossless),
    "JPEG-LS with sizes of its own": _packed(
        _jpeg(0xF7, SIDE, before=b"\xff\xf8\x00\x06\x04\x02\xff\xff"), JPEGLSLossless
    ),
    "JPEG-LS of two sizes": _packed(
        _jpeg(0xF7, SIDE, before=_jpeg(0xF7, 46_000)[2:15]), JPEGLSLossless
    ),
    "JPEG of 46000 x 46000": _packed(_jpeg(0xC0, 46_000), JPEGBaseline8Bit),
    "JPEG 2000 of 46000 x 46000": _packed(_jpeg_2000(46_000), JPEG2000Lossless),
    "JPEG 2000 of 9999 colours": _packed(_jpeg_2000(SIDE, 9999), JPEG2000Lossless),
    "no stream of any kind": _packed(zlib.compress(bytes(999)), JPEGLSLossless),
    "65535 samples per pixel": _number("SamplesPerPixel", 65535),
}


# What must be said, where a decoder could refuse these files for other reasons.
REASONS = {
    "deflated": "deflated, which is not read",
    "deflated after 64 kB": "deflated, which is not read",
    "JPEG-LS of 46000 x 46000": "packed pixels of 46000 x 46000 in 1 colours",
    "JPEG-LS with sizes of its own": "over 65535 rows or columns",
    "JPEG-LS of two sizes": "packed pixels of 46000 x 46000 in 1 colours",
    "JPEG of 46000 x 46000": "packed pixels of 46000 x 46000 in 1 colours",
    "JPEG 2000 of 46000 x 46000": "packed pixels of 46000 x 46000 in 1 colours",
    "JPEG 2000 of 9999 colours": "packed pixels of 12 x 12 in 9999 colours",
    "no stream of any kind": "packed pixels of an unknown kind",
    "65535 samples per pixel": "65535 colours, expected grey",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_slices_are_refused(fuzz, tmp_path, seeds, name):
    data = HOSTILE[name](tmp_path, seeds[0])
    error = fuzz.check_file(tmp_path / "a.dcm", data, _prepare, _valid_slice)
    assert isinstance(error, ValueError), error
    assert REASONS.get(name, "") in str(error)


def test_run_lengths_that_could_unpack_to_too_much(fuzz, tmp_path, monkeypatch, seeds):
    monkeypatch.setattr(limits, "MAX_BYTES", 10_000)
    error = fuzz.check_file(tmp_path / "a.dcm", seeds[2], _prepare, _valid_slice)
    assert "bytes of run lengths would take" in str(error)


_NEEDS_JPEG_LS = pytest.mark.skipif(
    importlib.util.find_spec("jpeg_ls") is None, reason="needs jpeg_ls"
)


@pytest.mark.parametrize(
    "kind", ["JPEG 2000", pytest.param("JPEG-LS", marks=_NEEDS_JPEG_LS)]
)
def test_packed_slices_are_read(fuzz, tmp_path, seeds, kind):
    stored = np.arange(SIDE * SIDE, dtype=np.uint16).reshape(SIDE, SIDE) + 524
    if kind == "JPEG 2000":
        buffer = io.BytesIO()
        image = PIL.Image.fromarray(stored)
        image.save(buffer, "JPEG2000", irreversible=False, no_jp2=True)
        stream, syntax = buffer.getvalue(), JPEG2000Lossless
    else:
        import jpeg_ls

        stream, syntax = bytes(jpeg_ls.encode(stored)), JPEGLSLossless
    data = _packed(stream, syntax)(tmp_path, seeds[0])
    found = fuzz.check_file(tmp_path / "a.dcm", data, _prepare, _valid_slice)
    np.testing.assert_array_equal(found[3], stored.astype(int) - 1024)


def test_errors_of_pydicom_that_name_no_file(fuzz, tmp_path, monkeypatch, seeds):
    def read(*_, **__):
        raise OSError("No tag to read at file position 390")

    monkeypatch.setattr(dicom.pydicom, "dcmread", read)
    error = fuzz.check_file(tmp_path / "a.dcm", seeds[0], _prepare, _valid_slice)
    assert "No tag to read" in str(error)


def test_files_that_are_no_dicom_are_told_apart(fuzz, tmp_path):
    found = fuzz.check_file(tmp_path / "a.txt", b"text" * 99, _prepare, _valid_slice)
    assert found is None
