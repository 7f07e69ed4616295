"""Sample files: names, both layouts, and every way to get them wrong."""

from __future__ import annotations

import io
import json
import string
import zipfile

import numpy as np
import PIL.Image
import pytest
from helpers import datasets, png
from hypothesis import given
from hypothesis import strategies as st

from tf_probunet.evaluation import evaluate, sample_files

SAMPLES = np.random.default_rng(0).integers(0, 2, (5, 4, 6), dtype=np.uint8)


def read(directory, key="a", *, count=3, size=(4, 6), num_classes=2, keys=("a", "b")):
    found = sample_files.find(directory, keys)
    return sample_files.read(
        found, key, count=count, size=size, num_classes=num_classes
    )


def save_png(path, array, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = PIL.Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_names_are_plain_and_unique(keys):
    names = [sample_files.file_name(key) for key in keys]
    assert len(set(names)) == len(keys)
    plain = set(string.ascii_letters + string.digits + "_-.~%")
    for name in names:
        assert set(name) <= plain
        assert not name.startswith(".")


def test_names_by_example():
    assert sample_files.file_name("LIDC-IDRI-0001_s12") == "LIDC-IDRI-0001_s12"
    assert sample_files.file_name("patient 1/slice") == "patient%201%2Fslice"
    assert sample_files.file_name("../x") == "%2E.%2Fx"
    assert sample_files.file_name("..") == "%2E."


@pytest.mark.parametrize("key", ["a", "../x/ü y", ".hidden"])
def test_npz_round_trip_takes_the_first_samples(tmp_path, key):
    path = sample_files.write(tmp_path / "samples", key, SAMPLES)
    assert path.parent == tmp_path / "samples"
    samples = read(path.parent, key, keys=[key])
    np.testing.assert_array_equal(samples, SAMPLES[:3])
    assert samples.dtype == np.uint8


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint16])
def test_npz_of_any_integer(tmp_path, dtype):
    sample_files.write(tmp_path, "a", SAMPLES.astype(dtype))
    np.testing.assert_array_equal(read(tmp_path), SAMPLES[:3])


@pytest.mark.parametrize("scale, mode", [(1, None), (255, None), (255, "1"), (1, "P")])
def test_png_masks(tmp_path, scale, mode):
    for i, sample in enumerate(SAMPLES):
        array = sample * np.uint8(scale)
        if mode == "P":
            image = PIL.Image.fromarray(array, mode="P")
            image.putpalette([7, 7, 7, 200, 0, 0] + [0] * 762)
            (tmp_path / "a").mkdir(exist_ok=True)
            image.save(tmp_path / "a" / f"sample_{i:03d}.png")
        else:
            save_png(tmp_path / "a" / f"sample_{i:03d}.png", array, mode)
    np.testing.assert_array_equal(read(tmp_path), SAMPLES[:3])


def test_png_labels_of_many_classes_are_not_rescaled(tmp_path):
    labels = np.full((4, 6), 23, np.uint8)
    save_png(tmp_path / "a" / "sample_000.png", labels)
    np.testing.assert_array_equal(read(tmp_path, count=1, num_classes=24)[0], labels)
    with pytest.raises(ValueError, match="/a: samples hold 23; expected labels 0 to 4"):
        read(tmp_path, count=1, num_classes=5)


def test_png_labels_of_4_bits_would_be_stretched_and_are_refused(tmp_path):
    path = tmp_path / "a" / "sample_000.png"
    path.parent.mkdir()
    path.write_bytes(png.encode(np.full((4, 6, 1), 3), bits=4, color_type=0))
    with pytest.raises(ValueError, match="sample_000.png: is 4x6 of mode L;4; expecte"):
        read(tmp_path, count=1, num_classes=19)


def read_weighted(directory, count=5):
    found = sample_files.find(directory, ["a", "b"])
    return sample_files.read_weighted(
        found, "a", count=count, size=(4, 6), num_classes=2
    )


@pytest.mark.parametrize("as_png", [False, True])
def test_weights_are_read_and_missing_samples_have_none(tmp_path, as_png):
    weights = [0.125, 0.5, 0.375]
    if as_png:
        for i, sample in enumerate(SAMPLES[:3]):
            save_png(tmp_path / "a" / f"sample_{i:03d}.png", sample)
        assert not sample_files.has_weights(tmp_path / "a")
        text = json.dumps({"weights": weights})
        (tmp_path / "a" / "weights.json").write_text(text)
    else:
        sample_files.write(tmp_path, "a", SAMPLES[:3], weights)
    maps, found = read_weighted(tmp_path)
    np.testing.assert_array_equal(maps, SAMPLES[[0, 1, 2, 0, 0]])
    assert found.tolist() == [*weights, 0, 0]
    with pytest.raises(ValueError, match="has 3 weighted samples, expected 1 to 2"):
        read_weighted(tmp_path, count=2)


