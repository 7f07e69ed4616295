"""Lists of images and masks: both forms, and what is wrong in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.preparation.folder import manifest
from tf_probunet.preparation.folder.config import FolderConfig


@pytest.fixture
def root(tmp_path):
    for name in ("x/a.png", "b.png", "m1.png", "m2.png", "m3.png", "m4.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def _find(root, text, **config):
    path = root / "list.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return manifest.find(path, root, FolderConfig(**config))


def _cases(found):
    return {
        case.key: (
            case.group,
            case.split,
            {(m.grader, m.class_name): m.path for m in case.masks},
        )
        for case in found.cases
    }


def test_a_row_for_each_image(root):
    found = _find(
        root,
        "image,group,split,mask_1,mask_2\n"
        "x/a.png,p1,train,m1.png,m2.png\n"
        "\n"
        "b.png,p2,Validation,,m3.png\n",
    )
    assert found.layout == "manifest" and not found.problems
    assert _cases(found) == {
        "x_a": ("p1", "train", {("1", None): "m1.png", ("2", None): "m2.png"}),
        "b": ("p2", "val", {("2", None): "m3.png"}),
    }


def test_a_row_for_each_mask(root):
    found = _find(
        root,
        b"\xef\xbb\xbfImage;Mask;Grader;Key;Age\r\n"
        b"x/a.png;m1.png;anna;first;50\r\n"
        b"x/a.png; m2.png ;ben;first;50\r\n"
        b'b.png;"m3.png";anna;second;60\r\n',
    )
    assert _cases(found) == {
        "first": (None, None, {("anna", None): "m1.png", ("ben", None): "m2.png"}),
        "second": (None, None, {("anna", None): "m3.png"}),
    }
    (problem,) = found.problems
    assert str(problem) == "list.csv: age: column not read" and problem.expected


def test_nested_classes_in_both_forms(root):
    expected = {
        "b": (
            None,
            None,
            {("1", "disc"): "m1.png", ("1", "cup"): "m2.png"},
        )
    }
    wide = "image,mask_1_disc,mask_1_cup\nb.png,m1.png,m2.png\n"
    assert _cases(_find(root, wide, nested_classes="disc,cup")) == expected
    long = "image,mask,grader,class\nb.png,m1.png,1,DISC\nb.png,m2.png,1,cup\n"
    assert _cases(_find(root, long, nested_classes="disc,cup")) == expected


def test_missing_files_cost_only_themselves(root):
    found = _find(
        root,
        "image,mask_1,mask_2\nx/a.png,m1.png,gone.png\nno.png,m2.png,\nb.png,,\n",
    )
    assert _cases(found) == {"x_a": (None, None, {("1", None): "m1.png"})}
    assert [str(problem) for problem in found.problems] == [
        "gone.png: mask missing (list.csv, line 2)",
        "no.png: image missing (list.csv, line 3)",
        "b.png: image without a mask",
    ]


def test_second_mask_of_a_grader(root):
    found = _find(root, "image,mask,grader\nb.png,m1.png,1\nb.png,m2.png,1\n")
    assert _cases(found) == {"b": (None, None, {("1", None): "m1.png"})}
    assert str(found.problems[0]) == (
        "m2.png: second mask of a grader (list.csv, line 3; not used)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("picture,mask_1\nb.png,m1.png\n", r"no column 'image' among \['picture'"),
        ("image,group\nb.png,1\n", r"expected the columns image,mask_1,mask_2"),
        ("image,mask\nb.png,m1.png\n", "no column 'grader' next to 'mask'"),
        ("image,mask_1\nb.png,m1.png,m2.png\n", "line 2 has 3 cells, expected 2"),
        ("image,image,mask_1\na,b,c\n", "two columns are called 'image'"),
        ("image,,mask_1\na,b,c\n", "a column without a name"),
        ("image,mask_1\n", "without a row"),
        (b"image,mask_1\n\xff,b\n", "not UTF-8 text"),
        ('image,mask_1\n"b.png,m1.png\n', "not a valid list of images and masks"),
        ("image,split,mask_1\nb.png,both,m1.png\n", "line 2 has the split 'both'"),
        ("image,mask_1\n,m1.png\n", "line 2 has no image"),
        ("image,key,mask_1\nb.png,a/b,m1.png\n", "line 2 has the key 'a/b', expected"),
        ("image,mask_1\nb.png,m1.png\nb.png,m2.png\n", "lines 2 and 3 are both about"),
        (
            "image,group,mask,grader\nb.png,p,m1.png,1\nb.png,q,m2.png,2\n",
            r"b.png has the groups \['p', 'q'\], expected one",
        ),
        (
            "image,split,mask_1\nb.png,train,m1.png\nx/a.png,,m2.png\n",
            "x/a.png has no split, but others have",
        ),
        ("image,mask,grader\nb.png,m1.png,\n", "line 2 lacks a mask or a grader"),
        ("image,mask,grader,class\nb.png,m1.png,1,cup\n", "expected --nested_classes"),
    ],
)
def test_lists_that_make_no_sense(root, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        _find(root, text)
    assert str(caught.value).startswith(str(root / "list.csv"))
    assert "\n" not in str(caught.value)


def test_unknown_nested_class(root):
    with pytest.raises(ValueError, match="line 2 has the class 'rim', expected one of"):
        _find(
            root,
            "image,mask,grader,class\nb.png,m1.png,1,rim\n",
            nested_classes="disc,cup",
        )
    with pytest.raises(ValueError, match="column 'mask_1', expected mask_GRADER_CLASS"):
        _find(root, "image,mask_1\nb.png,m1.png\n", nested_classes="disc,cup")


def test_names_that_would_be_the_same(root):
    (root / "x_a.png").touch()
    found = _find(root, "image,mask_1\nx/a.png,m1.png\nx_a.png,m2.png\nb.png,m3.png\n")
    assert list(_cases(found)) == ["b"]
    assert [str(problem) for problem in found.problems] == [
        "x/a.png: duplicate name (x_a.png would be called 'x_a' too; rename them)",
        "x_a.png: duplicate name (x/a.png would be called 'x_a' too; rename them)",
    ]


def test_mask_pattern(root):
    text = "image,mask_1,mask_2\nb.png,m1.png,m2.png\n"
    found = _find(root, text, mask_pattern="m2*")
    assert _cases(found)["b"][2] == {("2", None): "m2.png"}


@settings(max_examples=60)
@given(
    st.one_of(
        st.binary(max_size=80),
        st.text('image,;\t\n"mask_1grader.p/0\x00\u00fc', max_size=80).map(str.encode),
        st.text('m1.png,\n"b;', max_size=60).map(
            lambda t: b"image,mask_1\n" + t.encode()
        ),
    )
)
def test_any_text_is_a_list_or_an_error_of_one_line(tmp_path_factory, content):
    root = tmp_path_factory.getbasetemp()
    try:
        found = _find(root, content)
    except ValueError as error:
        assert str(root / "list.csv") in str(error) and "\n" not in str(error)
    else:
        assert not found.cases and found.problems


def test_no_list(tmp_path):
    with pytest.raises(FileNotFoundError, match="no.csv: no such list of images"):
        manifest.find(tmp_path / "no.csv", tmp_path, FolderConfig())
