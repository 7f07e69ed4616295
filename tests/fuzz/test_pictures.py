"""Damaged and hostile PNG, TIFF and NPY files."""

from __future__ import annotations

import io
import pathlib
import struct
import warnings
import zlib

import numpy as np
import PIL.Image
import pytest
from helpers.mutations import mutate, mutate_text, with_png_checksums

from tf_probunet import limits
from tf_probunet.evaluation import sample_files
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.preparation import cityscapes
from tf_probunet.preparation.lidc import pngs
from tf_probunet.preparation.runner import Unit

PNG_TRIES = 500
PICTURE_TRIES = 500
ARRAY_TRIES = 500
SIDE = 16


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about large or odd pictures.
        yield


def _saved(array: np.ndarray, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.fromarray(array).save(buffer, format=kind, **options)
    return buffer.getvalue()


def _grey() -> np.ndarray:
    return np.arange(SIDE * SIDE, dtype=np.uint8).reshape(SIDE, SIDE)


def _mask() -> np.ndarray:
    return np.eye(SIDE, dtype=np.uint8)


def _png_seeds() -> list[bytes]:
    colour = np.stack([_grey()] * 3, axis=-1)
    text = PIL.Image.fromarray(_mask())
    buffer = io.BytesIO()
    info = __import__("PIL.PngImagePlugin", fromlist=["PngInfo"]).PngInfo()
    info.add_text("Comment", "a text " * 20, zip=True)
    text.save(buffer, format="PNG", pnginfo=info)
    frames = [PIL.Image.fromarray(_grey()), PIL.Image.fromarray(_mask())]
    animated = io.BytesIO()
    frames[0].save(animated, "PNG", save_all=True, append_images=frames[1:])
    return [
        _saved(_grey()),
        _saved(_mask()),
        _saved(_mask().astype(bool)),
        _saved(colour),
        _saved(_grey().astype(np.uint16) * 257),
        buffer.getvalue(),
        animated.getvalue(),
    ]


def _damaged_png(rng, seeds) -> bytes:
    data = mutate(rng.choice(seeds), rng, seeds)
    # Most readers stop at a wrong checksum: right ones lead further.
    return with_png_checksums(data) if rng.random() < 0.7 else data


def _lidc(path: pathlib.Path):
    task = pngs.PatientTask(
        str(path.parent),
        "p",
        (pngs.ImageFiles("k", path.name, (path.name,) * 4),),
        SIDE,
    )
    return pngs.process_patient(Unit("p", ("train", task)))


def _valid_lidc(result) -> None:
    # An example, or a problem that names the file.
    assert len(result.examples) + len(result.problems) == 1
    for problem in result.problems:
        named = "a.png" in str(problem) or problem.where == "k"
        assert named and len(str(problem).splitlines()) == 1
    for _, example in result.examples:
        assert example.image.shape == (SIDE, SIDE, 1)
        assert set(np.unique(example.labels)) <= {0, 1}


def _city(path: pathlib.Path):
    found = []
    for mode in ("L", "RGB"):
        try:
            image = cityscapes._read(str(path.parent), path.name, mode, [(SIDE, SIDE)])
            found.append(np.asarray(image))
        except cityscapes._BadFileError as error:
            assert path.name in str(error) and len(str(error).splitlines()) == 1
    return found


def _valid_city(found) -> None:
    assert len(found) <= 1
    for image in found:
        assert image.shape[:2] == (SIDE, SIDE) and image.dtype == np.uint8


def _sample(path: pathlib.Path):
    return sample_files._read_png(path, (SIDE, SIDE), 2)


def _valid_sample(labels) -> None:
    assert labels.shape == (SIDE, SIDE) and labels.dtype == np.uint8


def _predict(path: pathlib.Path):
    return read_inputs([str(path)], CropConfig())


def _valid_images(images) -> None:
    assert images and len({image.name for image in images}) == len(images)
    for image in images:
        assert image.pixels.ndim == 3 and image.pixels.size
        assert image.pixels.dtype == np.float32
        assert np.isfinite(image.pixels).all()


READERS = {
    "lidc": (_lidc, _valid_lidc),
    "cityscapes": (_city, _valid_city),
    "samples": (_sample, _valid_sample),
    "predict": (_predict, _valid_images),
}


@pytest.mark.parametrize("reader", READERS)
def test_damaged_png(fuzz, tmp_path, reader):
    seeds = _png_seeds()
    for rng in fuzz.rngs(PNG_TRIES):
        data = _damaged_png(rng, seeds)
        fuzz.check_file(tmp_path / "a.png", data, *READERS[reader])
    assert fuzz.accepted


def _tiff_seeds() -> list[bytes]:
    pages = [PIL.Image.fromarray(_grey()), PIL.Image.fromarray(_mask())]
    several = io.BytesIO()
    pages[0].save(several, "TIFF", save_all=True, append_images=pages[1:])
    return [
        _saved(_grey(), "TIFF"),
        _saved(_grey().astype(np.float32), "TIFF"),
        _saved(_grey().astype(np.int32), "TIFF"),
        _saved(_grey(), "TIFF", compression="tiff_deflate"),
        _saved(_grey(), "TIFF", compression="tiff_lzw"),
        _saved(np.stack([_grey()] * 3, axis=-1), "TIFF", compression="packbits"),
        several.getvalue(),
    ]


def test_damaged_tiff(fuzz, tmp_path):
    seeds = _tiff_seeds()
    for rng in fuzz.rngs(PICTURE_TRIES):
        data = mutate(rng.choice(seeds), rng, seeds)
        fuzz.check_file(tmp_path / "a.tif", data, _predict, _valid_images)
    assert 0 < fuzz.accepted < fuzz.tried


def test_damaged_jpeg(fuzz, tmp_path):
    colour = np.stack([_grey(), _grey().T, _mask()], axis=-1)
    seeds = [
        _saved(_grey(), "JPEG"),
        _saved(colour, "JPEG", progressive=True),
        _saved(colour, "JPEG", quality=30, comment=b"a text"),
    ]
    for rng in fuzz.rngs(PICTURE_TRIES):
        data = mutate(rng.choice(seeds), rng, seeds)
        fuzz.check_file(tmp_path / "a.jpg", data, _predict, _valid_images)
    assert 0 < fuzz.accepted < fuzz.tried


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _npy_with_header(header: str, content: bytes = b"") -> bytes:
    text = header.encode("latin-1", "replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 2**16) + text + content


def test_damaged_arrays(fuzz, tmp_path):
    seeds = [
        _npy(_grey()),
        _npy(_grey().astype(np.float64)),
        _npy(np.asfortranarray(_grey().astype(">i2"))),
        _npy(np.zeros((3, SIDE, SIDE, 1), np.float32)),
    ]
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 16), }\n"
    for rng in fuzz.rngs(ARRAY_TRIES):
        if rng.random() < 0.5:
            data = mutate(rng.choice(seeds), rng, seeds)
        else:
            data = _npy_with_header(mutate_text(header, rng), bytes(1024))
        fuzz.check_file(tmp_path / "a.npy", data, _predict, _valid_images)
    assert 0 < fuzz.accepted < fuzz.tried


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum


