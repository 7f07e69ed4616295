"""From trees of files to records: exact pixels, splits, and files one by one."""

from __future__ import annotations

import json
import pathlib

import nibabel
import numpy as np
import pytest
from helpers import dicom_writer, folders

from tf_probunet.dataset import records
from tf_probunet.preparation.folder import prepare as module
from tf_probunet.preparation.folder.config import FolderConfig
from tf_probunet.preparation.runner import report_text


def _bytes(directory: pathlib.Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir()}


def test_records_hold_the_pixels(tmp_path):
    root, said = folders.tree(tmp_path / "in"), []
    # One image is larger and has a third grader.
    folders.save(root / "images/im_3.png", folders.picture(3, 20, 30))
    for g in range(3):
        mask = folders.mask(30 + g, height=20, width=30)
        folders.save(root / f"masks/im_3_g{g}.png", mask)
    report = folders.prepare(root, tmp_path / "out", say=said.append, num_preview=4)
    examples = folders.read(tmp_path / "out")
    assert len(examples) == 6 and report["problems"] == {}
    for i in range(6):
        size = (20, 30) if i == 3 else (12, 16)
        found = examples[f"im_{i}"]
        np.testing.assert_array_equal(found.image, folders.picture(i, *size))
        expected = [
            folders.mask(10 * i + g, 1, *size) for g in range(3 if i == 3 else 2)
        ]
        np.testing.assert_array_equal(found.labels, expected)
        assert found.group == f"im_{i}"
    spec = records.read_info(tmp_path / "out").spec
    assert spec.image_shape == (20, 30, 3) and spec.smallest_size == (12, 16)
    assert (spec.fewest_graders, spec.num_graders) == (2, 3)
    assert spec.class_names == ("background", "foreground")
    assert report["counts"] == {"empty masks": 0, "masks": 13}
    assert said == [
        "layout grader_suffixes: images/NAME.png with masks/NAME_GRADER.png; 6 images, "
        "13 masks by g0, g1, g2",
        "classes: 0 background, 1 foreground",
        "intensities: RGB, 8-bit values as they are",
        "groups in splits: train 4, val 1, test 1 (by a salted hash of the groups)",
    ]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| graders per image | 2 to 3 |" in card
    assert "| size in pixels | 12×16 to 20×30, 3 channels |" in card
    assert (tmp_path / "out" / "preview.png").stat().st_size > 1000


def test_same_bytes_with_other_workers_and_places(tmp_path):
    folders.prepare(folders.tree(tmp_path / "a"), tmp_path / "out_a")
    module.prepare(folders.tree(tmp_path / "b"), tmp_path / "out_b", num_workers=2)
    assert _bytes(tmp_path / "out_a") == _bytes(tmp_path / "out_b")


