"""The label table against the official one, the switches against the paper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tf_probunet.dataset import cityscapes_labels as table

# id: (name, training id) of the classes that the official benchmark evaluates.
OFFICIAL = {
    7: ("road", 0),
    8: ("sidewalk", 1),
    11: ("building", 2),
    12: ("wall", 3),
    13: ("fence", 4),
    17: ("pole", 5),
    19: ("traffic light", 6),
    20: ("traffic sign", 7),
    21: ("vegetation", 8),
    22: ("terrain", 9),
    23: ("sky", 10),
    24: ("person", 11),
    25: ("rider", 12),
    26: ("car", 13),
    27: ("truck", 14),
    28: ("bus", 15),
    31: ("train", 16),
    32: ("motorcycle", 17),
    33: ("bicycle", 18),
}


def test_training_classes_are_the_official_ones():
    assert table.NUM_TRAIN_CLASSES == len(OFFICIAL) == 19
    assert table.TRAIN_CLASS_NAMES == tuple(name for name, _ in OFFICIAL.values())
    assert {
        label.id: (label.name, label.train_id)
        for label in table.LABELS
        if label.train_id is not None
    } == OFFICIAL


def test_all_34_ids_stand_in_order():
    assert [label.id for label in table.LABELS] == list(range(34))
    assert len({label.name for label in table.LABELS}) == 34


def test_every_byte_maps_to_its_training_id_or_ignore():
    expected = np.array([OFFICIAL.get(i, (None, 255))[1] for i in range(256)])
    ids = np.arange(256, dtype=np.uint8).reshape(16, 16)
    result = table.to_train_ids(ids)
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result.ravel(), expected)
    with pytest.raises(ValueError, match="dtype int64"):
        table.to_train_ids(ids.astype(np.int64))


def test_switches_are_those_of_the_paper():
    assert [(s.name, s.new_class_id, s.probability) for s in table.SWITCHES] == [
        ("sidewalk", 19, Fraction(8, 17)),
        ("person", 20, Fraction(7, 17)),
        ("car", 21, Fraction(6, 17)),
        ("vegetation", 22, Fraction(5, 17)),
        ("road", 23, Fraction(4, 17)),
    ]
    for switch in table.SWITCHES:
        assert table.CLASS_NAMES[switch.class_id] == switch.name
        assert table.CLASS_NAMES[switch.new_class_id] == f"{switch.name} 2"
    assert table.NUM_CLASSES == len(table.CLASS_NAMES) == 24


def test_mode_probabilities():
    p = table.MODE_PROBABILITIES
    assert p.shape == (table.NUM_MODES,) == (32,)
    assert p.sum() == pytest.approx(1, abs=1e-15)
    assert len(np.unique(p)) == 32
    # The paper's extremes: 10.9 % with nothing flipped, 0.5 % with all flipped.
    assert (p.argmax(), round(100 * p.max(), 1)) == (0, 10.9)
    assert (p.argmin(), round(100 * p.min(), 1)) == (31, 0.5)
    # Person and road flipped.
    assert p[0b10010] == pytest.approx(9 * 7 * 11 * 12 * 4 / 17**5)


def test_flip_frequencies_over_many_draws():
    rng = np.random.default_rng(2)
    modes = rng.choice(32, 20000, p=table.MODE_PROBABILITIES)
    flipped = table.MODE_BITS[modes].mean(axis=0)
    # Six standard errors of a frequency.
    np.testing.assert_allclose(flipped, np.arange(8, 3, -1) / 17, atol=0.0215)
    together = np.corrcoef(table.MODE_BITS[modes].T) - np.eye(5)
    assert np.abs(together).max() < 6 / np.sqrt(20000)


def test_switch_table_flips_the_bits_of_the_mode():
    labels = np.array([1, 11, 13, 8, 0, 2, 18, 255])
    np.testing.assert_array_equal(table.switch_table(0)[labels], labels)
    np.testing.assert_array_equal(
        table.switch_table(31)[labels], [19, 20, 21, 22, 23, 2, 18, 255]
    )
    np.testing.assert_array_equal(
        table.switch_table(0b10100)[labels], [1, 11, 21, 8, 23, 2, 18, 255]
    )
    for mode in (-1, 32):
        with pytest.raises(ValueError, match=f"mode is {mode}"):
            table.switch_table(mode)


def test_colours_are_distinct_and_the_official_ones():
    assert table.COLORS.shape == (24, 3)
    every = np.vstack([table.COLORS, table.IGNORE_COLOR]).astype(int)
    gaps = np.abs(every[:, None] - every[None]).sum(axis=2)
    assert gaps[~np.eye(25, dtype=bool)].min() > 0
    # The new classes must be told apart at a glance from everything else.
    assert np.sort(gaps[19:24], axis=1)[:, 1].min() >= 100
    np.testing.assert_array_equal(table.COLORS[0], (128, 64, 128))
    np.testing.assert_array_equal(table.COLORS[18], (119, 11, 32))


def test_colorize():
    labels = np.array([[0, 23], [255, 10]])
    image = table.colorize(labels)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image[0, 0], (128, 64, 128))
    np.testing.assert_array_equal(image[1], [(0, 0, 0), (70, 130, 180)])
    np.testing.assert_array_equal(image[0, 1], table.COLORS[23])
    with pytest.raises(ValueError, match="label 24 has no colour"):
        table.colorize(np.array([24]))


def test_tables_can_not_be_changed_by_accident():
    for array in (table.COLORS, table.MODE_BITS, table.MODE_PROBABILITIES):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