def _png(width: int, height: int, *chunks: bytes, depth=8, colour=0) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head)
    return start + b"".join(chunks) + _chunk(b"IEND", b"")


def _pixels(size: int) -> bytes:
    return _chunk(b"IDAT", zlib.compress(bytes(size)))


HOSTILE_PNG = {
    "empty": b"",
    "100000 x 100000": _png(100_000, 100_000, _pixels(1000)),
    "2^31-1 x 1": _png(2**31 - 1, 1, _pixels(1000)),
    "2^32-1 x 2^32-1": _png(2**32 - 1, 2**32 - 1, _pixels(10)),
    "13000 x 13000, just below Pillow's limit": _png(13_000, 13_000, _pixels(10)),
    "nothing": _png(0, 0, _pixels(10)),
    "no pixels": _png(SIDE, SIDE),
    "too few pixels": _png(SIDE, SIDE, _pixels(5)),
    "a text of 64 megabytes": _png(
        SIDE,
        SIDE,
        _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2**26))),
        _pixels(SIDE * (SIDE + 1)),
    ),
    "a chunk of 2^31 bytes": _png(SIDE, SIDE) + struct.pack(">I", 2**31) + b"IDAT",
    "a palette of nothing": _png(SIDE, SIDE, _chunk(b"PLTE", b""), colour=3),
    "depth 3": _png(SIDE, SIDE, _pixels(500), depth=3),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", HOSTILE_PNG)
