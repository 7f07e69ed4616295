"""Which lesion a record shows a slice of, as its key says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# The keys that the preparations write: lesion and scan, then the slice's number or its
# height in mm.
_PATTERNS = (
    re.compile(r"(?P<lesion>(?P<scan>.+)_nodule-[^_]+)_slice-(?P<number>\d+)"),
    re.compile(r"(?P<lesion>(?P<scan>.+)_n\d+)_z(?P<height_mm>-?\d+\.\d+)"),
)


class LesionSlice(NamedTuple):
    """A slice of a lesion.

    Attributes:
        lesion: its name in the data set.
        scan: the name of the scan, or of the patient.
        place: the slice's number or height.
        in_mm: whether the place is a height in mm.
    """

    lesion: str
    scan: str
    place: float
    in_mm: bool


def parse(key: str) -> LesionSlice:
    """Returns which slice of which lesion a key names.

    Raises:
        ValueError: the key names none.
    """
    for pattern in _PATTERNS:
        found = pattern.fullmatch(key)
        if found:
            parts = found.groupdict()
            in_mm = "height_mm" in parts
            place = float(parts["height_mm"] if in_mm else parts["number"])
            return LesionSlice(parts["lesion"], parts["scan"], place, in_mm)
    raise ValueError(
        f"{key}: names no slice of a lesion, expected a key such as "
        "LIDC-IDRI-0001_nodule-0_slice-3 or LIDC-IDRI-0001_1a2b3c_n00_z-125.00; "
        "prepare the data with run/prepare_lidc.py"
    )


def by_lesion(keys: Sequence[str]) -> dict[str, list[int]]:
    """Returns the positions of each lesion's keys, from its lowest slice upwards.

    Raises:
        ValueError: a key names no slice of a lesion, or two name the same.
    """
    lesions: dict[str, list[int]] = {}
    slices = [parse(key) for key in keys]
    for index, one in enumerate(slices):
        lesions.setdefault(one.lesion, []).append(index)
    for indices in lesions.values():
        indices.sort(key=lambda i: slices[i].place)
        for low, high in zip(indices, indices[1:]):
            if slices[low].place == slices[high].place:
                raise ValueError(
                    f"{keys[low]} and {keys[high]} are the same slice of a lesion"
                )
    return dict(sorted(lesions.items()))


def distances_mm(keys: Sequence[str]) -> Mapping[str, float]:
    """Returns how far apart the slices of each scan are; only where that is known.

    It is the least difference of two heights among the lesions of the scan.
    """
    heights: dict[str, set[float]] = {}
    for one in map(parse, keys):
        if one.in_mm:
            heights.setdefault(one.scan, set()).add(one.place)
    return {
        scan: float(np.diff(sorted(found)).min())
        for scan, found in heights.items()
        if len(found) > 1
    }
