"""Damaged and hostile NIfTI files."""

from __future__ import annotations

import gzip
import struct
import warnings

import numpy as np
import pytest
from helpers.mutations import mutate

from tf_probunet import limits
from tf_probunet.imaging import read_nifti
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.read_inputs import read_inputs

nibabel = pytest.importorskip("nibabel")

TRIES = 500
_DIM, _PIXDIM, _AFFINE = 40, 76, 280


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # nibabel's and NumPy's, about odd values.
        yield


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> list[bytes]:
    """Volumes of several types, unpacked."""
    folder = tmp_path_factory.mktemp("nifti")
    found = []
    for dtype in (np.int16, np.uint8, np.float32):
        volume = np.arange(5 * 6 * 2).reshape(5, 6, 2).astype(dtype)
        image = nibabel.Nifti1Image(volume, np.diag([-0.7, 0.7, 2.0, 1.0]))
        nibabel.save(image, folder / "x.nii")
        found.append((folder / "x.nii").read_bytes())
    return found


def _read(path):
    return read_inputs([str(path)], CropConfig())


def _valid(images) -> None:
    assert images
    for image in images:
        assert image.pixels.ndim == 3 and image.pixels.size
        assert np.isfinite(image.pixels).all()
        assert np.isfinite(image.geometry.affine).all()
        assert all(0 < size < np.inf for size in image.spacing_mm)


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_volumes(fuzz, tmp_path, seeds, packed):
    path = tmp_path / ("a.nii.gz" if packed else "a.nii")
    for rng in fuzz.rngs(TRIES):
        data = mutate(rng.choice(seeds), rng, seeds)
        if packed:
            data = gzip.compress(data)
            data = mutate(data, rng) if rng.random() < 0.2 else data
        fuzz.check_file(path, data, _read, _valid)
    assert 0 < fuzz.accepted < fuzz.tried


def _with(data: bytes, at: int, layout: str, *values) -> bytes:
    packed = struct.pack("<" + layout, *values)
    return data[:at] + packed + data[at + len(packed) :]


HOSTILE = {
    "30000 x 30000 x 30000": lambda d: _with(d, _DIM, "8h", 3, *[30_000] * 3, *[1] * 4),
    "nothing": lambda d: _with(d, _DIM, "8h", 3, 0, 0, 0, 1, 1, 1, 1),
    "negative": lambda d: _with(d, _DIM, "8h", 3, -5, -6, -2, 1, 1, 1, 1),
    "nine axes": lambda d: _with(d, _DIM, "h", 9),
    "pixels that are no numbers": lambda d: _with(d, _AFFINE, "4f", *[np.nan] * 4),
    "infinite pixels": lambda d: _with(d, _AFFINE, "4f", *[np.inf] * 4),
    "no pixels' size": lambda d: _with(d, _AFFINE, "12f", *[0.0] * 12),
    "empty": lambda d: b"",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_volumes_are_refused(fuzz, tmp_path, seeds, name, packed):
    data = HOSTILE[name](seeds[0])
    path = tmp_path / ("a.nii.gz" if packed else "a.nii")
    error = fuzz.check_file(
        path, gzip.compress(data) if packed else data, _read, _valid
    )
    assert isinstance(error, ValueError), error


@pytest.mark.parametrize("packed", [False, True])
def test_volumes_that_take_too_much_memory(fuzz, tmp_path, monkeypatch, seeds, packed):
    # 60 voxels become float32.
    path = tmp_path / ("a.nii.gz" if packed else "a.nii")
    for data in seeds:
        data = gzip.compress(data) if packed else data
        monkeypatch.setattr(limits, "MAX_BYTES", 240)
        assert len(fuzz.check_file(path, data, _read, _valid)) == 2
        monkeypatch.setattr(limits, "MAX_BYTES", 239)
        error = fuzz.check_file(path, data, _read, _valid)
        assert "[5, 6, 2] voxels would take 240 bytes of memory" in str(error)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("order", "<>")
def test_notes_before_the_voxels_are_bounded(fuzz, tmp_path, kind, order):
    # A packed file of 20 kB with a note of 20 MB; one of 2 MB could hold 2 GB.
    header = kind.header_class(endianness=order)
    header.set_data_shape((5, 6, 2))
    header["vox_offset"] = 20 * 2**20
    note = struct.pack(order + "ii", 20 * 2**20 - 560, 6)
    data = header.binaryblock + b"\1\0\0\0" + note + bytes(20 * 2**20)
    path = tmp_path / "a.nii.gz"
    error = fuzz.check_file(path, gzip.compress(data), _read, _valid)
    assert "voxels begin at byte 2.09715e+07, expected at most 16777216" in str(error)


def test_a_plain_file_holds_what_it_announces(fuzz, tmp_path, seeds):
    # gzip could pack these 2 MB into the 500 bytes of the file; it is not packed.
    data = _with(seeds[0], _DIM, "8h", 3, 100, 100, 100, 1, 1, 1, 1)
    error = fuzz.check_file(tmp_path / "a.nii", data, _read, _valid)
    assert f"announces 2000000 bytes in a file of {len(data)}" in str(error)


@pytest.mark.parametrize("packed", [False, True])
def test_a_volume_is_scaled_piece_by_piece(fuzz, tmp_path, monkeypatch, packed):
    monkeypatch.setattr(read_nifti, "_PIECE_VOXELS", 70)
    volume = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    image = nibabel.Nifti1Image(volume, np.diag([-0.7, 0.7, 2.0, 1.0]))
    image.header.set_slope_inter(0.5, -1024)
    path = tmp_path / ("a.nii.gz" if packed else "a.nii")
    nibabel.save(image, path)
    images = fuzz.check_file(path, path.read_bytes(), _read, _valid)
    expected = np.asanyarray(nibabel.load(path).dataobj)
    found = np.stack([image.pixels[..., 0].T for image in images], axis=-1)
    np.testing.assert_array_equal(found, expected[:, ::-1].astype(np.float32))