def test_hostile_png(fuzz, tmp_path, name, reader):
    read, valid = READERS[reader]
    answer = fuzz.check_file(tmp_path / "a.png", HOSTILE_PNG[name], read, valid)
    if reader == "lidc":
        assert answer.problems
    elif reader == "cityscapes":
        assert answer == []
    else:
        assert isinstance(answer, ValueError), answer


HOSTILE_NPY = {
    "empty": b"",
    "100000 x 100000": "{'descr': '<f8', 'fortran_order': False, "
    "'shape': (100000, 100000)}",
    "2^62 of nothing": "{'descr': '|S0', 'fortran_order': False, 'shape': (2**62,)}",
    "nothing many times": "{'descr': '|V0', 'fortran_order': False, "
    "'shape': (4611686018427387904, 4)}",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -256)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (16, 16)}",
    "a call": "{'descr': __import__('os').system('true'), 'shape': (1,)}",
    "brackets": "(" * 9000,
    "minus signs": "{'descr': " + "-" * 9000 + "1}",
    "not a dict": "[1, 2]\n",
    "another version": b"\x93NUMPY\x09\x00\x02\x00{}",
    "an archive": b"PK\x05\x06" + bytes(18),
}


@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_hostile_arrays_are_refused(fuzz, tmp_path, name):
    data = HOSTILE_NPY[name]
    data = _npy_with_header(data, bytes(1024)) if isinstance(data, str) else data
    error = fuzz.check_file(tmp_path / "a.npy", data, _predict, _valid_images)
    assert isinstance(error, ValueError), error


def test_a_picture_of_another_kind_is_not_opened(fuzz, tmp_path):
    for kind in ("GIF", "PPM"):
        data = _saved(_grey(), kind)
        error = fuzz.check_file(tmp_path / "a.png", data, _predict, _valid_images)
        assert "expected a PNG, TIFF, JPEG or BMP picture" in str(error)


def test_all_pages_of_a_file_together_are_bounded(fuzz, tmp_path, monkeypatch):
    # Of each value there are a byte of Pillow's, one of NumPy's and a float32.
    monkeypatch.setattr(limits, "MAX_BYTES", 2 * 12 * SIDE * SIDE - 1)
    data = _tiff_seeds()[-1]
    error = fuzz.check_file(tmp_path / "a.tif", data, _predict, _valid_images)
    assert f"{2 * SIDE * SIDE} values would take" in str(error)


def test_a_palette_counts_as_the_colours_that_it_becomes(fuzz, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", 3 * 12 * SIDE * SIDE - 1)
    buffer = io.BytesIO()
    PIL.Image.fromarray(_grey()).convert("P").save(buffer, "PNG")
    error = fuzz.check_file(
        tmp_path / "a.png", buffer.getvalue(), _predict, _valid_images
    )
    assert f"{3 * SIDE * SIDE} values would take" in str(error)


def test_a_palette_of_13000_x_13000(fuzz, tmp_path):
    # Colours for 169 million pixels: below Pillow's limit, as grey below ours.
    packer, packed = zlib.compressobj(9), b""
    for _ in range(13):
        packed += packer.compress(bytes(13_001_000))
    palette = _chunk(b"PLTE", bytes(768))
    pixels = _chunk(b"IDAT", packed + packer.flush())
    data = _png(13_000, 13_000, palette, pixels, colour=3)
    error = fuzz.check_file(tmp_path / "a.png", data, _predict, _valid_images)
    assert "507000000 values would take 5.67 GiB of memory" in str(error)


def test_values_of_an_array_become_float32(fuzz, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", 5 * SIDE * SIDE - 1)
    data = _npy(_grey())
    error = fuzz.check_file(tmp_path / "a.npy", data, _predict, _valid_images)
    assert f"{SIDE * SIDE} values would take 1.25 KiB of memory" in str(error)


def test_pages_larger_than_the_file_can_hold_are_not_unpacked(fuzz, tmp_path):
    # 10000 x 10000 is below Pillow's limit; so is a gigabyte below nobody's.
    data = _saved(_grey(), "TIFF")
    for tag in (256, 257):  # Width and height, as LONG.
        old = struct.pack("<HHII", tag, 4, 1, SIDE)
        assert data.count(old) == 1
        data = data.replace(old, struct.pack("<HHII", tag, 4, 1, 10_000))
    error = fuzz.check_file(tmp_path / "a.tif", data, _predict, _valid_images)
    assert f"announces 12500000 bytes, packed into {len(data)}" in str(error)
