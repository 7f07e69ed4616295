"""Which mask belongs to which image, by names only: the files are empty."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tf_probunet.preparation.folder import layouts
from tf_probunet.preparation.folder.config import LAYOUTS, FolderConfig


def _tree(root: pathlib.Path, *names: str) -> pathlib.Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def _find(root, **config):
    """Returns the layout, {key: {grader or (grader, class): path}} and problems."""
    found = layouts.find(root, FolderConfig(**config))
    cases = {
        case.key: {
            (m.grader, m.class_name) if m.class_name else m.grader: m.path
            for m in case.masks
        }
        for case in found.cases
    }
    return found.layout, cases, {(p.reason, p.where) for p in found.problems}


def test_grader_suffixes(tmp_path):
    root = _tree(
        tmp_path,
        *("images/a.png", "images/b.JPG", "images/sub/c.tif", "images/lone.bmp"),
        *("masks/a_1.png", "masks/a_10.png", "masks/a_2.png", "masks/b-anna.png"),
        *("masks/sub/c_1.npy", "masks/d_1.png", "README.md", "images/.DS_Store"),
    )
    layout, cases, problems = _find(root)
    assert layout == "grader_suffixes"
    assert cases == {
        "a": {"1": "masks/a_1.png", "2": "masks/a_2.png", "10": "masks/a_10.png"},
        "b": {"anna": "masks/b-anna.png"},
        "sub_c": {"1": "masks/sub/c_1.npy"},
    }
    assert list(cases["a"]) == ["1", "2", "10"]
    assert problems == {
        ("image without a mask", "images/lone.bmp"),
        ("mask without an image", "masks/d_1.png"),
        ("not an image", "README.md"),
        ("hidden file", "images/.DS_Store"),
    }


def test_a_mask_with_the_images_own_name_is_of_one_grader(tmp_path):
    root = _tree(tmp_path, "images/a.png", "masks/a.png")
    assert _find(root)[:2] == ("grader_suffixes", {"a": {"mask": "masks/a.png"}})


def test_known_graders_tell_similar_names_apart(tmp_path):
    root = _tree(
        tmp_path,
        *("images/p.png", "images/p_2.png"),
        *("masks/p_anna.png", "masks/p_2_anna.png", "masks/p_2.png"),
    )
    _, cases, problems = _find(root)
    assert cases == {
        "p": {"anna": "masks/p_anna.png"},
        "p_2": {"anna": "masks/p_2_anna.png"},
    }
    # Is it a mask of "p" by grader 2, or the only one of "p_2"?
    assert problems == {("mask that fits several images", "masks/p_2.png")}


def test_grader_folders(tmp_path):
    root = _tree(
        tmp_path,
        *("images/a.png", "images/p/b.png"),
        *("masks/anna/a.png", "masks/ben/a.tiff", "masks/ben/p/b.png"),
    )
    layout, cases, problems = _find(root)
    assert layout == "grader_folders" and not problems
    assert cases == {
        "a": {"anna": "masks/anna/a.png", "ben": "masks/ben/a.tiff"},
        "p_b": {"ben": "masks/ben/p/b.png"},
    }


@pytest.mark.parametrize("folder", ["masks_{}", "mask-{}", "Labels {}", "gt{}"])
def test_mask_folders(tmp_path, folder):
    names = [f"{folder.format(i)}/a.png" for i in (0, 1, 10)]
    layout, cases, problems = _find(_tree(tmp_path, "images/a.png", *names))
    assert layout == "mask_folders" and not problems
    assert cases == {"a": dict(zip(["0", "1", "10"], names))}


def test_layout_of_lidc_slices(tmp_path):
    root = _tree(
        tmp_path,
        "LIDC-1/nodule-0/images/slice-0.png",
        *(f"LIDC-1/nodule-0/mask-{i}/slice-0.png" for i in range(4)),
        "LIDC-2/nodule-0/images/slice-0.png",
        "LIDC-2/nodule-0/mask-3/slice-0.png",
    )
    found = layouts.find(root, FolderConfig())
    assert [case.key for case in found.cases] == [
        "LIDC-1_nodule-0_slice-0",
        "LIDC-2_nodule-0_slice-0",
    ]
    assert [case.graders for case in found.cases] == [["0", "1", "2", "3"], ["3"]]


def test_case_folders(tmp_path):
    root = _tree(
        tmp_path,
        *("case_01/image.nii.gz", "case_01/seg_02.nii.gz", "case_01/seg_01.nii.gz"),
        *("case_02/image.nii.gz", "case_02/masks/anna.nii.gz", "stray.png"),
    )
    layout, cases, problems = _find(root)
    assert layout == "case_folders"
    assert cases == {
        "case_01": {
            "seg_01": "case_01/seg_01.nii.gz",
            "seg_02": "case_01/seg_02.nii.gz",
        },
        "case_02": {"masks/anna": "case_02/masks/anna.nii.gz"},
    }
    assert problems == {("mask without an image", "stray.png")}


def test_dicom_slices_of_a_case_are_one_image(tmp_path):
    root = _tree(
        tmp_path,
        *("c1/image/1.dcm", "c1/image/2.dcm", "c1/seg_1.nii.gz"),
    )
    (case,) = layouts.find(root, FolderConfig()).cases
    assert (case.key, case.image) == ("c1", "c1/image")
    assert [mask.path for mask in case.masks] == ["c1/seg_1.nii.gz"]


def test_folders_of_splits(tmp_path):
    root = _tree(
        tmp_path,
        *("train/images/a.png", "train/masks/a_1.png"),
        *("images/Validation/a.png", "masks/Validation/a_1.png"),
        *("test/images/t.png", "test/masks/t_1.png"),
    )
    cases = layouts.find(root, FolderConfig()).cases
    # The splits tell the two images called "a" apart.
    assert [(case.key, case.image) for case in cases] == [
        ("t", "test/images/t.png"),
        ("train_a", "train/images/a.png"),
        ("val_a", "images/Validation/a.png"),
    ]
    (root / "images/Validation/a.png").rename(root / "images/Validation/v.png")
    (root / "masks/Validation/a_1.png").rename(root / "masks/Validation/v_1.png")
    cases = layouts.find(root, FolderConfig()).cases
    assert [(case.key, case.split) for case in cases] == [
        ("a", "train"),
        ("t", "test"),
        ("v", "val"),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["masks/1/disc/a.png", "masks/1/cup/a.png"],
        ["masks/Disc/1/a.png", "masks/CUP/1/a.png"],
        ["masks/1/a_disc.png", "masks/1/a_cup.png"],
        ["masks/a_disc_1.png", "masks/a_cup_1.png"],
        ["masks/a_1-disc.png", "masks/a_1-cup.png"],
        ["masks_1/disc_a.png", "masks_1/cup_a.png"],
    ],
)
def test_nested_classes_are_parts_of_names(tmp_path, names):
    root = _tree(tmp_path, "images/a.png", *names)
    _, cases, problems = _find(root, nested_classes="disc,cup")
    assert cases == {"a": {("1", "disc"): names[0], ("1", "cup"): names[1]}}
    assert not problems


def test_masks_of_no_nested_class(tmp_path):
    root = _tree(
        tmp_path,
        "images/a.png",
        "masks/a_cup_1.png",
        "masks/a_1.png",
        "masks/a_disc_cup.png",
    )
    _, cases, problems = _find(root, nested_classes="disc,cup")
    assert cases == {"a": {("1", "cup"): "masks/a_cup_1.png"}}
    assert problems == {
        ("mask of no class", "masks/a_1.png"),
        ("unclear class", "masks/a_disc_cup.png"),
    }


def test_tasks_are_not_taken_for_graders(tmp_path):
    names = [f"c1/task0{t}_seg0{g}.nii.gz" for t in (1, 2) for g in (1, 2)]
    root = _tree(tmp_path, "c1/image.nii.gz", *names)
    with pytest.raises(ValueError, match="2 tasks.*--mask_pattern='task01_.*--nested"):
        _find(root)
    _, cases, _ = _find(root, mask_pattern="task02_*")
    assert list(cases["c1"]) == ["task02_seg01", "task02_seg02"]
    _, cases, _ = _find(root, nested_classes="task01,task02")
    assert set(cases["c1"]) == {
        (f"seg0{g}", f"task0{t}") for t in (1, 2) for g in (1, 2)
    }


def test_unclear_layout(tmp_path):
    root = _tree(
        tmp_path,
        *("images/a.png", "masks/a_1.png", "masks/a_2.png"),
        *("masks/anna/a.png", "masks/ben/a.png"),
    )
    with pytest.raises(ValueError) as caught:
        _find(root)
    assert str(caught.value) == (
        f"{root}: fits several layouts, grader_suffixes (1 images, 2 masks) and "
        "grader_folders (1 images, 2 masks); choose one with --layout"
    )
    for layout, number in (("grader_suffixes", 2), ("grader_folders", 2)):
        found, cases, _ = _find(root, layout=layout)
        assert found == layout and len(cases["a"]) == number


def test_no_layout_fits(tmp_path):
    root = _tree(tmp_path, "x/1.png", "x/2.png")
    with pytest.raises(ValueError) as caught:
        _find(root)
    message = str(caught.value)
    assert message.startswith(f"{root}: 2 files that may be images or masks, but none")
    assert "--manifest" in message and "\n" not in message


def test_missing_folder_and_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone: no such directory"):
        _find(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"a\.png: a file, expected a directory"):
        _find(_tree(tmp_path, "a.png") / "a.png")


def test_two_images_of_one_name(tmp_path):
    root = _tree(tmp_path, "images/a.png", "images/a.jpg", "masks/a_1.png")
    _, cases, problems = _find(root)
    assert list(cases) == ["a"]
    assert problems == {("duplicate name", "images/a.png")}


def test_two_masks_of_one_grader(tmp_path):
    root = _tree(tmp_path, "images/a.png", "masks/a_1.png", "masks/a_1.tif")
    _, cases, problems = _find(root)
    assert cases == {"a": {"1": "masks/a_1.png"}}
    assert problems == {("second mask of a grader", "masks/a_1.tif")}


def test_odd_names(tmp_path):
    root = _tree(
        tmp_path,
        *("images/a b.1.png", "masks/a b.1_ü.png", "images/é.png", "masks/é_1.png"),
        *("images/x\n.png", "masks/x\n_1.png"),
    )
    _, cases, problems = _find(root)
    assert cases == {
        "a b.1": {"ü": "masks/a b.1_ü.png"},
        "é": {"1": "masks/é_1.png"},
    }
    assert problems == {
        ("name with control characters", r"images/x\n.png"),
        ("name with control characters", r"masks/x\n_1.png"),
    }


_NAMES = st.text("ab1_-", min_size=1, max_size=5).filter(
    lambda name: name not in ("image", "img")
)


@settings(max_examples=15)
@example(names=["1", "1_"], graders=["x"])
@given(
    names=st.lists(_NAMES, min_size=1, max_size=4, unique=True),
    graders=st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True),
)
def test_all_layouts_find_the_same(tmp_path_factory, names, graders):
    """Grader names that are in no image's name leave nothing in doubt."""
    patterns = {
        "grader_suffixes": ("images/{n}.png", "masks/{n}_{g}.png"),
        "grader_folders": ("images/{n}.png", "masks/{g}/{n}.png"),
        "mask_folders": ("images/{n}.png", "masks_{g}/{n}.png"),
        "case_folders": ("{n}/image.png", "{n}/{g}.png"),
    }
    assert {*patterns, "manifest"} == set(LAYOUTS)
    for layout, (image, mask) in patterns.items():
        root = tmp_path_factory.mktemp(layout)
        paths = {n: {g: mask.format(n=n, g=g) for g in sorted(graders)} for n in names}
        every = [path for masks in paths.values() for path in masks.values()]
        _tree(root, *(image.format(n=n) for n in names), *every)
        assert _find(root) == (layout, paths, set())
