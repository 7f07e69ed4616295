import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.preparation.lidc.lesions import (
    Annotation,
    boxes_overlap,
    grader_masks,
    group,
)


def box(grader, slices, rows, columns):
    """An annotation that fills a box given by first and last indices."""
    pixels = np.array(
        [
            (row, column)
            for row in range(rows[0], rows[1] + 1)
            for column in range(columns[0], columns[1] + 1)
        ]
    )
    return Annotation(grader, {i: pixels for i in range(slices[0], slices[1] + 1)})


def members(annotations):
    """The groups as sets of indices into `annotations`."""
    index = {id(annotation): i for i, annotation in enumerate(annotations)}
    return [[index[id(a)] for a in lesion] for lesion in group(annotations)]


def test_bounds_are_tight():
    annotation = Annotation(0, {7: np.array([[3, 9], [5, 2]]), 4: np.array([[8, 4]])})
    assert annotation.bounds().tolist() == [[4, 7], [3, 8], [2, 9]]


def test_four_graders_one_lesion():
    annotations = [box(g, (2, 5), (10 + g, 20), (30, 40 - g)) for g in range(4)]
    assert members(annotations) == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (((4, 6), (10, 20), (10, 20)), True),  # shares slice 4
        (((5, 6), (10, 20), (10, 20)), False),  # the next slice
        (((2, 4), (20, 25), (10, 20)), True),  # shares row 20
        (((2, 4), (21, 25), (10, 20)), False),
        (((2, 4), (10, 20), (20, 25)), True),
        (((2, 4), (10, 20), (21, 25)), False),
        (((3, 3), (12, 13), (14, 15)), True),  # inside of the other
        (((4, 9), (20, 29), (20, 29)), True),  # one common corner
    ],
)
def test_boxes_of_two_graders(second, same):
    annotations = [box(0, (2, 4), (10, 20), (10, 20)), box(1, *second)]
    assert members(annotations) == ([[0, 1]] if same else [[0], [1]])


def test_boxes_may_overlap_where_masks_do_not():
    # An L and the dot in its corner: no common pixel, but overlapping boxes.
    angle = Annotation(0, {1: np.array([[0, 0], [1, 0], [2, 0], [2, 1], [2, 2]])})
    dot = Annotation(1, {1: np.array([[0, 2]])})
    assert members([angle, dot]) == [[0, 1]]


def test_chain_is_one_lesion():
    annotations = [
        box(0, (1, 1), (0, 4), (0, 4)),
        box(1, (1, 1), (4, 8), (4, 8)),
        box(2, (1, 1), (8, 12), (8, 12)),
    ]
    assert members(annotations) == [[0, 1, 2]]


def test_one_graders_annotations_do_not_join_by_themselves():
    annotations = [box(0, (1, 2), (0, 5), (0, 5)), box(0, (2, 3), (4, 9), (4, 9))]
    assert members(annotations) == [[0], [1]]


def test_more_than_four_annotations_in_one_lesion():
    # Grader 1 saw one lesion where the others saw two each.
    top, bottom = ((1, 3), (0, 4), (0, 4)), ((1, 3), (6, 9), (0, 4))
    annotations = [
        box(0, *top),
        box(0, *bottom),
        box(1, (1, 3), (0, 9), (0, 4)),
        box(2, *top),
        box(2, *bottom),
        box(3, *bottom),
    ]
    assert members(annotations) == [[0, 1, 2, 3, 4, 5]]
    (lesion,) = group(annotations)
    masks = grader_masks(lesion, 2, (10, 5))
    assert masks.sum(axis=(1, 2)).tolist() == [45, 50, 45, 20]
    assert not masks[0, 5].any()  # a union, not a box around both


def test_lesions_are_ordered_by_slice_then_row_then_column():
    annotations = [
        box(0, (5, 6), (0, 1), (0, 1)),
        box(0, (2, 3), (7, 8), (0, 1)),
        box(0, (2, 9), (3, 4), (9, 9)),
        box(0, (2, 2), (3, 4), (1, 2)),
    ]
    assert members(annotations) == [[3], [2], [1], [0]]


def test_no_annotation_no_lesion():
    assert group([]) == []


def test_grader_masks_are_empty_where_nothing_was_marked():
    lesion = [box(2, (1, 1), (0, 1), (0, 2)), box(0, (2, 2), (0, 0), (0, 0))]
    masks = grader_masks(lesion, 1, (4, 4))
    assert masks.shape == (4, 4, 4)
    assert masks.sum(axis=(1, 2)).tolist() == [0, 0, 6, 0]


intervals = st.tuples(st.integers(0, 8), st.integers(0, 3)).map(
    lambda pair: (pair[0], sum(pair))
)


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, 3), intervals, intervals, intervals), max_size=9)
)
def test_groups_are_connected_components(boxes):
    annotations = [box(*values) for values in boxes]
    size = len(annotations)
    linked = np.eye(size, dtype=bool)
    for i in range(size):
        for j in range(size):
            voxels = [
                {(k, *p) for k, v in a.pixels.items() for p in v.tolist()}
                for a in (annotations[i], annotations[j])
            ]
            overlap = bool(voxels[0] & voxels[1])  # boxes are filled
            assert overlap == boxes_overlap(
                annotations[i].bounds(), annotations[j].bounds()
            )
            linked[i, j] |= overlap and boxes[i][0] != boxes[j][0]
    for _ in range(size):
        linked = linked @ linked
    found = members(annotations)
    assert sorted(sum(found, [])) == list(range(size))
    for lesion in found:
        assert linked[np.ix_(lesion, lesion)].all()
        others = [i for i in range(size) if i not in lesion]
        assert not linked[np.ix_(lesion, others)].any()
