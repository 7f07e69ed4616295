"""Tests of tf_probunet.preparation.runner."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
import tensorflow as tf
from helpers import datasets, units

from tf_probunet.dataset import records
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation import runner


@pytest.fixture
def scratch(tmp_path) -> pathlib.Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The files of a run that nothing interrupts."""
    out_dir = tmp_path_factory.mktemp("undisturbed")
    scratch = tmp_path_factory.mktemp("scratch")
    _run(scratch, out_dir)
    assert units.calls(scratch) == [1] * 6
    return datasets.contents(out_dir)


def _run(
    scratch: pathlib.Path,
    out_dir: pathlib.Path,
    inputs=None,
    process=units.process,
    **changes,
):
    settings = {
        "spec": datasets.spec(),
        "splits": units.SPLITS,
        "num_workers": 1,
        "examples_per_shard": 8,
    }
    settings.update(changes)
    work = units.units(scratch, inputs=inputs)
    return runner.run(work, process, out_dir=out_dir, **settings)


def test_all_examples_come_out(tmp_path, scratch):
    report = _run(scratch, tmp_path / "out")
    info = records.read_info(tmp_path / "out")
    assert (info.count("train"), info.count("val")) == (15, 3)
    keys = [
        records.parse(serialized, info.spec)["key"].numpy().decode()
        for split in ("train", "val")
        for serialized in tf.data.TFRecordDataset(info.shard_paths(split))
    ]
    assert sorted(keys) == [f"key-{i:03d}" for i in range(18)]
    assert report["splits"] == {
        "train": {"examples": 15, "groups": 5},
        "val": {"examples": 3, "groups": 1},
    }


def test_only_the_data_set_and_the_report_are_left(undisturbed):
    assert sorted(undisturbed) == [
        "dataset_info.json",
        "report.json",
        "report.txt",
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfrecord",
        "val-00000-of-00001.tfrecord",
    ]


def test_report_tells_counts_and_problems(tmp_path, scratch):
    report = _run(
        scratch,
        tmp_path / "out",
        problems=[Problem("no annotation", "scan 9")],
        counts={"slices": 2, "scans": 7},
    )
    assert report["counts"] == {"outlines": 150, "scans": 7, "slices": 20}
    assert report["problems"] == {
        "no annotation": [{"where": "scan 9", "detail": ""}],
        "odd spacing": [{"where": "scan 2/7", "detail": "2 mm"}],
        "too small": [{"where": "scan 3", "detail": ""}],
    }
    assert report["preparation"] == {"recipe": 1}
    out_dir = tmp_path / "out"
    assert json.loads((out_dir / "report.json").read_text()) == report
    assert (out_dir / "report.txt").read_text() == (
        "data set made up\n"
        "  train: 15 images of 5 groups\n"
        "  val: 3 images of 1 groups\n"
        "  outlines: 150\n"
        "  scans: 7\n"
        "  slices: 20\n"
        "dropped or in doubt, no annotation: 1\n"
        "  scan 9\n"
        "dropped or in doubt, odd spacing: 1\n"
        "  scan 2/7 (2 mm)\n"
        "dropped or in doubt, too small: 1\n"
        "  scan 3\n"
    )
    summary = runner.report_summary(report)
    assert "  dropped or in doubt, odd spacing: 1\n" in summary
    assert "scan 2/7" not in summary


def test_second_run_gives_the_same_bytes(tmp_path, scratch, undisturbed):
    _run(scratch, tmp_path / "out")
    _run(scratch, tmp_path / "out")
    assert datasets.contents(tmp_path / "out") == undisturbed


def test_interrupted_run_goes_on_where_it_stopped(tmp_path, scratch, undisturbed):
    (scratch / "fail-3").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out")
    assert units.calls(scratch) == [1, 1, 1, 1, 0, 0]
    assert not (tmp_path / "out" / "dataset_info.json").exists()
    (scratch / "fail-3").unlink()
    _run(scratch, tmp_path / "out")
    assert units.calls(scratch) == [1, 1, 1, 2, 1, 1]
    assert datasets.contents(tmp_path / "out") == undisturbed


