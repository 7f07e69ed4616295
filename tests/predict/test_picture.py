"""Tests of pictures and palettes for two and for several classes."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import PIL.Image
import pytest

from tf_probunet.dataset import cityscapes_labels
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import picture, write_png
from tf_probunet.predict.grid import Grid, Region
from tf_probunet.predict.hypotheses import group
from tf_probunet.predict.palette import colors
from tf_probunet.predict.prediction import Prediction
from tf_probunet.predict.summary import presence, summary

_NAMES = ["background", "vessel", "lesion"]


def _with_classes(model, names):
    dataset = {**model.dataset, "class_names": names}
    return dataclasses.replace(model, dataset=dataset)


def _prediction(num_classes, number=12, shape=(8, 12)):
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1.0] * num_classes, size=(number, *shape))
    labels = probabilities.argmax(-1).astype(np.uint8)
    mean = probabilities.mean(0).astype(np.float32)
    return Prediction(
        image=InputImage("x", "x.npy", "array", np.zeros((*shape, 1)), "hu"),
        grid=Grid(Region(0, 0, *shape), shape, shape),
        shown=np.zeros((*shape, 1)),
        labels=labels,
        mean=mean,
        entropy=-(mean * np.log(mean)).sum(-1),
        hypotheses=group(labels, num_classes=num_classes, least_iou=0.9),
        notes=[],
    )


def test_colours_are_all_different():
    for number in range(2, 30):
        palette = colors([str(i) for i in range(number)])
        assert palette.dtype == np.uint8
        assert len(np.unique(palette, axis=0)) == number


def test_street_scenes_have_their_own_colours():
    names = list(cityscapes_labels.CLASS_NAMES)
    np.testing.assert_array_equal(colors(names), cityscapes_labels.COLORS)
    np.testing.assert_array_equal(colors(names[:19]), cityscapes_labels.COLORS[:19])


def test_label_files_hold_labels_and_show_colours(hu_model, tmp_path):
    model, prediction = _with_classes(hu_model, _NAMES), _prediction(3)
    write_png.write_labels(tmp_path, prediction, model)
    write_png.write_maps(tmp_path, prediction, model)
    opened = PIL.Image.open(tmp_path / "sample_001.png")
    np.testing.assert_array_equal(np.array(opened), prediction.labels[1])
    shown = np.array(opened.convert("RGB"))
    np.testing.assert_array_equal(shown, colors(_NAMES)[prediction.labels[1]])
    mean = np.array(PIL.Image.open(tmp_path / "mean.png"))
    np.testing.assert_array_equal(mean, prediction.mean.argmax(-1))
    entropy = np.array(PIL.Image.open(tmp_path / "entropy.png")) / 255
    expected = prediction.entropy / np.log(3)
    np.testing.assert_allclose(entropy, expected, atol=1 / 255)


@pytest.mark.parametrize("names", [_NAMES[:2], _NAMES])
def test_the_picture_shows_the_classes(hu_model, names):
    model = _with_classes(hu_model, names)
    prediction = _prediction(len(names), number=3)
    png = picture.render(prediction, model)
    shown = np.array(PIL.Image.open(io.BytesIO(png)).convert("RGB"))
    seen = {tuple(color) for color in np.unique(shown.reshape(-1, 3), axis=0)}
    if len(names) == 3:
        assert {tuple(color) for color in colors(names)} <= seen
    assert len(seen) > 20


def test_the_picture_shows_what_the_network_sees(hu_model):
    prediction = _prediction(2, number=3, shape=(16, 16))
    part = Region(2, 4, 8, 8)
    grid = Grid(Region(0, 0, 16, 16), (16, 16), (8, 8), part)
    image = np.arange(256.0).reshape(16, 16, 1) / 255
    prediction = dataclasses.replace(prediction, grid=grid, shown=image)
    np.testing.assert_array_equal(prediction.seen_image, image[2:10, 4:12])
    np.testing.assert_array_equal(
        prediction.seen(prediction.labels), prediction.labels[:, 2:10, 4:12]
    )
    png = picture.render(prediction, _with_classes(hu_model, _NAMES[:2]))
    whole = picture.render(_prediction(2, number=3, shape=(16, 16)), hu_model)
    assert (
        PIL.Image.open(io.BytesIO(png)).size == PIL.Image.open(io.BytesIO(whole)).size
    )
    assert png != whole


def test_the_picture_is_not_dark_because_of_bone(hu_model, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        picture.pictures, "show_image", lambda _, image: drawn.append(image)
    )
    image = np.full((16, 16, 1), 0.05)
    image[8:] = 0.4
    image[:2] = 1.0
    prediction = dataclasses.replace(_prediction(2, shape=(16, 16)), shown=image)
    picture.render(prediction, _with_classes(hu_model, _NAMES[:2]))
    assert len(drawn) > 2
    for shown in drawn:
        assert shown[12, 8, 0] == pytest.approx(0.75)


def test_without_a_background_nothing_is_absent(hu_model):
    model, prediction = _with_classes(hu_model, ["a", "b", "c"]), _prediction(3)
    assert presence(prediction, model) is None

    class Config:
        seed, group_iou = 0, 0.9

    described = summary(prediction, model, Config)
    assert list(described["classes"]) == ["a", "b", "c"]
    total = sum(area["pixels"] for area in described["hypotheses"][0]["areas"].values())
    assert total == 96