def test_resumes(tmp_path, monkeypatch):
    root = folders.tree(tmp_path / "in")
    folders.prepare(root, tmp_path / "whole")
    process, calls = module.process, []

    def stop_after_two(unit, recipe):
        calls.append(unit.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return process(unit, recipe)

    monkeypatch.setattr(module, "process", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        folders.prepare(root, tmp_path / "out")
    assert not (tmp_path / "out" / records.INFO_NAME).exists()
    folders.prepare(root, tmp_path / "out")
    # The third is done again, the first two are not.
    assert len(calls) == 3 + 4
    assert _bytes(tmp_path / "out") == _bytes(tmp_path / "whole")


def test_resumes_after_a_corrected_list(tmp_path, monkeypatch):
    root, process = folders.tree(tmp_path / "in"), module.process

    def write_list(first, second):
        name = "masks/im_{}_g{}.png"
        rows = [
            f"images/im_{i}.png,{name.format(i, first)},{name.format(i, second)}"
            for i in range(6)
        ]
        lines = ["image,mask_1,mask_2", *rows]
        (root / "manifest.csv").write_text("\n".join(lines) + "\n")

    def stop_at_the_last(unit, recipe):
        if "im_5" in unit.name:
            raise KeyboardInterrupt
        return process(unit, recipe)

    monkeypatch.setattr(module, "process", stop_at_the_last)
    write_list(1, 0)
    with pytest.raises(KeyboardInterrupt):
        folders.prepare(root, tmp_path / "out")
    monkeypatch.undo()
    write_list(0, 1)
    folders.prepare(root, tmp_path / "out")
    folders.prepare(root, tmp_path / "whole")
    assert _bytes(tmp_path / "out") == _bytes(tmp_path / "whole")


def test_bad_files_one_by_one(tmp_path):
    root = folders.tree(tmp_path / "in", images=9)
    (root / "images/im_0.png").write_bytes(b"no picture")
    (root / "masks/im_1_g1.png").write_bytes(b"no picture")
    folders.save(root / "masks/im_2_g0.png", folders.mask(1, height=16, width=12))
    folders.save(root / "masks/im_3_g0.png", folders.picture(1)[..., 0])
    for g in range(2):
        (root / f"masks/im_4_g{g}.png").unlink()
    np.save(root / "masks/im_5_g2.npy", np.full((12, 16), 0.5))
    report = folders.prepare(root, tmp_path / "out")
    examples = folders.read(tmp_path / "out")
    assert {key: len(e.labels) for key, e in examples.items()} == {
        **{"im_1": 1, "im_2": 1, "im_3": 1, "im_5": 2},
        **{"im_6": 2, "im_7": 2, "im_8": 2},
    }
    problems = {
        (reason, p["where"]): p["detail"]
        for reason, found in report["problems"].items()
        for p in found
    }
    assert problems == {
        ("image without a mask", "images/im_4.png"): "",
        ("unusable image", "images/im_0.png"): (
            "expected a PNG, TIFF, JPEG or BMP picture"
        ),
        ("unusable mask", "masks/im_1_g1.png"): (
            "expected a PNG, TIFF, JPEG or BMP picture"
        ),
        ("unusable mask", "masks/im_3_g0.png"): problems[
            "unusable mask", "masks/im_3_g0.png"
        ],
        ("unusable mask", "masks/im_5_g2.npy"): (
            "a mask with fractions such as 0.5, expected whole numbers; "
            "--mask_threshold=0.5 makes it binary"
        ),
        ("size mismatch", "masks/im_2_g0.png"): (
            "16x12, expected 12x16 as in images/im_2.png"
        ),
    }
    assert "different values" in problems["unusable mask", "masks/im_3_g0.png"]
    assert str(tmp_path) not in report_text(report)
    with pytest.raises(ValueError, match="im_4.png: image without a mask"):
        folders.prepare(root, tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


def test_classes_by_colour_and_unknown_colours(tmp_path):
    root = folders.tree(tmp_path / "in", graders=0)
    colors = np.array([(0, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
    labels = np.zeros((12, 16), np.uint8)
    labels[2:9, 2:9], labels[4:6, 4:6] = 1, 2
    for i in range(6):
        for g in range(2):
            folders.save(root / f"masks/im_{i}_g{g}.png", colors[labels])
    odd = colors[labels]
    odd[0, 0] = (1, 1, 1)
    folders.save(root / "masks/im_2_g1.png", odd)
    with pytest.raises(ValueError, match="a mask in colours .*--classes=classes.csv"):
        folders.prepare(root, tmp_path / "out")
    table = tmp_path / "classes.csv"
    table.write_text("name,color\nbackground,#000000\ndisc,#00ff00\ncup,#0000ff\n")
    report = folders.prepare(root, tmp_path / "out", classes_path=table)
    examples = folders.read(tmp_path / "out")
    np.testing.assert_array_equal(examples["im_0"].labels, [labels, labels])
    assert len(examples["im_2"].labels) == 1
    assert report["problems"] == {
        "mask of unknown classes": [
            {
                "where": "masks/im_2_g1.png",
                "detail": "#010101 in 1 pixels is of no class (1 such in this mask), "
                "expected #000000, #0000ff, #00ff00",
            }
        ]
    }
    names = records.read_info(tmp_path / "out").spec.class_names
    assert names == ("background", "disc", "cup")


def test_nested_classes_are_painted_over_each_other(tmp_path):
    root = folders.tree(tmp_path / "in", images=4, graders=0)
    disc, cup = np.zeros((2, 12, 16), np.uint8)
    disc[1:8, 1:8], cup[3:5, 3:10] = 255, 1  # Four pixels of the cup stick out.
    for i in range(4):
        for grader in ("anna", "ben"):
            folders.save(root / f"masks/{grader}/disc/im_{i}.png", disc)
            folders.save(root / f"masks/{grader}/cup/im_{i}.png", cup)
    (root / "masks/ben/cup/im_1.png").unlink()
    report = folders.prepare(
        root, tmp_path / "out", settings={"nested_classes": "disc,cup"}
    )
    examples = folders.read(tmp_path / "out")
    expected = (disc > 0).astype(int)
    expected[cup > 0] = 2
    np.testing.assert_array_equal(examples["im_0"].labels, [expected, expected])
    assert len(examples["im_1"].labels) == 1
    assert report["counts"]["pixels of cup outside of disc"] == 7 * 4
    assert report["problems"] == {
        "grader without all classes": [
            {
                "where": "images/im_1.png",
                "detail": "grader 'ben' has no usable mask of cup",
            }
        ]
    }


def test_splits_by_column(tmp_path):
    root = folders.tree(tmp_path / "in", images=4)
    rows = ["image,group,split,mask_1"]
    rows += [
        f"images/im_{i}.png,p{i // 2},{split},masks/im_{i}_g0.png"
        for i, split in enumerate(["train", "train", "test", "test"])
    ]
    (root / "manifest.csv").write_text("\n".join(rows) + "\n")
    folders.prepare(root, tmp_path / "out", settings={"val_share": 0.0})
    found = folders.read(tmp_path / "out")
    assert {key: (e.split, e.group) for key, e in found.items()} == {
        "images_im_0": ("train", "p0"),
        "images_im_1": ("train", "p0"),
        "images_im_2": ("test", "p1"),
        "images_im_3": ("test", "p1"),
    }
    splits = json.loads((tmp_path / "out" / "splits.json").read_text())
    assert splits == {"train": ["p0"], "test": ["p1"]}
    text = (root / "manifest.csv").read_text().replace("p1", "p0")
    (root / "manifest.csv").write_text(text)
    with pytest.raises(ValueError, match="'p0' is in two splits, 'train' and 'test'"):
        folders.prepare(root, tmp_path / "other")


def test_splits_by_folder_lend_groups_to_validation(tmp_path):
    for i in range(8):
        split = "train" if i < 6 else "test"
        folders.save(tmp_path / f"in/{split}/images/{i}.png", folders.picture(i))
        folders.save(tmp_path / f"in/{split}/masks/{i}_a.png", folders.mask(i))
    said = []
    folders.prepare(tmp_path / "in", tmp_path / "out", say=said.append)
    found = folders.read(tmp_path / "out")
    assert {k for k, e in found.items() if e.split == "test"} == {"6", "7"}
    assert sum(e.split == "val" for e in found.values()) == 1
    assert said[-1] == (
        "groups in splits: train 5, test 2, val 1 (as given; validation by a salted "
        "hash of the training groups)"
    )
    folders.save(tmp_path / "in/images/x.png", folders.picture(9))
    folders.save(tmp_path / "in/masks/x_a.png", folders.mask(9))
    with pytest.raises(ValueError, match=r"x.png: not in a folder of a split, but 8"):
        folders.prepare(tmp_path / "in", tmp_path / "other")


def test_splits_may_have_the_same_file_names(tmp_path):
    for i, split in enumerate(("train", "train", "val", "test")):
        folder, name = tmp_path / "in" / split, i % 2
        folders.save(folder / f"images/{name}.png", folders.picture(i))
        folders.save(folder / f"masks/{name}_a.png", folders.mask(i))
    report = folders.prepare(tmp_path / "in", tmp_path / "out")
    found = folders.read(tmp_path / "out")
    assert report["problems"] == {}
    assert {key: (e.split, e.group) for key, e in found.items()} == {
        "train_0": ("train", "train_0"),
        "train_1": ("train", "train_1"),
        "val_0": ("val", "val_0"),
        "test_1": ("test", "test_1"),
    }
    np.testing.assert_array_equal(found["val_0"].image, folders.picture(2))


def test_groups_stay_together(tmp_path):
    root = tmp_path / "in"
    for i in range(12):
        folders.save(root / f"images/p{i % 4}_{i}.png", folders.picture(i))
        folders.save(root / f"masks/p{i % 4}_{i}_a.png", folders.mask(i))
    folders.prepare(root, tmp_path / "out", settings={"group_pattern": r"/(p\d)_"})
    found = folders.read(tmp_path / "out")
    splits_of = {}
    for key, example in found.items():
        assert example.group == key[:2]
        splits_of.setdefault(example.group, set()).add(example.split)
    assert sorted(map(len, splits_of.values())) == [1, 1, 1, 1]
    assert set.union(*splits_of.values()) == {"train", "val", "test"}
    with pytest.raises(ValueError, match="p0_0.png: --group_pattern=q finds no group"):
        folders.prepare(root, tmp_path / "other", settings={"group_pattern": "q"})
    rows = [f"images/p{i % 4}_{i}.png,g{i},masks/p{i % 4}_{i}_a.png" for i in range(12)]
    path = tmp_path / "in" / "manifest.csv"
    path.write_text("\n".join(["image,group,mask_1", *rows]) + "\n")
    with pytest.raises(ValueError, match="a column 'group' and --group_pattern=p, exp"):
        folders.prepare(root, tmp_path / "other", settings={"group_pattern": "p"})


def test_folders_of_patients_are_groups(tmp_path):
    root = tmp_path / "in"
    for i in range(8):
        folders.save(root / f"data/images/p{i % 4}/{i}.png", folders.picture(i))
        folders.save(root / f"data/masks/p{i % 4}/{i}_a.png", folders.mask(i))
    folders.prepare(root, tmp_path / "out")
    groups = {key: e.group for key, e in folders.read(tmp_path / "out").items()}
    # All lie in "data", which therefore is no group.
    assert groups == {f"data_p{i % 4}_{i}": f"p{i % 4}" for i in range(8)}


def test_a_folder_around_all_images_is_no_group(tmp_path):
    folders.tree(tmp_path / "in" / "data", images=3)
    folders.prepare(tmp_path / "in", tmp_path / "out")
    groups = {e.group for e in folders.read(tmp_path / "out").values()}
    assert groups == {"data_im_0", "data_im_1", "data_im_2"}


def test_split_files(tmp_path):
    root = folders.tree(tmp_path / "in", images=3)
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"train": ["im_0"], "val": ["im_2", "im_7"]}))
    report = folders.prepare(root, tmp_path / "out", split_file=path)
    assert {k: e.split for k, e in folders.read(tmp_path / "out").items()} == {
        "im_0": "train",
        "im_2": "val",
    }
    assert set(report["problems"]) == {
        "not in the split file",
        "in the split file, but not in the data",
    }


def test_a_given_split_file_is_not_replaced(tmp_path):
    root, out = folders.tree(tmp_path / "in", images=3), tmp_path / "out"
    out.mkdir()
    text = json.dumps({"train": ["im_0", "gone"], "val": ["im_2"]})
    (out / "splits.json").write_text(text)
    folders.prepare(root, out, split_file=out / "splits.json")
    assert (out / "splits.json").read_text() == text


@pytest.mark.parametrize("name", ["README.md", "report.txt", "splits.json"])
def test_files_of_others_are_not_replaced(tmp_path, name):
    root = folders.tree(tmp_path / "in")
    (root / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name}: exists, but there is no data set"):
        folders.prepare(root, root, overwrite=True)
    assert (root / name).read_text() == "mine"
    assert not (root / ".parts").exists()


def test_split_files_need_no_validation_split(tmp_path):
    root = folders.tree(tmp_path / "in", images=3)
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"train": ["im_0", "im_2"], "test": ["im_1"]}))
    folders.prepare(root, tmp_path / "out", split_file=path)
    assert {k: e.split for k, e in folders.read(tmp_path / "out").items()} == {
        "im_0": "train",
        "im_1": "test",
        "im_2": "train",
    }