@pytest.mark.parametrize(
    "weights, message",
    [
        ([0.5, 0.4], r"a\.npz: weights are .* expected probabilities that sum to 1"),
        ([0.5, 0.25, 0.25], r"a\.npz: has 2 samples; expected 3 to"),
        ([1.0], "has 2 samples and 1 weights, expected as many"),
        ([[0.5, 0.5]], r"a\.npz: weights are not a list of numbers"),
        ([np.nan, 1], r"a\.npz: weights are not a list of numbers"),
        (["1", "0"], r"a\.npz: weights are not a list of numbers"),
        (None, r"a\.npz: has no weights, expected them as in the other samples"),
    ],
)
def test_bad_weights_are_named(tmp_path, weights, message):
    stored = {} if weights is None else {"weights": np.array(weights)}
    np.savez(tmp_path / "a.npz", samples=SAMPLES[:2], **stored)
    with pytest.raises(ValueError, match=message):
        read_weighted(tmp_path)


def test_bad_weights_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="a: weights have shape"):
        sample_files.write(tmp_path, "a", SAMPLES, [0.5, 0.5])
    assert not any(tmp_path.iterdir())


def test_missing_samples(tmp_path):
    sample_files.write(tmp_path, "a", SAMPLES)
    with pytest.raises(FileNotFoundError, match="b: no samples; expected b.npz or a"):
        read(tmp_path, "b")
    with pytest.raises(ValueError, match="a.npz: has 5 samples; expected 6 to"):
        read(tmp_path, count=6)
    save_png(tmp_path / "b" / "sample_000.png", SAMPLES[0])
    save_png(tmp_path / "b" / "sample_002.png", SAMPLES[0])
    with pytest.raises(FileNotFoundError, match="sample_001.png: missing"):
        read(tmp_path, "b")
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        read(tmp_path / "nowhere")


def test_unknown_and_double_files(tmp_path):
    (tmp_path / ".DS_Store").write_bytes(b"")
    assert sample_files.find(tmp_path, ["a"]) == {}
    sample_files.write(tmp_path, "a", SAMPLES)
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="a.npz: a has samples in .*/a too"):
        read(tmp_path)
    (tmp_path / "a").rmdir()
    sample_files.write(tmp_path, "c", SAMPLES)
    with pytest.raises(
        ValueError, match="c.npz: does not belong to an image.*2 keys such as a"
    ):
        read(tmp_path)
    (tmp_path / "c.npz").rename(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="a.npy: does not belong to an image"):
        read(tmp_path)


@pytest.mark.parametrize(
    "array, message",
    [
        (SAMPLES[:, :, :5], r"have shape \(5, 4, 5\); expected \[S, 4, 6\]"),
        (SAMPLES[0], r"have shape \(4, 6\)"),
        (SAMPLES / 2, "are float64; expected integers"),
        (SAMPLES.astype(object), "are object; expected integers"),
        (SAMPLES * 3, "hold 3; expected labels 0 to 1"),
        (SAMPLES.astype(np.int8) * -1, "hold -1"),
        (SAMPLES.astype(np.int64) * 256, "hold 256"),
    ],
)
def test_wrong_arrays_name_the_file(tmp_path, array, message):
    np.savez(tmp_path / "a.npz", samples=array)
    with pytest.raises(ValueError, match=f"a.npz: samples {message}"):
        read(tmp_path)


def test_damaged_npz(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="a.npz: damaged NPZ"):
        read(tmp_path)
    np.savez(path, other=SAMPLES)
    with pytest.raises(ValueError, match=r"holds \['other'\], expected the array"):
        read(tmp_path)
    np.savez(path, samples=SAMPLES)
    path.write_bytes(path.read_bytes().replace(SAMPLES.tobytes(), b"\7" * SAMPLES.size))
    with pytest.raises(ValueError, match="a.npz: damaged NPZ"):
        read(tmp_path)


