import os

import numpy as np
import PIL.Image
import pytest

from tf_probunet.preparation.lidc import pngs
from tf_probunet.preparation.runner import Unit


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(np.asarray(values, np.uint8)).save(path)


def grey(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (size, size), np.uint8)


def mask(size, area, value=255):
    """A mask of the first `area` pixels."""
    values = np.zeros(size * size, np.uint8)
    values[:area] = value
    return values.reshape(size, size)


def write_slice(nodule, number, areas, seed=0):
    save(nodule / "images" / f"slice-{number}.png", grey(128, seed))
    for k, area in enumerate(areas):
        save(nodule / f"mask-{k}" / f"slice-{number}.png", mask(128, area))


def write_crop(split_dir, patient, name, areas, seed=0):
    save(split_dir / "images" / patient / f"{name}.png", grey(180, seed))
    for k, area in enumerate(areas):
        # Here with value 1 for the lesion: both habits are read.
        save(split_dir / "gt" / patient / f"{name}_l{k}.png", mask(180, area, 1))


def process(source):
    results = [source.process(Unit(i.name, ("val", i.task))) for i in source.items]
    examples = [e for result in results for _, e in result.examples]
    problems = [p for result in results for p in result.problems]
    return {e.key: e for e in examples}, problems


@pytest.mark.parametrize("above", [False, True])
def test_slices(tmp_path, above):
    root = tmp_path / "LIDC-IDRI-slices"
    write_slice(root / "LIDC-IDRI-0002" / "nodule-0", 0, [5, 0, 7, 0], seed=1)
    write_slice(root / "LIDC-IDRI-0002" / "nodule-10", 3, [1, 2, 3, 4])
    write_slice(root / "LIDC-IDRI-0001" / "nodule-0", 0, [0, 0, 0, 9])
    source = pngs.slices_source(tmp_path if above else root)
    assert source.groups == ["LIDC-IDRI-0001", "LIDC-IDRI-0002"]
    assert source.splits is None and source.image_size == 128
    assert source.counts == {"image files": 3}
    examples, problems = process(source)
    assert problems == []
    assert sorted(examples) == [
        "LIDC-IDRI-0001_nodule-0_slice-0",
        "LIDC-IDRI-0002_nodule-0_slice-0",
        "LIDC-IDRI-0002_nodule-10_slice-3",
    ]
    example = examples["LIDC-IDRI-0002_nodule-0_slice-0"]
    assert example.group == "LIDC-IDRI-0002"
    np.testing.assert_array_equal(example.image[..., 0], grey(128, 1))
    np.testing.assert_array_equal(example.labels[2], mask(128, 7, 1))
    assert example.labels.sum(axis=(1, 2)).tolist() == [5, 0, 7, 0]
    assert example.spacing_mm is None


def test_four_empty_masks_are_dropped_and_counted(tmp_path):
    write_slice(tmp_path / "p" / "nodule-0", 0, [0, 0, 0, 0])
    write_slice(tmp_path / "p" / "nodule-0", 1, [0, 1, 0, 1])
    (item,) = pngs.slices_source(tmp_path).items
    result = pngs.process_patient(Unit("p", ("train", item.task)))
    assert [e.key for _, e in result.examples] == ["p_nodule-0_slice-1"]
    assert [(p.reason, p.where, p.expected) for p in result.problems] == [
        ("image with four empty masks", "p_nodule-0_slice-0", True)
    ]
    assert result.counts == {"images marked by 2 of 4 graders": 1}


def truncate(path):
    path.write_bytes(path.read_bytes()[:-60])


@pytest.mark.parametrize(
    ("spoil", "reason", "text"),
    [
        (lambda p: p.unlink(), "file missing", "p/nodule-0/mask-2/slice-0.png"),
        (truncate, "unusable file", "mask-2/slice-0.png: damaged PNG"),
        (lambda p: p.write_text("no PNG"), "unusable file", "damaged PNG"),
        (lambda p: p.write_bytes(b""), "unusable file", "damaged PNG"),
        (
            lambda p: save(p, mask(64, 5)),
            "unusable file",
            "64 x 64 pixels, expected 128 x 128",
        ),
        (
            lambda p: save(p, grey(128)),
            "unusable file",
            "256 grey values from 0 to 255, expected a mask of 0 and one other value",
        ),
        (
            lambda p: save(p, np.zeros((128, 128, 3))),
            "unusable file",
            "PNG of mode 'RGB', expected 8-bit grey",
        ),
    ],
)
def test_bad_masks_are_named(tmp_path, spoil, reason, text):
    for number in (0, 1):
        write_slice(tmp_path / "p" / "nodule-0", number, [3, 3, 3, 3])
    spoil(tmp_path / "p" / "nodule-0" / "mask-2" / "slice-0.png")
    examples, (problem,) = process(pngs.slices_source(tmp_path))
    assert list(examples) == ["p_nodule-0_slice-1"]
    assert problem.reason == reason and not problem.expected
    assert text in str(problem)


