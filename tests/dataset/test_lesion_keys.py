"""Lesions and slices from the keys that the preparations write."""

from __future__ import annotations

import pytest

from tf_probunet.dataset import lesion_keys

_PNG = "LIDC-IDRI-0001_nodule-0_slice-{}"
_CT = "LIDC-IDRI-0001_1a2b3c_n{:02d}_z{:.2f}"


def test_keys_of_both_preparations():
    png = lesion_keys.parse(_PNG.format(12))
    assert png == ("LIDC-IDRI-0001_nodule-0", "LIDC-IDRI-0001", 12, False)
    scan = lesion_keys.parse(_CT.format(3, -125.5))
    assert scan == ("LIDC-IDRI-0001_1a2b3c_n03", "LIDC-IDRI-0001_1a2b3c", -125.5, True)


def test_slices_are_ordered_by_number_not_by_name():
    keys = [_PNG.format(n) for n in (10, 9, 2)] + [_CT.format(1, z) for z in (2.5, -1)]
    assert lesion_keys.by_lesion(keys) == {
        "LIDC-IDRI-0001_1a2b3c_n01": [4, 3],
        "LIDC-IDRI-0001_nodule-0": [2, 1, 0],
    }


def test_slices_are_as_far_apart_as_the_closest_of_the_scan():
    keys = [_CT.format(0, z) for z in (0, 5)] + [_CT.format(1, 7.5), _PNG.format(1)]
    assert lesion_keys.distances_mm(keys) == {"LIDC-IDRI-0001_1a2b3c": 2.5}
    assert lesion_keys.distances_mm(keys[:1]) == {}


def test_other_keys_are_refused():
    with pytest.raises(ValueError, match="^phantom-1: names no slice of a lesion"):
        lesion_keys.parse("phantom-1")
    with pytest.raises(ValueError, match="the same slice of a lesion"):
        lesion_keys.by_lesion([_CT.format(1, 2), _CT.format(1, 2)])
