"""Tests of the classes' colours."""

from __future__ import annotations

import numpy as np

from tf_probunet.dataset import cityscapes_labels
from tf_probunet.figures.palette import colors


def test_colours_are_all_different():
    for number in range(2, 30):
        palette = colors([str(i) for i in range(number)])
        assert palette.dtype == np.uint8
        assert len(np.unique(palette, axis=0)) == number


def test_street_scenes_have_their_own_colours():
    names = list(cityscapes_labels.CLASS_NAMES)
    np.testing.assert_array_equal(colors(names), cityscapes_labels.COLORS)
    np.testing.assert_array_equal(colors(names[:19]), cityscapes_labels.COLORS[:19])