def test_pictures_as_masks_of_a_nifti_image_are_in_doubt(tmp_path):
    root = _volumes(tmp_path / "in")
    mask = _array(root / "c0/seg_1.nii.gz")
    (root / "c0/seg_1.nii.gz").unlink()
    np.save(root / "c0/seg_1.npy", mask.transpose(2, 1, 0))
    report = folders.prepare(root, tmp_path / "out")
    (problem,) = report["problems"]["masks without an orientation"]
    assert problem["where"] == "c0/image.nii.gz"
    found = folders.read(tmp_path / "out")["c0_003"].labels[1]
    np.testing.assert_array_equal(found, mask[:, :, 3].T)


def test_too_few_groups(tmp_path):
    root = folders.tree(tmp_path / "in", images=2)
    with pytest.raises(ValueError, match="2 groups, of which 1 .* expected at least 3"):
        folders.prepare(root, tmp_path / "out")


def _nifti(path, array, affine=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(
        nibabel.Nifti1Image(array, np.eye(4) if affine is None else affine), path
    )


def _volumes(root, cases=3):
    """CT volumes [x, y, z] of 6 x 5 x 4 voxels, and two masks each."""
    affine = np.diag([-0.5, -0.7, 2.0, 1.0])
    rng = np.random.default_rng(0)
    for c in range(cases):
        volume = rng.integers(-1000, 1000, (6, 5, 4)).astype(np.int16)
        _nifti(root / f"c{c}/image.nii.gz", volume, affine)
        for g in range(2):
            mask = (rng.random((6, 5, 4)) > 0.5).astype(np.float32)
            mask[:, :, 1] = 0
            _nifti(root / f"c{c}/seg_{g}.nii.gz", mask, affine)
    return root


def _array(path):
    return np.asarray(nibabel.load(path).dataobj)


@pytest.mark.parametrize(
    ("axis", "number", "cut"),
    [
        ("auto", 4, lambda v, i: v[:, :, i].T),
        ("axial", 4, lambda v, i: v[:, :, i].T),
        # Rows run downwards, from the head: against z.
        ("coronal", 5, lambda v, i: v[:, i, ::-1].T),
        ("sagittal", 6, lambda v, i: v[i, :, ::-1].T),
    ],
)
def test_volumes_are_cut(tmp_path, axis, number, cut):
    root = _volumes(tmp_path / "in")
    folders.prepare(root, tmp_path / "out", settings={"slice_axis": axis})
    found = folders.read(tmp_path / "out")
    assert len(found) == 3 * number
    image = _array(root / "c1/image.nii.gz")
    masks = [_array(root / f"c1/seg_{g}.nii.gz") for g in range(2)]
    for i in range(number):
        example = found[f"c1_{i:03d}"]
        assert example.group == "c1"
        np.testing.assert_array_equal(example.image[..., 0], cut(image, i))
        np.testing.assert_array_equal(example.labels, [cut(m, i) for m in masks])
    spacing = {"coronal": (2.0, 0.5), "sagittal": (2.0, 0.7)}.get(axis, (0.7, 0.5))
    np.testing.assert_allclose(found["c1_000"].spacing_mm, spacing, rtol=1e-6)
    assert records.read_info(tmp_path / "out").spec.intensity == "hu"


def test_empty_slices_can_be_left_out(tmp_path):
    root = _volumes(tmp_path / "in")
    report = folders.prepare(root, tmp_path / "out", settings={"drop_empty": True})
    assert set(folders.read(tmp_path / "out")) == {
        f"c{c}_{i:03d}" for c in range(3) for i in (0, 2, 3)
    }
    assert report["counts"]["images without a mark, left out"] == 3


def test_masks_that_lie_elsewhere(tmp_path):
    root = _volumes(tmp_path / "in")
    mask = _array(root / "c0/seg_1.nii.gz")
    _nifti(root / "c0/seg_1.nii.gz", mask, np.eye(4))
    report = folders.prepare(root, tmp_path / "out")
    (problem,) = report["problems"]["mask that lies elsewhere than its image"]
    assert problem["where"] == "c0/seg_1.nii.gz"
    assert "--ignore_mask_affine" in problem["detail"]
    assert len(folders.read(tmp_path / "out")["c0_000"].labels) == 1
    settings = {"ignore_mask_affine": True}
    folders.prepare(root, tmp_path / "other", settings=settings)
    found = folders.read(tmp_path / "other")["c0_002"].labels[1]
    np.testing.assert_array_equal(found, mask[:, :, 2].T)


def test_nifti_masks_of_pictures_and_dicom_slices(tmp_path):
    rng = np.random.default_rng(0)
    for p in range(3):
        mask = rng.integers(0, 2, (10, 8, 3)).astype(np.uint8)  # column, row, slice
        _nifti(tmp_path / f"a/p{p}/seg_1.nii.gz", mask)
        slices = rng.integers(-1000, 1000, (3, 8, 10))
        dicom_writer.write_series(tmp_path / f"a/p{p}/image", slices)
        folders.save(tmp_path / f"b/images/p{p}.png", folders.picture(p, 8, 10))
        _nifti(tmp_path / f"b/masks/p{p}_1.nii.gz", mask[..., :1])
    for folder, key in (("a", "p2_001"), ("b", "p2")):
        with pytest.raises(ValueError, match="no image can be used"):
            folders.prepare(tmp_path / folder, tmp_path / "out")
        settings = {"ignore_mask_affine": True}
        out = tmp_path / f"out_{folder}"
        folders.prepare(tmp_path / folder, out, settings=settings)
        expected = mask[..., 1 if folder == "a" else 0].T
        np.testing.assert_array_equal(folders.read(out)[key].labels, [expected])


def test_dicom_slices_and_series(tmp_path):
    rng = np.random.default_rng(0)
    slices = rng.integers(-1000, 1000, (3, 3, 8, 10))  # patients, slices
    mask = np.zeros((8, 10), np.uint8)
    mask[2:5, 3:8] = 1
    for p in range(3):
        paths = dicom_writer.write_series(tmp_path / f"series/p{p}/image", slices[p])
        np.save(tmp_path / f"series/p{p}/anna.npy", np.stack([mask, mask, 0 * mask]))
        (tmp_path / "one/images").mkdir(parents=True, exist_ok=True)
        paths[0].replace(tmp_path / f"one/images/s{p}.dcm")
        dicom_writer.write_series(tmp_path / f"series/p{p}/image", slices[p])
        folders.save(tmp_path / f"one/masks/s{p}_anna.png", mask)
    folders.prepare(tmp_path / "one", tmp_path / "out_one")
    found = folders.read(tmp_path / "out_one")
    for p in range(3):
        np.testing.assert_array_equal(found[f"s{p}"].image[..., 0], slices[p, 0])
        np.testing.assert_array_equal(found[f"s{p}"].labels, [mask])
        assert found[f"s{p}"].spacing_mm == (0.5, 0.5)
    assert records.read_info(tmp_path / "out_one").spec.intensity == "hu"
    folders.prepare(tmp_path / "series", tmp_path / "out_series")
    found = folders.read(tmp_path / "out_series")
    assert len(found) == 9
    np.testing.assert_array_equal(found["p1_002"].image[..., 0], slices[1, 2])
    np.testing.assert_array_equal(found["p1_001"].labels, [mask])
    assert not found["p1_002"].labels.any()


def test_other_number_of_slices(tmp_path):
    root = _volumes(tmp_path / "in", cases=4)
    affine = np.diag([-0.5, -0.7, 2.0, 1.0])
    _nifti(root / "c0/seg_1.nii.gz", np.zeros((6, 5, 3), np.uint8), affine)
    report = folders.prepare(root, tmp_path / "out")
    assert report["problems"]["other number of slices"] == [
        {
            "where": "c0/seg_1.nii.gz",
            "detail": "3 slices, expected 4 as in c0/image.nii.gz",
        }
    ]


def test_resizing(tmp_path):
    root = folders.tree(tmp_path / "in")
    for i in range(6):
        flat = np.zeros((12, 16, 3), np.uint8)
        flat[:, 8:] = 200
        folders.save(root / f"images/im_{i}.png", flat)
        for g in range(2):
            folders.save(
                root / f"masks/im_{i}_g{g}.png", (flat[..., 0] > 0).view(np.uint8)
            )
    folders.prepare(root, tmp_path / "out", settings={"resize": "6,4"})
    example = folders.read(tmp_path / "out")["im_0"]
    assert example.image.shape == (6, 4, 1) and example.labels.shape == (2, 6, 4)
    # Column 1 is a triangle around 5.5 that reaches 4 to each side: an eighth of its
    # weight, (0.375 + 0.125) / 4, lies on the bright half.
    assert (example.image[..., 0] == [0, 25, 175, 200]).all()
    assert (example.labels == [0, 0, 1, 1]).all()
    folders.prepare(root, tmp_path / "longer", settings={"resize": "8"})
    assert folders.read(tmp_path / "longer")["im_0"].image.shape == (6, 8, 1)


def test_resampling_to_a_pixel_size(tmp_path):
    root = _volumes(tmp_path / "in")
    folders.prepare(root, tmp_path / "out", settings={"spacing_mm": 0.35})
    info = records.read_info(tmp_path / "out")
    # 5 rows of 0.7 mm and 6 columns of 0.5 mm.
    assert info.spec.image_shape == (10, 9, 1)
    assert info.spec.preparation["spacing_mm"] == 0.35
    example = folders.read(tmp_path / "out")["c0_000"]
    np.testing.assert_allclose(example.spacing_mm, (0.35, 3 / 9), rtol=1e-6)
    with pytest.raises(
        ValueError, match="no image can be used; 6 problems: 6 x unusable"
    ):
        folders.prepare(
            folders.tree(tmp_path / "png"), tmp_path / "x", settings={"spacing_mm": 0.5}
        )


def test_slices_called_like_another_image(tmp_path):
    stack = np.zeros((2, 12, 16), np.uint8)
    for name in ("images/a.npy", "masks/a_g.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / name, stack + 1)
    folders.save(tmp_path / "images/a_001.png", folders.picture(0)[..., 0])
    folders.save(tmp_path / "masks/a_001_g.png", folders.mask(0))
    with pytest.raises(
        ValueError, match="a.* would both be called 'a_001'; rename one"
    ):
        folders.prepare(tmp_path, tmp_path / "out")


def test_other_settings_need_overwrite(tmp_path):
    root = folders.tree(tmp_path / "in")
    folders.prepare(root, tmp_path / "out")
    before = _bytes(tmp_path / "out")
    folders.prepare(root, tmp_path / "out")
    assert _bytes(tmp_path / "out") == before
    with pytest.raises(ValueError, match="made with other settings"):
        folders.prepare(root, tmp_path / "out", settings={"resize": "6"})
    card = tmp_path / "out" / "README.md"
    card.write_text(card.read_text() + "Drawn by Anna.\n")
    settings = {"resize": "6"}
    folders.prepare(root, tmp_path / "out", settings=settings, overwrite=True)
    text = card.read_text()
    assert "| size in pixels | 5×6, 3 channels |" in text
    assert text.endswith("Drawn by Anna.\n") and text.count("## To fill in") == 1


def test_settings_that_contradict(tmp_path):
    root = folders.tree(tmp_path / "in")
    with pytest.raises(ValueError, match="resize 8 and spacing_mm 0.5 are given"):
        FolderConfig(resize="8", spacing_mm=0.5)
    for settings, message in (
        ({"resize": "8,x"}, "resize is '8,x', expected HEIGHT,WIDTH"),
        ({"resize": "0"}, "resize is '0'"),
        ({"intensity": "5,1"}, "intensity is '5,1', expected auto"),
        ({"intensity": "bright"}, "intensity is 'bright'"),
        ({"group_pattern": "("}, "expected a regular expression"),
        ({"nested_classes": "a,A"}, "nested_classes is 'a,A', expected different"),
        ({"val_share": 0.6, "test_share": 0.4}, "expected less than 1 together"),
        ({"name": "a b"}, "name is 'a b', expected letters"),
    ):
        with pytest.raises(ValueError, match=message):
            FolderConfig(**settings)
    table = tmp_path / "classes.csv"
    table.write_text("name,value\na,0\nb,1\n")
    with pytest.raises(ValueError, match="nested_classes a,b and the table"):
        folders.prepare(
            root,
            tmp_path / "out",
            settings={"nested_classes": "a,b"},
            classes_path=table,
        )
