import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.preparation import splits

PATIENTS = [f"LIDC-IDRI-{number:04d}" for number in range(1, 1011)]


def write(tmp_path, value):
    path = tmp_path / "splits.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_assign_gives_the_papers_sizes():
    result = splits.assign(PATIENTS)
    assert {split: len(names) for split, names in result.items()} == {
        "train": 722,
        "val": 144,
        "test": 144,
    }
    assert sorted(sum(result.values(), [])) == PATIENTS


def test_assign_does_not_depend_on_order_or_repetition():
    expected = splits.assign(PATIENTS)
    assert splits.assign(PATIENTS[::-1] + PATIENTS[:7]) == expected


def test_assign_is_pinned():
    # A change here moves patients between splits: results are not comparable then.
    result = splits.assign(PATIENTS)
    assert result["val"][:3] == ["LIDC-IDRI-0002", "LIDC-IDRI-0008", "LIDC-IDRI-0013"]
    assert result["test"][:3] == ["LIDC-IDRI-0016", "LIDC-IDRI-0021", "LIDC-IDRI-0027"]


def test_assign_depends_on_the_salt():
    # Two unrelated choices of 144 of 1010 share about 144 * 144 / 1010 = 21.
    first, second = (set(splits.assign(PATIENTS, salt)["val"]) for salt in "ab")
    assert 5 < len(first & second) < 40


def test_assign_is_not_by_number():
    # The mean of 144 numbers drawn from 1..1010 is 505 with deviation 22.5.
    for split in ("val", "test"):
        numbers = [int(name[-4:]) for name in splits.assign(PATIENTS)[split]]
        assert abs(sum(numbers) / len(numbers) - 505.5) < 90


@settings(max_examples=30)
@given(st.sets(st.text(min_size=1, max_size=5), max_size=60))
def test_assign_is_proportional_and_disjoint(names):
    result = splits.assign(names)
    assert sorted(sum(result.values(), [])) == sorted(names)
    for split in ("val", "test"):
        assert abs(len(result[split]) - len(names) * 144 / 1010) <= 0.5


def test_read_returns_the_file(tmp_path):
    value = {"train": ["a", "b"], "val": ["c"]}
    assert splits.read(write(tmp_path, value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"train": ["a"], "test": ["b", "a"]}, "'a' is in two splits, 'train' and"),
        ({"train": ["a", "a"]}, "'a' is listed twice in 'train'"),
        ({"training": ["a"]}, "split 'training', expected one of train, val, test"),
        ({"train": "a"}, "'train' is not a list of names"),
        ({"train": [1]}, "'train' is not a list of names"),
        ([], "expected a JSON object as split file, got list"),
        ({}, "the split file names no patient"),
        ({"train": []}, "the split file names no patient"),
        ("{", "not a valid split file in JSON"),
    ],
)
def test_read_refuses(tmp_path, value, message):
    path = write(tmp_path, value)
    with pytest.raises(ValueError, match="splits.json: ") as error:
        splits.read(path)
    assert message in str(error.value)


def test_read_names_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.json: no such split file"):
        splits.read(tmp_path / "none.json")


def test_shares():
    found = splits.assign_shares(
        PATIENTS[:20], val_share=0.1, test_share=0.25, salt="x"
    )
    assert {split: len(names) for split, names in found.items()} == {
        "train": 13,
        "val": 2,
        "test": 5,
    }
    assert sorted(sum(found.values(), [])) == PATIENTS[:20]
    again = splits.assign_shares(
        PATIENTS[:20][::-1], val_share=0.1, test_share=0.25, salt="x"
    )
    assert again == found
    # Pinned: a change here moves groups between the splits of everybody's data.
    assert found["val"] == ["LIDC-IDRI-0013", "LIDC-IDRI-0020"]


def test_shares_give_each_split_a_group_or_none():
    found = splits.assign_shares("abc", val_share=0.01, test_share=0.01, salt="x")
    assert sorted(map(len, found.values())) == [1, 1, 1]
    found = splits.assign_shares("abc", val_share=0.5, test_share=0.0, salt="x")
    assert {split: len(names) for split, names in found.items()} == {
        "train": 1,
        "val": 2,
    }
    with pytest.raises(
        ValueError, match="2 groups, of which 1 would be for validation"
    ):
        splits.assign_shares("ab", val_share=0.1, test_share=0.1, salt="x")
