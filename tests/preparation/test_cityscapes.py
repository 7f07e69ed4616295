"""Cityscapes from raw PNGs to records and on to calibration, on the street phantom."""

from __future__ import annotations

import os
import pathlib
import shutil

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from helpers import png

from tf_probunet.dataset import cityscapes_labels, records
from tf_probunet.evaluation.metrics import switched_calibration, switched_modes
from tf_probunet.preparation import cityscapes, street_phantom

AACHEN = "train/aachen/aachen_000000_000019"


@pytest.fixture(scope="module")
def raw_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cityscapes")
    street_phantom.write(folder, images_per_city=1)
    return folder


@pytest.fixture
def raw(raw_once, tmp_path):
    """A folder of eight raw images that a test may damage."""
    return pathlib.Path(shutil.copytree(raw_once, tmp_path / "raw"))


def image_path(raw, name=AACHEN):
    return raw / "leftImg8bit" / f"{name}_leftImg8bit.png"


def labels_path(raw, name=AACHEN):
    return raw / "gtFine" / f"{name}_gtFine_labelIds.png"


def save(array, path):
    PIL.Image.fromarray(array).save(path)


def read_split(data_dir, split):
    """Examples by key: group, image [H, W, 3] and labels [H, W]."""
    info = records.read_info(data_dir)
    examples = {}
    for serialized in tf.data.TFRecordDataset(info.shard_paths(split)):
        parsed = records.parse(serialized, info.spec)
        examples[parsed["key"].numpy().decode()] = (
            parsed["group"].numpy().decode(),
            records.decode_image(parsed["image"], info.spec).numpy(),
            records.decode_labels(parsed["labels"][0], info.spec).numpy(),
        )
    return examples


def prepare(raw, out_dir, **options):
    return cityscapes.prepare(raw, out_dir, num_workers=1, **options)


def test_records_hold_the_raw_pixels(raw, tmp_path):
    report = prepare(raw, tmp_path / "out")
    assert report["splits"] == {
        "train": {"examples": 3, "groups": 3},
        "val": {"examples": 3, "groups": 3},
        "test": {"examples": 2, "groups": 2},
    }
    assert report["problems"] == {}
    group, image, labels = read_split(tmp_path / "out", "train")["aachen_000000_000019"]
    assert group == "aachen"
    np.testing.assert_array_equal(image, np.asarray(PIL.Image.open(image_path(raw))))
    ids = np.asarray(PIL.Image.open(labels_path(raw)))
    np.testing.assert_array_equal(labels, cityscapes_labels.to_train_ids(ids))
    spec = records.read_info(tmp_path / "out").spec
    assert spec.class_names == cityscapes_labels.TRAIN_CLASS_NAMES
    assert (spec.num_graders, spec.ignore_label) == (1, 255)


def test_splits_follow_the_cities(raw, tmp_path):
    prepare(raw, tmp_path / "out")
    cities = {
        split: {group for group, _, _ in read_split(tmp_path / "out", split).values()}
        for split in ("train", "val", "test")
    }
    assert cities == {
        "train": {"aachen", "bochum", "hamburg"},
        "val": {"darmstadt", "monchengladbach", "ulm"},
        "test": {"frankfurt", "lindau"},
    }


def test_split_rules():
    assert cityscapes.split_of("train", "aachen") == "train"
    assert cityscapes.split_of("train", "ulm") == "val"
    assert cityscapes.split_of("val", "munster") == "test"


def test_full_resolution_is_averaged_and_labels_keep_their_values(raw, tmp_path):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (1024, 2048, 3), np.uint8)
    ids = rng.integers(0, 34, (1024, 2048), np.uint8)
    save(image, image_path(raw))
    save(ids, labels_path(raw))
    prepare(raw, tmp_path / "out")
    _, small, labels = read_split(tmp_path / "out", "train")["aachen_000000_000019"]
    blocks = image.reshape(256, 4, 512, 4, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(small, blocks, atol=0.51)
    # Nearest to the centre of each block of 4 x 4.
    expected = cityscapes_labels.to_train_ids(ids[2::4, 2::4])
    np.testing.assert_array_equal(labels, expected)


def test_second_run_gives_the_same_bytes_with_more_workers(raw, tmp_path):
    prepare(raw, tmp_path / "a")
    cityscapes.prepare(raw, tmp_path / "b", num_workers=2)
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "b").iterdir())
    for name in names:
        first, second = tmp_path / "a" / name, tmp_path / "b" / name
        assert first.read_bytes() == second.read_bytes(), name


