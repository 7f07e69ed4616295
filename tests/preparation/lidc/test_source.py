"""What all kinds of LIDC input share: images that nobody marked are left out."""

from __future__ import annotations

import numpy as np
import pytest

from tf_probunet.dataset.records import Example
from tf_probunet.preparation.lidc.source import add_example
from tf_probunet.preparation.runner import UnitResult


def _example(marks: int) -> Example:
    labels = np.zeros((4, 6, 6), np.uint8)
    labels[:marks, 2:4, 2:4] = 1
    return Example("key", "patient", np.zeros((6, 6, 1), np.int16), labels)


@pytest.mark.parametrize("marks", [1, 2, 3, 4])
def test_images_are_counted_by_their_graders(marks):
    result, example = UnitResult(), _example(marks)
    add_example(result, "val", example)
    assert result.examples == [("val", example)]
    assert result.counts == {f"images marked by {marks} of 4 graders": 1}
    assert not result.problems


def test_an_image_that_nobody_marked_is_dropped_by_the_recipe():
    result = UnitResult()
    add_example(result, "train", _example(0))
    assert not result.examples and not result.counts
    (problem,) = result.problems
    assert (problem.reason, problem.where) == ("image with four empty masks", "key")
    assert problem.expected  # It is no fault in a strict run.