def test_units_whose_files_have_changed_are_made_again(tmp_path, scratch):
    for index in range(6):
        (tmp_path / f"scan-{index}").write_text("old")
    (scratch / "fail-4").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out", inputs=tmp_path)
    (scratch / "fail-4").unlink()
    before = (tmp_path / "scan-0").stat()
    (tmp_path / "scan-0").write_text("older")  # another size, the same time
    os.utime(tmp_path / "scan-0", ns=(before.st_atime_ns, before.st_mtime_ns))
    before = (tmp_path / "scan-1").stat()  # the same size, a nanosecond later
    os.utime(tmp_path / "scan-1", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    (tmp_path / "scan-2").unlink()
    _run(scratch, tmp_path / "out", inputs=tmp_path)
    assert units.calls(scratch) == [2, 2, 2, 1, 2, 1]


def test_file_that_changes_after_the_start_makes_its_part_useless(tmp_path, scratch):
    # As where all units are read from one file before the first is processed.
    for index in range(6):
        (tmp_path / f"scan-{index}").write_text("old")
    (scratch / "fail-4").write_text("interrupt")

    def changing(unit):
        (tmp_path / "scan-0").write_text("changed")
        return units.process(unit)

    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out", inputs=tmp_path, process=changing)
    (scratch / "fail-4").unlink()
    _run(scratch, tmp_path / "out", inputs=tmp_path)
    assert units.calls(scratch) == [2, 1, 1, 1, 2, 1]


def test_damaged_part_is_made_again(tmp_path, scratch, undisturbed):
    (scratch / "fail-3").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out")
    (scratch / "fail-3").unlink()
    first, second, _ = sorted((tmp_path / "out").rglob("*.bin"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    _run(scratch, tmp_path / "out")
    assert sum(units.calls(scratch)[:3]) == 5
    assert datasets.contents(tmp_path / "out") == undisturbed


def test_processes_that_die_and_workers_change_no_byte(tmp_path, scratch, undisturbed):
    (scratch / "fail-5").write_text("die")
    with pytest.raises(OSError, match="one of 2 processes died.*--num_workers"):
        _run(scratch, tmp_path / "out", num_workers=2)
    # What a process was writing when it was ended has a name with a dot: not kept.
    kept = len(list((tmp_path / "out").rglob("[!.]*.json")))
    (scratch / "fail-5").unlink()
    before = sum(units.calls(scratch))
    _run(scratch, tmp_path / "out", num_workers=2)
    assert sum(units.calls(scratch)) - before == 6 - kept
    assert datasets.contents(tmp_path / "out") == undisturbed


def test_failed_units_are_recorded_and_tried_again(tmp_path, scratch, undisturbed):
    (scratch / "fail-1").write_text("file.dcm: no pixels\n  at all")
    report = _run(scratch, tmp_path / "out")
    assert report["problems"]["skipped"] == [
        {"where": "scan 1", "detail": "file.dcm: no pixels at all"}
    ]
    assert report["splits"]["train"] == {"examples": 12, "groups": 4}
    assert report["counts"] == {"outlines": 140, "slices": 15}
    (scratch / "fail-1").unlink()
    _run(scratch, tmp_path / "out")
    assert datasets.contents(tmp_path / "out") == undisturbed


def test_skipped_unit_of_an_interrupted_run_is_tried_again(tmp_path, scratch):
    (scratch / "fail-1").write_text("disk asleep")
    (scratch / "fail-4").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out")
    (scratch / "fail-1").unlink()
    (scratch / "fail-4").unlink()
    assert "skipped" not in _run(scratch, tmp_path / "out")["problems"]
    assert units.calls(scratch) == [1, 2, 1, 1, 2, 1]


def test_example_that_does_not_fit_skips_its_unit(tmp_path, scratch):
    spec = datasets.spec(class_names=("a", "b", "c"))
    with pytest.raises(ValueError, match=r"no example came out of 6 units; 6 problems"):
        _run(scratch, tmp_path / "out", spec=spec)


def test_progress_counts_images_and_faults_also_of_the_run_before(
    tmp_path, scratch, capsys
):
    (scratch / "fail-3").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out")
    (scratch / "fail-3").unlink()
    capsys.readouterr()
    _run(scratch, tmp_path / "out")
    # What unit 3 leaves out by the recipe is no fault.
    assert "18 images, faults in the files: 1" in capsys.readouterr().err


def test_groups_without_an_example_are_listed(tmp_path, scratch):
    report = _run(scratch, tmp_path / "out", groups=["scan 1", "scan 9"], strict=False)
    assert report["problems"]["without a single image"] == [
        {"where": "scan 9", "detail": ""}
    ]


def test_strict_run_stops_at_the_first_fault(tmp_path, scratch):
    with pytest.raises(ValueError, match=r"^scan 2/7: odd spacing \(2 mm\)$"):
        _run(scratch, tmp_path / "out", strict=True)
    assert units.calls(scratch) == [1, 1, 1, 0, 0, 0]
    # The part is kept, and so is its fault.
    with pytest.raises(ValueError, match=r"^scan 2/7: odd spacing \(2 mm\)$"):
        _run(scratch, tmp_path / "out", strict=True)
    assert units.calls(scratch) == [1, 1, 1, 0, 0, 0]


def test_strict_run_stops_at_a_unit_that_fails(tmp_path, scratch):
    (scratch / "fail-0").write_text("no pixels")
    with pytest.raises(ValueError, match=r"^scan 0: skipped \(no pixels\)$"):
        _run(scratch, tmp_path / "out", strict=True)


def test_strict_run_counts_problems_found_before(tmp_path, scratch):
    with pytest.raises(ValueError, match="^list.csv: no such patient$"):
        problem = Problem("no such patient", "list.csv")
        _run(scratch, tmp_path / "out", strict=True, problems=[problem])
    assert units.calls(scratch) == [0] * 6


def test_expected_problems_are_no_error_in_a_strict_run(tmp_path, scratch):
    chosen = [unit for unit in units.units(scratch) if unit.name != "scan 2"]
    report = runner.run(
        chosen,
        units.process,
        spec=datasets.spec(),
        out_dir=tmp_path / "out",
        splits=units.SPLITS,
        num_workers=1,
        strict=True,
    )
    assert list(report["problems"]) == ["too small"]


def test_other_settings_do_not_use_old_parts(tmp_path, scratch):
    (scratch / "fail-3").write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        _run(scratch, tmp_path / "out")
    (scratch / "fail-3").unlink()
    _run(scratch, tmp_path / "out", spec=datasets.spec(preparation={"recipe": 2}))
    assert units.calls(scratch) == [2, 2, 2, 2, 1, 1]
    assert not (tmp_path / "out" / ".parts").exists()


def test_data_set_of_other_settings_is_replaced_only_if_asked(tmp_path, scratch):
    out_dir, other = tmp_path / "out", datasets.spec(preparation={"recipe": 2})
    _run(scratch, out_dir, spec=other)
    before = datasets.contents(out_dir)
    with pytest.raises(
        ValueError, match="holds the data set 'made up' made with other"
    ):
        _run(scratch, out_dir)
    assert datasets.contents(out_dir) == before
    assert units.calls(scratch) == [1] * 6
    _run(scratch, out_dir, overwrite=True, examples_per_shard=20)
    assert records.read_info(out_dir).spec == datasets.spec()
    assert [name for name in datasets.contents(out_dir) if "tfrecord" in name] == [
        "train-00000-of-00001.tfrecord",
        "val-00000-of-00001.tfrecord",
    ]


def test_unreadable_data_set_is_replaced_only_if_asked(tmp_path, scratch):
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    (out_dir / "dataset_info.json").write_text('{"format_version": "0.1"}')
    with pytest.raises(ValueError, match="can't be read .*--overwrite to replace it$"):
        _run(scratch, out_dir)
    _run(scratch, out_dir, overwrite=True)
    assert records.read_info(out_dir).count("train") == 15


def test_empty_split_is_an_error_and_keeps_the_parts(tmp_path, scratch):
    splits = (*units.SPLITS, "test")
    with pytest.raises(ValueError, match="split 'test' would be empty"):
        _run(scratch, tmp_path / "out", splits=splits)
    _run(scratch, tmp_path / "out")
    assert units.calls(scratch) == [1] * 6


def test_units_of_one_name_are_refused(tmp_path, scratch):
    twice = units.units(scratch, 2) + units.units(scratch, 1)
    with pytest.raises(ValueError, match="two units are called 'scan 0'"):
        runner.run(
            twice,
            units.process,
            spec=datasets.spec(),
            out_dir=tmp_path / "out",
            splits=("train",),
        )


def test_no_unit_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no example came out of 0 units"):
        runner.run(
            [],
            units.process,
            spec=datasets.spec(),
            out_dir=tmp_path / "out",
            splits=("train",),
        )


def test_output_directory_that_is_a_file_is_named(tmp_path, scratch):
    (tmp_path / "out").write_text("x")
    with pytest.raises(OSError, match="out"):
        _run(scratch, tmp_path / "out")


def test_output_directory_is_checked_without_making_it(tmp_path, scratch, monkeypatch):
    runner.check_out_dir(tmp_path / "a" / "b", "made up", overwrite=False)
    assert not (tmp_path / "a").exists()
    _run(scratch, tmp_path / "out")
    runner.check_out_dir(tmp_path / "out", "made up", overwrite=False)
    with pytest.raises(ValueError, match="out: holds the data set 'made up' made with"):
        runner.check_out_dir(tmp_path / "out", "other", overwrite=False)
    runner.check_out_dir(tmp_path / "out", "other", overwrite=True)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="Permission denied: .*out'"):
        runner.check_out_dir(tmp_path / "out", "made up", overwrite=False)
