"""Tests of grouping samples: hand-worked, and by brute force over all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.predict.hypotheses import group


def _bars(*lengths):
    """Samples that mark the first so many of 20 pixels."""
    return np.stack([(np.arange(20) < n).astype(np.uint8)[None] for n in lengths])


def test_by_hand():
    labels = _bars(0, 10, 9, 20, 0, 10)
    found = group(labels, num_classes=2, least_iou=0.7)
    assert [h.samples for h in found] == [(1, 2, 5), (0, 4), (3,)]
    assert [h.share for h in found] == [3 / 6, 2 / 6, 1 / 6]
    assert [h.is_empty for h in found] == [False, True, False]
    assert [h.representative for h in found] == [1, 0, 3]


@pytest.mark.parametrize("least, groups", [(0.9, 1), (0.91, 2)])
def test_the_limit_itself_is_enough(least, groups):
    found = group(_bars(10, 9), num_classes=2, least_iou=least)  # IoU 0.9
    assert len(found) == groups


def test_a_chain_is_not_one_hypothesis():
    # Neighbours have an IoU of 0.8, the ends one of 0.64.
    found = group(_bars(8, 10, 12), num_classes=2, least_iou=0.8)
    assert len(found) == 2


def test_one_sample():
    (only,) = group(_bars(0), num_classes=2, least_iou=0.5)
    assert only.samples == (0,) and only.share == 1 and only.is_empty


@pytest.mark.parametrize("background, iou", [(True, 3 / 4), (False, 5 / 7)])
def test_several_classes_count_by_their_area(background, iou):
    first = np.array([[[0, 0, 1, 1, 2, 2]]])
    second = np.array([[[0, 0, 1, 1, 2, 0]]])  # Shared 2 + 2 + 1 of 3 + 2 + 2
    labels = np.concatenate([first, second]).astype(np.uint8)
    settings = {"num_classes": 3, "has_background": background}
    assert len(group(labels, least_iou=iou, **settings)) == 1
    assert len(group(labels, least_iou=iou + 0.01, **settings)) == 2


def _streets(flipped):
    """Maps of 40x50: a road (0, or 23 where flipped), a car that moves, strays."""
    rng = np.random.default_rng(0)
    maps = []
    for flip in flipped:
        labels = np.full((40, 50), 23 if flip else 0)
        row, col = rng.integers(9, 12, 2)
        labels[row : row + 8, col : col + 20] = 13
        stray = rng.integers(0, labels.size, 40)
        labels.flat[stray] = rng.integers(1, 23, 40)
        maps.append(labels)
    return np.array(maps, np.uint8)


def test_samples_of_street_scenes_are_not_all_distinct():
    """Small classes differ in any two samples; a flipped road is another hypothesis."""
    flipped = [False, True, False, False, True, False]
    found = group(
        _streets(flipped), num_classes=24, least_iou=0.7, has_background=False
    )
    assert [h.samples for h in found] == [(0, 2, 3, 5), (1, 4)]


def _iou(first, second):
    union = (first | second).sum()
    return 1.0 if union == 0 else (first & second).sum() / union


@settings(max_examples=40, deadline=None)
@given(
    masks=st.lists(
        st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=7
    ),
    least=st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]),
)
def test_all_pairs_of_a_group_agree(masks, least):
    labels = np.array(masks, np.uint8)[:, None]
    found = group(labels, num_classes=2, least_iou=least)
    members = sorted(i for h in found for i in h.samples)
    assert members == list(range(len(labels)))
    assert sum(h.share for h in found) == pytest.approx(1)
    assert [h.share for h in found] == sorted((h.share for h in found), reverse=True)
    for hypothesis in found:
        for i, j in itertools.combinations(hypothesis.samples, 2):
            assert _iou(labels[i], labels[j]) >= least - 1e-6
        sums = [
            sum(_iou(labels[i], labels[j]) for j in hypothesis.samples)
            for i in hypothesis.samples
        ]
        best = hypothesis.samples[int(np.argmax(np.round(sums, 9)))]
        assert hypothesis.representative == best