def test_flipped_bytes_never_stop_the_run(tmp_path):
    write_slice(tmp_path / "p" / "nodule-0", 0, [3, 3, 3, 3])
    path = tmp_path / "p" / "nodule-0" / "mask-1" / "slice-0.png"
    whole = path.read_bytes()
    source = pngs.slices_source(tmp_path)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(bytes(damaged))
        examples, problems = process(source)
        assert len(examples) + len(problems) == 1


def test_crops_keep_their_split(tmp_path):
    write_crop(tmp_path / "train", "LIDC-IDRI-0001", "z-105.0_c0", [4, 0, 0, 1], 3)
    write_crop(tmp_path / "train", "LIDC-IDRI-0003", "z-1.0_c1", [1, 1, 1, 1])
    write_crop(tmp_path / "test", "LIDC-IDRI-0002", "z-105.0_c0", [0, 2, 0, 0])
    source = pngs.crops_source(tmp_path)
    assert source.splits == {
        "train": ["LIDC-IDRI-0001", "LIDC-IDRI-0003"],
        "val": [],
        "test": ["LIDC-IDRI-0002"],
    }
    assert source.image_size == 180
    examples, problems = process(source)
    assert problems == []
    example = examples["LIDC-IDRI-0001_z-105.0_c0"]
    np.testing.assert_array_equal(example.image[..., 0], grey(180, 3))
    assert example.labels.sum(axis=(1, 2)).tolist() == [4, 0, 0, 1]
    assert len(examples) == 3


def test_missing_crop_mask_is_named(tmp_path):
    write_crop(tmp_path / "train", "p", "z1_c0", [4, 0, 0])
    examples, (problem,) = process(pngs.crops_source(tmp_path))
    assert examples == {}
    assert str(problem) == "train/gt/p/z1_c0_l3.png: file missing"


@pytest.mark.parametrize(
    ("find", "name"),
    [(pngs.slices_source, "png_slices"), (pngs.crops_source, "crops")],
)
def test_other_layouts_are_refused(tmp_path, find, name):
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        find(tmp_path / "nowhere")
    save(tmp_path / "images" / "a.png", grey(128))
    with pytest.raises(ValueError, match=f"found, as expected of --format={name}"):
        find(tmp_path)


def test_content_changes_with_the_input(tmp_path):
    write_slice(tmp_path / "p" / "nodule-0", 0, [3, 3, 3, 3])
    first = pngs.slices_source(tmp_path).content
    assert pngs.slices_source(tmp_path).content == first
    write_slice(tmp_path / "p" / "nodule-0", 1, [3, 3, 3, 3])
    assert pngs.slices_source(tmp_path).content != first


def test_links_pipes_and_odd_names(tmp_path):
    root, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    write_slice(elsewhere / "nodule-0", 0, [1, 2, 3, 4])
    write_slice(root / "p2" / "nodule-0", 0, [1, 2, 3, 4])
    write_slice(root / "p2" / "nodule-0", 1, [1, 2, 3, 4])
    (root / "p1").symlink_to(elsewhere)
    os.mkfifo(root / "p2" / "nodule-0" / "images" / "slice-9.png")
    mask_file = root / "p2" / "nodule-0" / "mask-3" / "slice-1.png"
    mask_file.unlink()
    os.mkfifo(mask_file)
    (root / "p2" / "nodule-0" / "images" / "slice-8.png").symlink_to("nowhere")
    strange = os.fsencode(root) + b"/M\xfcller/nodule-0/images"
    os.makedirs(strange)
    source = pngs.slices_source(root)
    assert source.groups == ["p1", "p2"]
    assert [(p.reason, p.where) for p in source.problems] == [
        ("name that is not UTF-8", "M\\xfcller"),
        ("unreadable link", "p2/nodule-0/images/slice-8.png"),
        ("not a regular file", "p2/nodule-0/images/slice-9.png"),
        ("not a regular file", "p2/nodule-0/mask-3/slice-1.png"),
    ]
    examples, problems = process(source)
    assert sorted(examples) == ["p1_nodule-0_slice-0", "p2_nodule-0_slice-0"]
    (problem,) = problems
    assert problem.where == "p2/nodule-0/images/slice-1.png"
    assert "a pipe or a device, expected a regular file" in problem.detail


def test_archive_is_to_be_unpacked(tmp_path):
    (tmp_path / "slices.zip").write_text("x")
    for find in (pngs.slices_source, pngs.crops_source):
        with pytest.raises(
            ValueError, match="slices.zip: a file, expected a directory"
        ):
            find(tmp_path / "slices.zip")