def bomb(path, shape):
    """A file of a few bytes whose array says that it has `shape`."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples.npy", header.getvalue())


def test_oversized_arrays_are_refused_unread(tmp_path):
    bomb(tmp_path / "a.npz", (10**9, 4, 6))
    with pytest.raises(ValueError, match="has 1000000000 samples; expected 3 to 4096"):
        read(tmp_path)
    bomb(tmp_path / "a.npz", (16, 10**6, 10**6))
    with pytest.raises(ValueError, match=r"shape \(16, 1000000, 1000000\)"):
        read(tmp_path)
    bomb(tmp_path / "a.npz", (16, 4, 6))
    with pytest.raises(ValueError, match="a.npz: damaged NPZ"):
        read(tmp_path)


def test_wrong_pngs_name_the_file(tmp_path):
    path = tmp_path / "a" / "sample_000.png"
    for array, message in (
        (np.zeros((6, 4), np.uint8), "is 6x4 of mode L; expected 4x6"),
        (np.zeros((4, 6, 3), np.uint8), "is 4x6 of mode RGB"),
        (np.zeros((5000, 5000), np.uint8), "is 5000x5000"),
    ):
        save_png(path, array)
        with pytest.raises(ValueError, match=f"sample_000.png: {message}"):
            read(tmp_path, count=1)
    save_png(path, SAMPLES[0])
    path.write_bytes(path.read_bytes()[:45])
    with pytest.raises(ValueError, match="sample_000.png: damaged PNG"):
        read(tmp_path, count=1)
    path.write_bytes(b"GIF89a")
    with pytest.raises(ValueError, match="sample_000.png: damaged PNG"):
        read(tmp_path, count=1)


def test_png_bomb_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a" / "sample_000.png"
    save_png(path, np.zeros((100, 100), np.uint8))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match="sample_000.png: refused"):
        read(tmp_path, count=1)


def test_only_integer_stacks_are_written(tmp_path):
    with pytest.raises(ValueError, match=r"a: samples are float64\[5, 4, 6\]"):
        sample_files.write(tmp_path, "a", SAMPLES / 2)
    with pytest.raises(ValueError, match=r"uint8\[4, 6\]; expected integers"):
        sample_files.write(tmp_path, "a", SAMPLES[0])


def test_fingerprint_follows_the_content(tmp_path):
    def fingerprint():
        return sample_files.fingerprint(sample_files.find(tmp_path, ["a", "b"]))

    sample_files.write(tmp_path, "a", SAMPLES)
    save_png(tmp_path / "b" / "sample_000.png", SAMPLES[0])
    first = fingerprint()
    assert fingerprint() == first
    sample_files.write(tmp_path, "a", 1 - SAMPLES)
    second = fingerprint()
    save_png(tmp_path / "b" / "sample_000.png", SAMPLES[1])
    assert len({first, second, fingerprint()}) == 3


@pytest.fixture
def lesion_data(tmp_path):
    """Two test images and one for validation, with four graders each."""
    spec = datasets.spec(class_names=("none", "lesion"))
    labels = np.zeros((4, 8, 8), np.uint8)
    labels[0, :2] = 1
    examples = [datasets.example(i, labels=labels) for i in range(3)]
    splits = {"test": examples[:2], "val": examples[2:]}
    return datasets.write(tmp_path / "data", splits, spec), labels


def evaluated(tmp_path, info):
    config = evaluate.EvaluationConfig(
        data_dir=str(info.data_dir),
        out_dir=str(tmp_path / "out"),
        samples_dir=str(tmp_path / "samples"),
        num_samples=(4,),
        overwrite=True,
    )
    return evaluate.evaluate(config)


def test_scoring_files(tmp_path, lesion_data):
    info, labels = lesion_data
    for i in range(2):
        sample_files.write(tmp_path / "samples", f"key-{i:03d}", labels)
    results = evaluated(tmp_path, info)
    assert results["ged"]["4"]["mean"] == pytest.approx(0)
    assert results["model"]["source"] == "samples_dir"
    assert "no samples of the split 'val'" in results["notes"][0]
    sample_files.write(tmp_path / "samples", "key-002", labels)
    results = evaluated(tmp_path, info)
    assert (results["notes"], results["ambiguity"]["validation_images"]) == ([], 1)


def test_a_missing_key_stops_the_evaluation(tmp_path, lesion_data):
    info, labels = lesion_data
    sample_files.write(tmp_path / "samples", "key-000", labels)
    with pytest.raises(FileNotFoundError, match="key-001: no samples"):
        evaluated(tmp_path, info)
