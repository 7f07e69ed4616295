"""The published splits of the pickle, against what their own code gives."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from helpers.evaluations import run
from helpers.lidc_pickles import entry, write

from tf_probunet.dataset import records
from tf_probunet.evaluation import sample_files, tables
from tf_probunet.evaluation.sources import split_keys
from tf_probunet.preparation import splits
from tf_probunet.preparation.lidc import known_splits
from tf_probunet.preparation.lidc import prepare as lidc
from tf_probunet.preparation.lidc.known_splits import KNOWN_SPLITS

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_a_fifth_is_held_out_as_by_scikit_learn():
    # As scikit-learn 1.9.1 gives for train_test_split(names, test_size=0.2,
    # random_state=0), and again for the rest.
    names = list("abcdefg")
    assert KNOWN_SPLITS["mose"].assign(names) == {
        "train": ["b", "d", "f", "e"],
        "val": ["a"],
        "test": ["g", "c"],
    }
    found = KNOWN_SPLITS["mose"].assign([f"s{i:03d}" for i in range(100)])
    assert found["test"][:5] == ["s026", "s086", "s002", "s055", "s075"]
    assert found["val"][:5] == ["s019", "s040", "s091", "s064", "s085"]
    assert [len(found[split]) for split in splits.SPLITS] == [64, 16, 20]
    # The order in the example of its documentation, with random_state=42.
    kept, held_out = known_splits._hold_out(range(5), seed=42)
    assert (kept, held_out) == ([4, 2, 0, 3], [1])


def test_slices_are_shuffled_as_by_numpy():
    order = list(range(10))
    np.random.seed(42)  # As the code of ATFM does.
    np.random.shuffle(order)
    assert order == [8, 1, 5, 0, 7, 2, 9, 4, 3, 6]
    found = KNOWN_SPLITS["atfm"].assign([str(place) for place in range(10)])
    assert found == {"train": list("815072"), "val": list("94"), "test": list("36")}
    sizes = {k: len(v) for k, v in KNOWN_SPLITS["atfm"].assign(range(15096)).items()}
    assert sizes == {"train": 9057, "val": 3019, "test": 3020}


@pytest.mark.parametrize("name", KNOWN_SPLITS)
def test_everything_is_in_one_split_and_the_exceptions_are_said(name):
    known = KNOWN_SPLITS[name]
    names = [f"{i:04d}" for i in range(101)]
    assert sorted(splits.split_of(known.assign(names))) == names
    assert (known.warning is not None) == known.by_slice == ("slice" in known.rule)
    assert (known.note is not None) == ("no seed" in known.rule)


@pytest.fixture(name="data", scope="module")
def fixture_data(tmp_path_factory):
    """A pickle of 12 series with three slices each, not in alphabetical order."""
    path = tmp_path_factory.mktemp("pickle")
    value = {
        f"{series:02d}_{place}": entry(f"1.{series}")
        for place in range(3)
        for series in reversed(range(12))
    }
    return write(path, value), list(value)


def _keys(out_dir):
    info = records.read_info(out_dir)
    return {split: set(split_keys(info, split)) for split in info.splits}


def test_a_split_by_series(data, tmp_path):
    path, keys = data
    lidc.prepare(
        path,
        tmp_path,
        source_format="pickle",
        known_split="mose",
        num_workers=1,
    )
    series = np.unique([f"1.{i}" for i in range(12)]).tolist()
    expected = KNOWN_SPLITS["mose"].assign(series)
    assert _keys(tmp_path) == {
        split: {key for key in keys if f"1.{int(key[:2])}" in groups}
        for split, groups in expected.items()
    }
    written = json.loads((tmp_path / splits.FILE_NAME).read_text())
    assert written == expected
    known = records.read_info(tmp_path).spec.preparation["known_split"]
    assert (known["name"], known["note"], known["warning"]) == ("mose", None, None)


def test_a_split_by_slice_warns_in_the_results(data, tmp_path):
    path, keys = data
    command = [
        *(sys.executable, ROOT / "run" / "prepare_lidc.py", "--format=pickle"),
        *(f"--input_dir={path}", f"--out_dir={tmp_path / 'data'}", "--num_workers=1"),
        "--known_split=atfm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"warning: {known_splits.MIXED}" in done.stdout
    # The order is that of the file.
    expected = KNOWN_SPLITS["atfm"].assign(keys)
    assert _keys(tmp_path / "data") == {s: set(k) for s, k in expected.items()}
    for key in expected["test"]:
        samples = np.zeros((1, 128, 128), np.uint8)
        sample_files.write(tmp_path / "samples", key, samples)
    results = run(
        tmp_path / "out",
        tmp_path / "data",
        samples_dir=str(tmp_path / "samples"),
        num_samples=(1,),
    )
    assert results["data"]["known_split"]["warning"] == known_splits.MIXED
    # Groups are the parts of series, none of which is in two splits.
    assert results["data"]["groups"] == len({key[:2] for key in expected["test"]})
    for table in (tables.text_table(results), tables.markdown_table(results)):
        assert f"WARNING: {known_splits.MIXED}" in table
        assert "split of the code of ATFM (Li et al. 2025): by slice" in table


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"known_split": "mose", "source_format": "crops"},
            "--known_split=mose goes with --format=pickle, got --format=crops",
        ),
        (
            {"known_split": "mose", "split_file": "a.json"},
            "--known_split=mose and --split_file=a.json: expected one of them",
        ),
        ({"known_split": "x"}, "known_split is 'x', expected one of mose, phiseg,"),
    ],
)
def test_what_does_not_go_together(settings, message, tmp_path):
    settings = {"source_format": "pickle", **settings}
    with pytest.raises(ValueError, match=message):
        lidc.prepare(tmp_path / "none", tmp_path / "out", **settings)


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    path = write(tmp_path, {1: entry("1.1"), "1": entry("1.2")})
    with pytest.raises(ValueError, match=r"data.pickle: '1' "):
        lidc.prepare(path, tmp_path / "o", source_format="pickle", known_split="atfm")
