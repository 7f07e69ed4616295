"""Intervals, ambiguity and calibration of a data set as a whole."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from helpers.evaluations import (
    FEW_GROUPS,
    run,
)

from tf_probunet.dataset.cityscapes_labels import MODE_BITS
from tf_probunet.evaluation import evaluate, sample_files
from tf_probunet.evaluation import summary as summary_lib


def test_intervals_resample_groups(tmp_path, lesions, alternating, monkeypatch):
    monkeypatch.setattr(summary_lib, "MIN_GROUPS", 3)
    results = run(
        tmp_path, lesions.data_dir, saved_model=str(alternating), num_samples=(1,)
    )
    # Patients have means 1/4, 1/4 and 0: all three may be the last one (1 in 27).
    interval = results["ged"]["1"]
    assert (interval["low"], interval["high"]) == pytest.approx((0, 1 / 4))
    assert results["protocol"]["intervals"]["resampled"] == "groups"
    assert results["notes"] == []
    assert "[95% intervals by group]" in evaluate.table(results)


def test_intervals_resample_images_where_groups_are_few(tmp_path, lesions, alternating):
    results = run(
        tmp_path, lesions.data_dir, saved_model=str(alternating), num_samples=(1,)
    )
    # Two of six images have 1/2, the others 0: three of six drawn ones (8 %) exceed
    # the patients' 1/4, four (1.7 %) the bound.
    interval = results["ged"]["1"]
    assert (interval["low"], interval["high"]) == pytest.approx((0, 1 / 3), abs=0.01)
    assert results["protocol"]["intervals"]["resampled"] == "images"
    table = evaluate.table(results)
    assert "[95% intervals by image]" in table
    assert f"note: {FEW_GROUPS}" in table
    assert f"Note: {FEW_GROUPS}." in (tmp_path / "results.md").read_text()


def test_ambiguity_without_a_validation_split(tmp_path, lesions, alternating):
    for number, split in enumerate(["", "test", "nowhere"]):
        results = run(
            tmp_path / str(number),
            lesions.data_dir,
            saved_model=str(alternating),
            num_samples=(2,),
            validation_split=split,
        )
        assert "threshold" not in results["ambiguity"]
        # The sure patient is a half alone: "never", best there, misses both doubtful
        # lesions of the others, whose rule is right about the sure ones.
        expected = pytest.approx(4 / 6) if split == "test" else None
        assert results["ambiguity"].get("accuracy") == expected
        assert results["ambiguity"]["auroc"] == 1
        notes = [note for note in results["notes"] if note != FEW_GROUPS]
        assert len(notes) == bool(split)
        assert not split or repr(split) in notes[0]


def test_a_model_without_persons_does_not_read_as_calibrated(tmp_path, streets):
    info, _, samples = streets
    for i, maps in enumerate(samples):
        maps[(maps == 11) | (maps == 20)] = 2
        sample_files.write(tmp_path / "samples", f"key-{i:03d}", maps)
    results = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        task="switched",
        num_samples=(4,),
    )
    (note,) = results["notes"]
    assert note.startswith("100% of the samples fit several modes, because they lack")
    modes = np.array(results["mode_calibration"]["frequencies"])
    flips = modes[MODE_BITS[:, 1]].sum()
    assert flips == pytest.approx(7 / 17)  # As if it flipped persons as it should.
    assert results["pixel_calibration"]["largest_gap"] == pytest.approx(10 / 17)
    assert results["mode_calibration"]["undecided"] == 1
    assert results["mode_calibration"]["undecided_by_class"]["person"] == 1
    assert results["mode_calibration"]["undecided_by_class"]["car"] == 0
    table = evaluate.table(results).splitlines()
    cells = (re.split(r" {2,}", line.strip()) for line in table)
    lines = {title: values for title, *values in cells}
    assert lines["of a class's pixels, share drawn as"][1] == "person"
    assert [lines[n][1] for n in ("the class itself", "its new class")] == ["0.000"] * 2
    assert lines["other classes"][1] == "1.000"
    assert lines["samples that decide for neither"][1] == "1.000"
    assert lines["largest ratio of mode frequencies"] == ["infinite"]
    assert lines["samples that fit several modes, share"] == ["1.000"]
    assert lines["largest gap of pixel frequencies"] == ["0.588"]
    assert 0 < float(lines["mIoU of 19 classes, flips folded back"][0]) < 1
    with open(tmp_path / "out" / "results.csv", newline="") as handle:
        rows = {row["metric"]: row["mean"] for row in csv.DictReader(handle)}
    assert rows["pixel_calibration.person.new_class"] == "0.0"
    assert rows["mode_calibration.undecided_by_class.person"] == "1.0"


def test_images_without_a_value_are_left_out_and_counted():
    columns = {
        "whole": np.array([1.0, 2.0, 3.0]),
        "gaps": np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan]]),
    }
    found = summary_lib.intervals(columns, np.array(["a", "b", "c"]))
    assert found["whole"]["mean"] == 2
    assert set(found["whole"]) == {"mean", "low", "high"}
    first, second = found["gaps"]
    assert (first["mean"], first["left_out"]) == (2, 1)
    assert second == {"mean": None, "low": None, "high": None, "left_out": 3}


def test_few_groups_are_not_resampled():
    assert summary_lib.resampled(["a", "b", "b"]) == "images"
    assert summary_lib.resampled(["a", "b", "c"]) == "groups"  # One image each.
    assert summary_lib.resampled([f"group {i // 2}" for i in range(20)]) == "groups"


def test_numbers_that_json_does_not_know_become_null():
    found = summary_lib.plain(
        {4: np.array([1.0, np.nan]), "b": (np.float32(0.5), np.int64(3), float("inf"))}
    )
    assert found == {"4": [1.0, None], "b": [0.5, 3, None]}
    assert type(found["b"][1]) is int
