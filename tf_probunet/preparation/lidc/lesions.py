"""Decides which radiologists' annotations show the same lesion."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Annotation:
    """One radiologist's mask of one lesion.

    Attributes:
        grader: index of the radiologist's reading in the annotation file.
        pixels: for the index of each slice it was marked on, the rows and columns of
            the mask's pixels, [N, 2] with N > 0.
    """

    grader: int
    pixels: dict[int, np.ndarray]

    def bounds(self) -> np.ndarray:
        """Returns the tightest box, [3, 2] int.

        Its rows are the slice, the row and the column, each as first and last index.
        """
        indices = sorted(self.pixels)
        in_plane = np.concatenate([self.pixels[index] for index in indices])
        low = [indices[0], *in_plane.min(axis=0)]
        high = [indices[-1], *in_plane.max(axis=0)]
        return np.stack([low, high], axis=1)


def boxes_overlap(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two boxes have a voxel in common.

    Args:
        first: [3, 2] first and last index on each axis.
        second: likewise.
    """
    return bool(np.all((first[:, 0] <= second[:, 1]) & (second[:, 0] <= first[:, 1])))


def group(annotations: Sequence[Annotation]) -> list[list[Annotation]]:
    """Groups annotations into lesions.

    Two annotations of different graders whose tightest boxes overlap show the same
    lesion, and so do chains of such annotations. Two annotations of one grader are
    joined only if another grader's annotation overlaps both.

    Args:
        annotations: all annotations of a scan.

    Returns:
        The lesions, from low to high z (then row, then column), each with its
        annotations in the given order.
    """
    boxes = [annotation.bounds() for annotation in annotations]
    lesion_of = list(range(len(annotations)))
    for i, first in enumerate(annotations):
        for j, second in enumerate(annotations[:i]):
            if first.grader != second.grader and boxes_overlap(boxes[i], boxes[j]):
                old, new = lesion_of[i], lesion_of[j]
                lesion_of = [new if lesion == old else lesion for lesion in lesion_of]
    members: dict[int, list[int]] = {}
    for index, lesion in enumerate(lesion_of):
        members.setdefault(lesion, []).append(index)

    def position(indices: list[int]) -> tuple[int, ...]:
        return tuple(np.min([boxes[i][:, 0] for i in indices], axis=0).tolist())

    # Annotations of one grader may share a corner: the index then decides.
    ordered = sorted(members.values(), key=lambda indices: (position(indices), indices))
    return [[annotations[i] for i in indices] for indices in ordered]


def grader_masks(
    lesion: Sequence[Annotation],
    index: int,
    shape: tuple[int, ...],
    num_graders: int = 4,
) -> np.ndarray:
    """Returns the mask of each grader for a lesion on a slice.

    Several annotations of one grader are united.

    Args:
        lesion: annotations of one lesion.
        index: of the slice.
        shape: (rows, columns) of the slice.
        num_graders: how many readings the scan has.

    Returns:
        [num_graders, rows, columns] bool; all False where a grader marked nothing.
    """
    masks = np.zeros((num_graders, *shape), bool)
    for annotation in lesion:
        if index in annotation.pixels:
            rows, columns = annotation.pixels[index].T
            masks[annotation.grader, rows, columns] = True
    return masks
