"""Outlines find their slices: by identifier, by position, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from tf_probunet.imaging import dicom
from tf_probunet.preparation.lidc import annotation_xml, annotations
from tf_probunet.preparation.runner import UnitResult

SQUARE = ((4, 4), (8, 4), (8, 8), (4, 8))


def _header(index, z_mm, slice_location_mm=None):
    return dicom.SliceHeader(
        f"{index}.dcm",
        "patient",
        "1",
        "1.1",
        f"1.2.{index}",
        z_mm,
        slice_location_mm,
        index,
        (16, 16),
    )


@pytest.fixture
def stack():
    return dicom.stack_slices([_header(i, -100.0 + 2 * i) for i in range(3)])[0]


def _region(uid="", z_mm=None, points=SQUARE):
    return annotation_xml.Region(uid, z_mm, True, tuple(points))


@pytest.mark.parametrize(
    "region, index",
    [
        (_region("1.2.1"), 1),
        (_region("1.2.2", -96.0), 2),
        (_region("", -98.05), 1),  # Rounded to a tenth of a millimetre.
        (_region("9.9", -100.0), 0),  # An identifier of another series.
    ],
)
def test_the_slice_of_an_outline(stack, region, index):
    assert annotations.locate(region, stack, "x") == (index, [])


def test_the_identifier_wins_over_a_position_that_contradicts_it(stack):
    index, (problem,) = annotations.locate(_region("1.2.0", -96.0), stack, "lesion")
    assert index == 0
    assert problem.reason == "outline's position contradicts its slice"
    assert problem.where == "lesion"
    assert "z -96 mm" in problem.detail and "0.dcm at -100 mm" in problem.detail


def test_an_outline_may_have_the_sign_of_slice_location():
    stack = dicom.stack_slices([_header(0, -100.0, 100.0)])[0]
    assert annotations.locate(_region("1.2.0", 100.0), stack, "x") == (0, [])


def test_an_outline_without_a_slice_is_a_fault(stack):
    index, (problem,) = annotations.locate(_region("", -97.0), stack, "x")
    assert index is None and not problem.expected
    assert problem.detail == "imageSOP_UID missing, z -97.0 mm"


def test_outlines_of_each_radiologist_become_pixels(stack):
    nodule = annotation_xml.Nodule("N1", (_region("1.2.0"), _region("9.9", -98.0)))
    readings = [
        annotation_xml.Reading(nodules, 0, 0, ()) for nodules in ((), (nodule,))
    ]
    result = UnitResult()
    (found,) = annotations.read_annotations(readings, stack, "069.xml", result)
    assert found.grader == 1
    assert sorted(found.pixels) == [0, 1]
    # Outlines run along the outside of what they mark: the 3x3 pixels inside.
    expected = [(row, col) for row in (5, 6, 7) for col in (5, 6, 7)]
    np.testing.assert_array_equal(found.pixels[0], expected)
    assert result.counts == {"outlines found by position, not by SOPInstanceUID": 1}
    assert not result.problems
