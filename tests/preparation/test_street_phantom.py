"""The street phantom: classes, determinism, layout."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
from scipy import ndimage

from tf_probunet.dataset import cityscapes_labels
from tf_probunet.preparation import street_phantom

SWITCHABLE_IDS = [7, 8, 21, 24, 26]


def scene(seed, **size):
    return street_phantom.draw_scene(np.random.default_rng(seed), **size)


@pytest.mark.parametrize("seed", range(8))
def test_scene_holds_all_switchable_classes_and_ignored_pixels(seed):
    image, ids = scene(seed)
    assert (image.shape, image.dtype) == ((256, 512, 3), np.uint8)
    assert (ids.shape, ids.dtype) == ((256, 512), np.uint8)
    counts = np.bincount(ids.ravel(), minlength=256)
    assert counts[SWITCHABLE_IDS].min() >= ids.size / 4000
    assert counts[34:].sum() == 0
    ignored = (cityscapes_labels.to_train_ids(ids) == 255).mean()
    assert 0.01 < ignored < 0.2


def test_classes_are_about_as_frequent_as_in_cityscapes():
    counts = np.zeros(256, np.int64)
    heights = []
    for seed in range(20):
        ids = scene(seed)[1]
        counts += np.bincount(
            cityscapes_labels.to_train_ids(ids).ravel(), minlength=256
        )
        parts, _ = ndimage.label(ids == 24)
        heights += [rows.stop - rows.start for rows, _ in ndimage.find_objects(parts)]
    shares = dict(zip(cityscapes_labels.TRAIN_CLASS_NAMES, counts / counts[:19].sum()))
    assert {name for name, share in shares.items() if not share} == {
        "train",
        "motorcycle",
    }
    # Cityscapes: 37 % road, 6 % sidewalk, 16 % vegetation, 7 % cars, 1.2 % persons.
    assert 0.30 < shares["road"] < 0.42
    assert 0.04 < shares["sidewalk"] < 0.08
    assert 0.10 < shares["vegetation"] < 0.20
    assert 0.03 < shares["car"] < 0.08
    assert 0.005 < shares["person"] < 0.015
    assert np.median(heights) < 30  # Pixels of a frame of 256 rows.


def test_classes_can_be_told_from_the_image():
    # The mean colour of a class differs from that of the road by far more than noise.
    image, ids = scene(3)
    mean = {i: image[ids == i].mean(axis=0) for i in (7, 21, 23)}
    assert mean[23][2] > mean[7][2] + 50  # the sky is lighter and bluer than the road
    assert mean[21][1] > mean[21][2] + 10  # vegetation is green
    assert image[ids == 21].std() > image[ids == 7].std()


def test_same_seed_same_scene_other_seed_another():
    for first, second in zip(scene(5), scene(5)):
        np.testing.assert_array_equal(first, second)
    assert (scene(5)[1] != scene(6)[1]).mean() > 0.05


def test_scene_of_another_size():
    image, ids = scene(0, height=96, width=200)
    assert image.shape == (96, 200, 3)
    assert set(SWITCHABLE_IDS) <= set(np.unique(ids).tolist())
    with pytest.raises(ValueError, match="height 32 and width 512"):
        scene(0, height=32, width=512)
    with pytest.raises(ValueError, match="height 256 and width 128"):
        scene(0, height=256, width=128)


def test_files_lie_in_the_official_layout(tmp_path):
    number = street_phantom.write(tmp_path, images_per_city=1, height=64, width=128)
    images = sorted(
        str(p.relative_to(tmp_path)) for p in (tmp_path / "leftImg8bit").rglob("*.png")
    )
    assert number == len(images) == 8
    assert images[0] == "leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit.png"
    assert [path.split("/")[2] for path in images] == [
        *("aachen", "bochum", "darmstadt", "hamburg", "monchengladbach", "ulm"),
        *("frankfurt", "lindau"),
    ]
    labels = tmp_path / "gtFine/val/lindau/lindau_000000_000019_gtFine_labelIds.png"
    with PIL.Image.open(labels) as picture:
        assert (picture.mode, picture.size) == ("L", (128, 64))
    assert not list(tmp_path.rglob("*.tmp*"))


def test_a_scene_depends_on_its_name_and_the_seed_only(tmp_path):
    name = "gtFine/train/ulm/ulm_000000_000019_gtFine_labelIds.png"
    size = {"height": 64, "width": 128}
    street_phantom.write(tmp_path / "a", images_per_city=1, **size)
    street_phantom.write(tmp_path / "b", images_per_city=2, **size)
    street_phantom.write(tmp_path / "c", images_per_city=1, seed=1, **size)
    first, second, third = (
        (tmp_path / run / name).read_bytes() for run in ("a", "b", "c")
    )
    assert first == second != third


def test_a_folder_with_other_scenes_is_refused(tmp_path):
    size = {"height": 64, "width": 128}
    street_phantom.write(tmp_path, images_per_city=2, **size)
    (tmp_path / "gtFine/train/ulm/.a.1.tmp.png").touch()  # A killed run left it.
    street_phantom.write(tmp_path, images_per_city=2, **size)
    with pytest.raises(ValueError, match="gtFine: holds 8 other files.*_000001_00"):
        street_phantom.write(tmp_path, images_per_city=1, **size)


def test_no_scene_is_refused(tmp_path):
    with pytest.raises(ValueError, match="images_per_city is 0"):
        street_phantom.write(tmp_path, images_per_city=0)