def truncate(path):
    path.write_bytes(path.read_bytes()[:-2000])


def flip_bytes(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "which, damage, reason, detail",
    [
        (labels_path, pathlib.Path.unlink, "missing label file", "expected gtFine/"),
        (image_path, pathlib.Path.unlink, "label file without image", ""),
        (image_path, truncate, "unreadable PNG", "truncated"),
        (labels_path, truncate, "unreadable PNG", ""),
        (image_path, flip_bytes, "unreadable PNG", ""),
        (image_path, lambda p: p.write_bytes(b""), "unreadable PNG", "cannot identify"),
        (labels_path, lambda p: p.write_text("oops"), "unreadable PNG", "identify"),
        (
            image_path,
            lambda p: save(np.zeros((128, 256, 3), np.uint8), p),
            "wrong size",
            "256x128, expected 2048x1024 or 512x256",
        ),
        (
            labels_path,
            lambda p: save(np.zeros((1024, 2048), np.uint8), p),
            "wrong size",
            "2048x1024, expected 512x256",
        ),
        (
            image_path,
            lambda p: save(np.zeros((256, 512), np.uint8), p),
            "wrong pixel format",
            "L, expected RGB",
        ),
        (
            labels_path,
            lambda p: save(np.zeros((256, 512), np.uint16), p),
            "wrong pixel format",
            "I;16, expected L",
        ),
    ],
)
def test_unusable_files_are_skipped_with_a_reason(
    raw, tmp_path, which, damage, reason, detail
):
    damage(which(raw))
    report = prepare(raw, tmp_path / "out")
    assert list(report["problems"]) == [reason]
    (problem,) = report["problems"][reason]
    assert "aachen_000000_000019" in problem["where"]
    assert detail in problem["detail"]
    assert report["splits"]["train"]["examples"] == 2
    with pytest.raises(ValueError, match=f"aachen_000000_000019.*{reason}"):
        prepare(raw, tmp_path / "strict", strict=True)


def test_values_that_pillow_would_change_are_refused(raw, tmp_path):
    colours = np.full((256, 512, 3), 300)
    image_path(raw).write_bytes(png.encode(colours, bits=16, color_type=2))
    other = "train/bochum/bochum_000000_000019"
    greys = np.full((256, 512, 1), 7)
    labels_path(raw, other).write_bytes(png.encode(greys, bits=4, color_type=0))
    report = prepare(raw, tmp_path / "out")
    problems = report["problems"]["wrong pixel format"]
    assert [problem["detail"] for problem in problems] == [
        "L;4, expected L of 8 bits",
        "RGB;16B, expected RGB of 8 bits",
    ]


def test_interpolated_label_maps_are_reported(raw, tmp_path):
    ids = street_phantom.draw_scene(np.random.default_rng(0), 512, 1024)[1]
    resize = PIL.Image.fromarray(ids).resize
    resize((512, 256), PIL.Image.BILINEAR).save(labels_path(raw))
    report = prepare(raw, tmp_path / "out")
    assert report["splits"]["train"]["examples"] == 3  # It is used all the same.
    (problem,) = report["problems"].pop("label map that looks interpolated")
    assert problem["where"].startswith(f"gtFine/{AACHEN}")
    assert "expected at most 5%" in problem["detail"]
    assert report["problems"] == {}
    with pytest.raises(ValueError, match=f"{AACHEN}.*looks interpolated"):
        prepare(raw, tmp_path / "strict", strict=True)


def test_interpolation_is_told_from_thin_things():
    full = street_phantom.draw_scene(np.random.default_rng(0), 1024, 2048)[1]
    small = PIL.Image.fromarray(full).resize((512, 256), PIL.Image.NEAREST)
    for sound in (full, np.asarray(small)):
        assert cityscapes.blended_share(sound) < 0.01
    for method in ("BILINEAR", "HAMMING", "BICUBIC", "LANCZOS"):
        method = getattr(PIL.Image, method)
        reduced = PIL.Image.fromarray(full).resize((512, 256), method)
        enlarged = small.resize((2048, 1024), method)
        for damaged in (reduced, enlarged):
            assert cityscapes.blended_share(np.asarray(damaged)) > 0.2
    # Without smoothing, as by OpenCV: the mean of the four pixels in the middle.
    middle = full.reshape(256, 4, 512, 4)[:, 1:3, :, 1:3].mean(axis=(1, 3))
    assert cityscapes.blended_share(np.rint(middle).astype(np.uint8)) > 0.09


