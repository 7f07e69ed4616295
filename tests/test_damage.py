"""The errors of libraries for damaged files, and how pictures are stored."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest
from helpers import png

from tf_probunet import damage


def test_a_reason_is_one_line():
    assert damage.reason(ValueError("two\n  lines")) == "two lines"
    assert damage.reason(EOFError()) == "EOFError"


@pytest.mark.parametrize("mode, shape", [("L", (4, 4)), ("RGB", (4, 4, 3))])
def test_pictures_of_8_bits_are_stored_as_their_mode_says(mode, shape):
    buffer = io.BytesIO()
    PIL.Image.fromarray(np.zeros(shape, np.uint8)).save(buffer, "png")
    assert damage.stored_mode(PIL.Image.open(buffer)) == mode


@pytest.mark.parametrize(
    "bits, color_type, shape, stored",
    [(16, 2, (4, 4, 3), "RGB;16B"), (4, 0, (4, 4, 1), "L;4")],
)
def test_depths_that_pillow_changes_are_seen(bits, color_type, shape, stored):
    data = png.encode(np.zeros(shape, int), bits=bits, color_type=color_type)
    picture = PIL.Image.open(io.BytesIO(data))
    assert damage.stored_mode(picture) == stored
    assert picture.mode != stored


def test_a_failed_assertion_in_a_graph_is_told_in_its_own_words():
    message = "{{node x}}\nassertion failed: [a label map holds] [7]\n\t [[x]] [Op:A]"
    assert damage.graph_reason(ValueError(message)) == "a label map holds 7"


def test_a_picture_without_a_file_has_its_mode():
    assert damage.stored_mode(PIL.Image.new("L", (4, 4))) == "L"
