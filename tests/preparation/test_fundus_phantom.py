"""The pictures of eyes: what the graders draw, and the folder they are written to."""

from __future__ import annotations

import dataclasses

import numpy as np
import PIL.Image
import pytest

from tf_probunet.config import FundusConfig
from tf_probunet.preparation import fundus_phantom

SMALL = FundusConfig(num_patients=3, height=60, width=80)


def test_folder(tmp_path):
    images, masks = fundus_phantom.write(tmp_path, SMALL)
    assert images == 6 == len(list((tmp_path / "images").iterdir()))
    assert masks == len(list((tmp_path / "masks").iterdir())) > 12
    assert (tmp_path / "classes.csv").read_text() == (
        "name,value,color\nbackground,0,#000000\ndisc,1,#00c800\ncup,2,#005aff\n"
    )
    name = "patient_0002_right"
    image, labels = fundus_phantom.draw(name, SMALL)
    stored = np.asarray(PIL.Image.open(tmp_path / "images" / f"{name}.png"))
    np.testing.assert_array_equal(stored, image)
    for grader, drawn in labels.items():
        with PIL.Image.open(tmp_path / "masks" / f"{name}_{grader}.png") as picture:
            assert picture.mode == "P"
            np.testing.assert_array_equal(np.asarray(picture), drawn)
    fundus_phantom.write(tmp_path, SMALL)
    (tmp_path / "masks" / "mine.png").touch()
    with pytest.raises(ValueError, match="masks: holds 1 other files, such as mine.pn"):
        fundus_phantom.write(tmp_path, SMALL)


def test_another_seed_leaves_no_masks_behind(tmp_path):
    other = dataclasses.replace(SMALL, seed=1)
    fundus_phantom.write(tmp_path, other)
    _, masks = fundus_phantom.write(tmp_path, SMALL)
    assert masks == len(list((tmp_path / "masks").iterdir()))


def test_graders_differ_in_number_and_in_what_they_see():
    eyes = [
        fundus_phantom.draw(f"patient_{i:04d}_left", SMALL)[1] for i in range(1, 201)
    ]
    numbers = np.bincount([len(labels) for labels in eyes], minlength=7)
    assert (numbers[:2] == 0).all() and (numbers[2:] > 20).all()
    maps = [drawn for labels in eyes for drawn in labels.values()]
    discs = np.array([(drawn > 0).sum() for drawn in maps])
    cups = np.array([(drawn == 2).sum() for drawn in maps])
    assert discs.min() > 200 and 0.02 < (cups == 0).mean() < 0.25
    # The two readings of the cup are far apart: areas differ by 1.96, discs hardly.
    spread = []
    for labels in eyes:
        areas = [(d == 2).sum() / (d > 0).sum() for d in labels.values()]
        areas = [area for area in areas if area]
        spread.append(max(areas) / min(areas) if areas else 1.0)
    both = np.mean(np.array(spread) > 1.6)
    assert 0.3 < both < 0.9 and max(spread) < 2.4


def test_the_disc_is_brighter_than_the_rest():
    for i in range(1, 6):
        image, labels = fundus_phantom.draw(f"patient_{i:04d}_left", SMALL)
        disc = np.mean([drawn > 0 for drawn in labels.values()], axis=0) == 1
        assert image[disc].mean() > image[~disc].mean() + 30


def test_eyes_depend_on_name_and_seed_only():
    one, _ = fundus_phantom.draw("patient_0001_left", SMALL)
    more = FundusConfig(num_patients=9, height=60, width=80)
    np.testing.assert_array_equal(
        fundus_phantom.draw("patient_0001_left", more)[0], one
    )
    other = FundusConfig(num_patients=3, height=60, width=80, seed=1)
    assert (fundus_phantom.draw("patient_0001_left", other)[0] != one).any()