def test_ids_between_those_of_the_neighbours_by_hand():
    sound = np.array([[7, 7, 7, 23, 23]] * 3, np.uint8)
    assert cityscapes.blended_share(sound) == 0
    blended = np.array([[7, 7, 15, 23, 23]] * 3, np.uint8)
    # In a row the second, third and fourth pixel have different neighbours.
    assert cityscapes.blended_share(blended) == pytest.approx(1 / 3)
    assert cityscapes.blended_share(blended.T) == pytest.approx(1 / 3)
    assert cityscapes.blended_share(blended[:, ::-1]) == pytest.approx(1 / 3)
    assert cityscapes.blended_share(np.zeros((4, 4), np.uint8)) == 0


def test_an_empty_split_comes_with_the_reasons(raw, tmp_path):
    for city in ("aachen", "bochum", "hamburg"):
        truncate(image_path(raw, f"train/{city}/{city}_000000_000019"))
    (raw / "gtFine/train/ulm/ulm_000000_000019_gtFine_labelIds.png").unlink()
    with pytest.raises(ValueError) as caught:
        prepare(raw, tmp_path / "out")
    text = str(caught.value)
    assert text.startswith(
        "split 'train' would be empty; 4 problems: 3 x unreadable PN"
    )
    assert f"the first leftImg8bit/{AACHEN}_leftImg8bit.png (" in text
    assert "; 1 x missing label file, the first leftImg8bit/train/ulm/ulm" in text


def test_what_is_not_read_or_not_official_is_mentioned(raw, tmp_path):
    for split in ("test", "train_extra"):
        shutil.copytree(raw / "leftImg8bit/val", raw / "leftImg8bit" / split)
    for kind in ("leftImg8bit", "gtFine"):
        (raw / kind / "train/aachen").rename(raw / kind / "train/atlantis")
        (raw / kind / "train/bochum").rename(raw / kind / "train/munster")
    report = prepare(raw, tmp_path / "out", strict=True)
    assert report["splits"]["train"]["examples"] == 3
    assert report["problems"] == {
        "folder not read": [
            {
                "where": f"leftImg8bit/{split}",
                "detail": "2 PNG files; expected train and val, the folders with "
                "public fine labels",
            }
            for split in ("test", "train_extra")
        ],
        "no official city of this folder": [
            {"where": "leftImg8bit/train/atlantis", "detail": "used for train"},
            {
                "where": "leftImg8bit/train/munster",
                "detail": "officially in val, used for train",
            },
        ],
    }


def test_unknown_ids_are_ignored_and_counted(raw, tmp_path):
    ids = np.full((256, 512), 7, np.uint8)
    ids[:10] = 200
    save(ids, labels_path(raw))
    report = prepare(raw, tmp_path / "out")
    labels = read_split(tmp_path / "out", "train")["aachen_000000_000019"][2]
    assert (labels[:10] == 255).all() and (labels[10:] == 0).all()
    assert list(report["counts"].values()) == [1]


