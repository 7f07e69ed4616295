"""Tests of the label maps and other maps as PNG files."""

from __future__ import annotations

import numpy as np
import PIL.Image
from helpers.predictions import made_up_prediction, with_classes

from tf_probunet.figures.palette import colors
from tf_probunet.predict import write_png

_NAMES = ["background", "vessel", "lesion"]


def test_label_files_hold_labels_and_show_colours(hu_model, tmp_path):
    model, prediction = with_classes(hu_model, _NAMES), made_up_prediction(3)
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
