"""Which labels each task needs, and how they are scored."""

import pytest
from helpers import datasets

from tf_probunet.dataset import task
from tf_probunet.dataset.cityscapes_labels import CLASS_NAMES, TRAIN_CLASS_NAMES

STREET = datasets.spec(class_names=TRAIN_CLASS_NAMES, num_graders=1, ignore_label=255)
TWO = ("background", "lesion")


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        (datasets.spec(class_names=TWO), "plain", "binary"),
        (datasets.spec(class_names=TWO, ignore_label=255), "plain", "classes"),
        (datasets.spec(), "plain", "classes"),
        (STREET, "plain", "classes"),
        (STREET, "switched", "switched"),
    ],
)
def test_kind(spec, name, expected):
    assert task.kind(spec, name) == expected
    assert expected in task.KINDS


def test_classes_that_a_model_tells_apart():
    assert task.class_names(STREET.class_names, "plain") == TRAIN_CLASS_NAMES
    assert task.class_names(STREET.class_names, "switched") == CLASS_NAMES
    assert len(CLASS_NAMES) == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_names": TWO}, r"x: has 2 classes \(background, lesion, .* and 1 "),
        ({"num_graders": 4}, r"x: has 19 classes \(road, .* and 4 graders"),
        ({"class_names": TRAIN_CLASS_NAMES[::-1]}, r"has 19 classes \(bicycle, .*"),
    ],
)
def test_the_switched_task_needs_cityscapes_labels(changes, message):
    values = dict(class_names=TRAIN_CLASS_NAMES, num_graders=1, ignore_label=255)
    other = datasets.spec(**{**values, **changes})
    with pytest.raises(ValueError, match=message + ".*expected the 19 .* and 1 grader"):
        task.check(other, "switched", "x")
    task.check(other, "plain", "x")
    task.check(STREET, "switched", "x")