def test_missing_folders_are_named(raw, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/leftImg8bit/train: no such"):
        cityscapes.find_pairs(tmp_path / "nowhere")
    shutil.rmtree(raw / "gtFine" / "val")
    with pytest.raises(FileNotFoundError, match="gtFine/val: no such folder"):
        cityscapes.find_pairs(raw)
    (raw / "gtFine" / "val").mkdir()
    shutil.rmtree(raw / "leftImg8bit" / "val")
    (raw / "leftImg8bit" / "val").mkdir()
    with pytest.raises(FileNotFoundError, match="leftImg8bit/val: no <city>"):
        cityscapes.find_pairs(raw)


def test_counts_are_compared_with_the_full_data_set():
    full = {"train": 2701, "val": 274, "test": 500}
    splits = {name: {"examples": number} for name, number in full.items()}
    assert cityscapes.count_notes(splits) == [
        "counts are those of the full data set: train 2701, val 274, test 500"
    ]
    splits["val"] = {"examples": 273}
    assert cityscapes.count_notes(splits) == [
        "note: val has 273 images, the full data set has 274"
    ]


def test_perfect_samples_of_prepared_scenes_are_calibrated(raw, tmp_path):
    """Raw PNGs to calibration: a model that draws the modes, with a few errors."""
    prepare(raw, tmp_path / "out")
    rng = np.random.default_rng(0)
    modes, pixels, energies, floors = np.zeros(32), np.zeros((24, 19)), [], []
    for _, _, labels in read_split(tmp_path / "out", "test").values():
        for _ in range(25):
            drawn = rng.choice(32, 16, p=cityscapes_labels.MODE_PROBABILITIES)
            samples = np.stack(
                [cityscapes_labels.switch_table(m)[labels] for m in drawn]
            )
            samples[:, :8] = 10
            score = switched_modes.score_image(samples, labels)
            modes, pixels = modes + score.mode_counts, pixels + score.pixel_counts
            energies.append(score.energy_distances[16])
            floors.append(score.floors[16])
    result = switched_calibration.mode_calibration(modes)
    assert modes.sum() == pytest.approx(2 * 25 * 16)
    # 2 N KL is about chi-squared with 31 degrees of freedom; its 1e-6 tail is at 84.
    assert 2 * modes.sum() * result.kl_divergence < 84
    # 800 draws of a flip: six standard errors.
    flipped = switched_calibration.pixel_calibration(pixels).frequencies[:, 1]
    np.testing.assert_allclose(flipped, np.arange(8, 3, -1) / 17, atol=0.107)
    assert np.mean(energies) == pytest.approx(np.mean(floors), rel=0.25)


def test_resumed_run_uses_no_part_of_labels_that_changed(raw, tmp_path, monkeypatch):
    path = labels_path(raw)
    ids = np.asarray(PIL.Image.open(path))
    PIL.Image.fromarray(ids).save(path, compress_level=0)
    original, done = cityscapes._process, []

    def interrupted(unit, root):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(unit.name)
        return original(unit, root)

    monkeypatch.setattr(cityscapes, "_process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(raw, tmp_path / "out")
    monkeypatch.undo()
    assert "aachen_000000_000019" in done
    size, changed = path.stat().st_size, np.where(ids == 7, 8, ids).astype(np.uint8)
    PIL.Image.fromarray(changed).save(path, compress_level=0)
    assert path.stat().st_size == size and (changed != ids).any()
    prepare(raw, tmp_path / "out")
    _, _, labels = read_split(tmp_path / "out", "train")["aachen_000000_000019"]
    np.testing.assert_array_equal(labels, cityscapes_labels.to_train_ids(changed))


def test_links_pipes_and_odd_names_stop_nothing(raw, tmp_path):
    moved = (raw / "leftImg8bit" / "train" / "aachen").rename(tmp_path / "aachen")
    (raw / "leftImg8bit" / "train" / "aachen").symlink_to(moved)
    labels_path(raw).unlink()
    os.mkfifo(labels_path(raw))
    os.makedirs(os.fsencode(raw) + b"/gtFine/train/M\xfcnster")
    report = prepare(raw, tmp_path / "out")
    assert report["splits"]["train"]["examples"] == 2
    for reason, where in [
        ("name that is not UTF-8", "gtFine/train/M\\xfcnster"),
        ("not a regular file", labels_path(raw).relative_to(raw).as_posix()),
        ("missing label file", image_path(raw).relative_to(raw).as_posix()),
    ]:
        (problem,) = report["problems"][reason]
        assert problem["where"] == where


def test_preview(raw, tmp_path):
    prepare(raw, tmp_path / "out", num_preview=2)
    sheet = np.asarray(PIL.Image.open(tmp_path / "out" / "preview.png"))
    # Two frames side by side; the names of the classes are above them.
    assert sheet.shape[1] == 2 * 512 and sheet.shape[0] > 256 + 2 * 14 - 1
    seen = {tuple(color) for color in sheet[-256:].reshape(-1, 3).tolist()}
    assert tuple(cityscapes_labels.COLORS[0].tolist()) in seen  # road
