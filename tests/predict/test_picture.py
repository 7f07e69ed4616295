"""Tests of the picture for two and for several classes."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import PIL.Image
import pytest
from helpers.predictions import made_up_prediction, with_classes

from tf_probunet.figures.palette import colors
from tf_probunet.predict import picture
from tf_probunet.predict.grid import Grid, Region

_NAMES = ["background", "vessel", "lesion"]


@pytest.mark.parametrize("names", [_NAMES[:2], _NAMES])
def test_the_picture_shows_the_classes(hu_model, names):
    model = with_classes(hu_model, names)
    prediction = made_up_prediction(len(names), number=3)
    png = picture.render(prediction, model)
    shown = np.array(PIL.Image.open(io.BytesIO(png)).convert("RGB"))
    seen = {tuple(color) for color in np.unique(shown.reshape(-1, 3), axis=0)}
    if len(names) == 3:
        assert {tuple(color) for color in colors(names)} <= seen
    assert len(seen) > 20


def test_the_picture_shows_what_the_network_sees(hu_model):
    prediction = made_up_prediction(2, number=3, shape=(16, 16))
    part = Region(2, 4, 8, 8)
    grid = Grid(Region(0, 0, 16, 16), (16, 16), (8, 8), part)
    image = np.arange(256.0).reshape(16, 16, 1) / 255
    prediction = dataclasses.replace(prediction, grid=grid, shown=image)
    np.testing.assert_array_equal(prediction.seen_image, image[2:10, 4:12])
    np.testing.assert_array_equal(
        prediction.seen(prediction.labels), prediction.labels[:, 2:10, 4:12]
    )
    png = picture.render(prediction, with_classes(hu_model, _NAMES[:2]))
    whole = picture.render(made_up_prediction(2, number=3, shape=(16, 16)), hu_model)
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
    prediction = dataclasses.replace(made_up_prediction(2, shape=(16, 16)), shown=image)
    picture.render(prediction, with_classes(hu_model, _NAMES[:2]))
    assert len(drawn) > 2
    for shown in drawn:
        assert shown[12, 8, 0] == pytest.approx(0.75)
