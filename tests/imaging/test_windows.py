"""Tests of the intensity windows, in numbers and against the input pipeline."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets

from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline
from tf_probunet.imaging import windows

DATA = DataConfig(window_low=-600.0, window_high=200.0)


def test_numbers_by_hand():
    values = np.array([-601, -600, -400, 200, 201], np.int16)
    found = windows.apply_window(values, *windows.training_window("hu", DATA))
    assert found.dtype == np.float32
    assert found.tolist() == [0, 0, 0.25, 1, 1]
    found = windows.apply_window(np.float32([0, 51, 255]), 0, 255)
    np.testing.assert_allclose(found, [0, 0.2, 1], rtol=1e-6)


def test_an_image_of_one_value_becomes_0():
    assert windows.apply_window(np.float32([7, 7]), 7, 7).tolist() == [0, 0]


@pytest.mark.parametrize(
    "intensity, values",
    [("hu", np.arange(-1024, 3072)), ("uint8", np.arange(256))],
)
def test_agrees_with_the_input_pipeline(intensity, values):
    spec = datasets.spec(intensity=intensity)
    image = values.astype(np.float32).reshape(-1, 16, 1)
    expected = input_pipeline.normalise(tf.constant(image), spec, DATA)
    window = windows.training_window(intensity, DATA)
    found = windows.apply_window(image, *window)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_the_description_names_the_window():
    assert windows.describe("hu", DATA).startswith("Hounsfield units, -600 to 200 m")
    assert windows.describe("uint8", DATA) == "8-bit values divided by 255"
