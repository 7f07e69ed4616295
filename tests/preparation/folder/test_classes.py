"""Tables of classes, and the classes of masks without one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_probunet.preparation.folder import classes
from tf_probunet.preparation.folder.masks import RawMask

TABLE = "name,value,color\nback,0,#000000\ndisc,128,#00FF00\ncup,255,0 0 255\n"


def _table(tmp_path, text):
    (tmp_path / "classes.csv").write_text(text)
    return classes.read(tmp_path / "classes.csv")


def test_values_and_colours(tmp_path):
    table = _table(tmp_path, TABLE)
    assert table.names == ("back", "disc", "cup")
    assert table.ignore_label is None
    values = np.array([[0, 128, 255]])
    assert table.to_labels(RawMask(values), "m").tolist() == [[0, 1, 2]]
    colors = np.array([[(0, 0, 255), (0, 255, 0), (0, 0, 0)]], np.uint8)
    labels = table.to_labels(RawMask(colors=colors), "m")
    assert labels.tolist() == [[2, 1, 0]] and labels.dtype == np.uint8
    assert table.to_json() == {
        "values": {"0": 0, "128": 1, "255": 2},
        "colors": {"#000000": 0, "#0000ff": 2, "#00ff00": 1},
    }


def test_rows_of_one_name_and_ignored_pixels(tmp_path):
    table = _table(tmp_path, "name,value\nbg,2\ncell,0\ncell,7\nIgnore,9\n")
    assert table.names == ("bg", "cell") and table.ignore_label == 255
    values = np.array([[2, 0, 7, 9]])
    assert table.to_labels(RawMask(values), "m").tolist() == [[0, 1, 1, 255]]


def test_greys_by_a_table_of_colours(tmp_path):
    table = _table(tmp_path, "name,colour\nbg,#000000\ncell,#ffffff\nrim,#808080\n")
    values = np.array([[0, 255, 128]])
    assert table.to_labels(RawMask(values), "m").tolist() == [[0, 1, 2]]


def test_transparent_pixels_are_label_0(tmp_path):
    table = _table(tmp_path, TABLE)
    colors = np.array([[(0, 255, 0), (9, 9, 9)]], np.uint8)
    mask = RawMask(colors=colors, transparent=np.array([[False, True]]))
    assert table.to_labels(mask, "m").tolist() == [[1, 0]]


def test_palettes_are_read_as_the_table_knows_them(tmp_path):
    table = _table(tmp_path, TABLE)
    values, green = np.array([[0, 1]]), [(0, 0, 0), (0, 255, 0)]
    # The table does not know the number 1, but it knows green.
    mask = RawMask(values, np.array([green], np.uint8))
    assert table.to_labels(mask, "m").tolist() == [[0, 1]]
    # 128 is the disc and blue is the cup.
    mask = RawMask(np.array([[128]]), np.array([[(0, 0, 255)]], np.uint8))
    with pytest.raises(
        ValueError, match="m: its values and its colours mean different"
    ):
        table.to_labels(mask, "m")


def test_unknown_values_and_colours(tmp_path):
    table = _table(tmp_path, TABLE)
    with pytest.raises(ValueError) as caught:
        table.to_labels(RawMask(np.array([[0, 3, 3, 5]])), "m.png")
    assert str(caught.value) == (
        "m.png: 3 in 2 pixels is of no class (2 such in this mask), expected 0, 128, "
        "255"
    )
    colors = np.array([[(1, 2, 3)]], np.uint8)
    with pytest.raises(ValueError, match="m.png: #010203 in 1 pixels is of no class"):
        table.to_labels(RawMask(colors=colors), "m.png")
    by_value = _table(tmp_path, "name,value\na,0\nb,1\n")
    with pytest.raises(ValueError, match="a mask in colours, expected the column 'col"):
        by_value.to_labels(RawMask(colors=colors), "m.png")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value,color\n0,1\n", "expected name and at least one of value and color"),
        ("name\na\n", "expected name and at least one of value and color"),
        ("name,value\na,0\n", "1 classes besides 'ignore', expected 2 to 255"),
        ("name,value\na,0\nb,0\n", "line 3 has 0, which an earlier line has"),
        ("name,value\na,0\nb,-1\n", "line 3 has the value '-1', expected 0 to 65535"),
        ("name,value\na,0\nb,99999\n", "line 3 has the value '99999'"),
        ("name,color\na,#000\nb,1 1 1\n", "line 2 has the color '#000', expected #rr"),
        ("name,color\na,1 2 256\nb,1 1 1\n", "line 2 has the color '1 2 256'"),
        ("name,value\na,0\n,1\n", "line 3 has no name of a class"),
        ("name,value\na,0\nb,\n", "line 3, class 'b', has neither value nor color"),
    ],
)
def test_tables_that_make_no_sense(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        _table(tmp_path, text)


@pytest.mark.parametrize(
    ("values", "names", "by_value"),
    [
        ([[0, 255], [0]], ("background", "foreground"), {0: 0, 255: 1}),
        ([[0, 1], [1]], ("background", "foreground"), {0: 0, 1: 1}),
        # Two ways of writing binary masks.
        ([[0, 1], [0, 255]], ("background", "foreground"), {0: 0, 1: 1, 255: 1}),
        (
            [[0, 1], [0, 2]],
            ("background", "class_1", "class_2"),
            {0: 0, 1: 1, 2: 2},
        ),
    ],
)
def test_guesses(values, names, by_value):
    found = classes.guess({f"m{i}": v for i, v in enumerate(values)})
    assert found.names == names and dict(found.by_value) == by_value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0], [0]], "no mask marks anything: all 2 hold only 0"),
        ([[0, 1, 255]], "masks hold the values 0, 1, 255 .the rarest, 1, in 1 files"),
        ([[0, 128, 255]], "say which value is which class with --classes"),
        ([[0, 1], [0, 1], [0, 1, 7]], "the rarest, 7, in 1 files, such as m2"),
        ([[1, 2]], "masks hold the values 1, 2"),
        ([[0, 1], None], "m1: a mask in colours .there are 1.; say which color"),
    ],
)
def test_what_needs_a_table(values, message):
    with pytest.raises(ValueError, match=message):
        classes.guess({f"m{i}": v for i, v in enumerate(values)})


def test_pictures_are_not_taken_for_masks():
    ramp = RawMask(np.arange(200).reshape(10, 20))
    with pytest.raises(
        ValueError, match="m.jpg: a mask with 200 different.*JPEG blurs"
    ):
        classes.values_in(ramp, "m.jpg")
    with pytest.raises(
        ValueError, match="m.png: a mask with 200 diff.*is it a picture"
    ):
        classes.values_in(ramp, "m.png")
    assert classes.values_in(RawMask(np.array([[5, 0, 5]])), "m") == [0, 5]


def test_palettes_that_do_not_start_black_need_a_table():
    colors = np.zeros((1, 2, 3), np.uint8)
    mask = RawMask(np.array([[0, 1]]), colors, starts_black=False)
    assert classes.values_in(mask, "m") is None


@given(st.lists(st.tuples(*[st.integers(0, 255)] * 3), min_size=1, max_size=20))
def test_codes_tell_colours_apart(colors):
    found = classes.codes(np.array([colors], np.uint8))[0]
    assert [f"{code:06x}" for code in found] == [
        "{:02x}{:02x}{:02x}".format(*color) for color in colors
    ]
