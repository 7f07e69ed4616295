"""The table of changes and seeds, by hand."""

import pytest

from tf_probunet.evaluation import settings_table


def test_scores_means_and_differences():
    scores = {"none": [0.3, 0.32, 0.34], "--beta=1": [0.33, 0.31, 0.41]}
    assert settings_table.table(scores, seeds=[0, 1, 7]) == [
        ["changes", "seed 0", "seed 1", "seed 7", "mean", "difference", "worse with"],
        ["none", "0.300", "0.320", "0.340", "0.320", "-", "-"],
        ["--beta=1", "0.330", "0.310", "0.410", "0.350", "+0.030", "2 of 3 seeds"],
    ]


def test_equal_scores_are_not_worse():
    rows = settings_table.table({"none": [0.25], "--flip": [0.25]}, seeds=[3])
    assert rows[2][-2:] == ["+0.000", "0 of 1 seeds"]


def test_better_is_negative():
    rows = settings_table.table({"none": [0.5, 0.7], "--flip": [0.4, 0.6]}, [0, 1])
    assert rows[2][3:] == ["0.500", "-0.100", "0 of 2 seeds"]


def test_every_seed_has_a_score():
    with pytest.raises(ValueError, match="--flip: 1 scores, expected 2, one per seed"):
        settings_table.table({"none": [0.1, 0.2], "--flip": [0.1]}, seeds=[0, 1])
