"""Scores of all kinds of labels, in whole evaluations of made-up models."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import datasets, saved_models
from helpers.evaluations import (
    SQUARE,
    SURE,
    alternate,
    lesion,
    means,
    run,
)

from tf_probunet.evaluation import evaluate, sample_files
from tf_probunet.evaluation.metrics import switched_modes

SIZE = datasets.SIZE


def test_several_classes_from_sample_files(tmp_path):
    info = datasets.write(
        tmp_path / "data", {"test": [datasets.example(i) for i in range(3)]}
    )
    samples = np.broadcast_to(
        np.arange(4, dtype=np.uint8)[:, None, None], (4, SIZE, SIZE)
    )
    for i in range(3):
        sample_files.write(tmp_path / "samples", f"key-{i:03d}", samples)
    results = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        num_samples=(1, 4),
    )
    # Grader g says g everywhere, sample s says s: 0 with all four samples. The first
    # alone: 2 * 3/4 - 0 - 12/16.
    assert means(results["ged"]) == pytest.approx({"1": 0.75, "4": 0})
    assert results["hungarian_iou"]["mean"] == pytest.approx(1)
    assert results["protocol"]["labels"] == "classes"
    assert list(results["by_class"]) == ["b", "c", "d"]
    assert not {"ambiguity", "by_presence"} & set(results)


def test_one_grader_has_no_floor(tmp_path):
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=1)
    example = dataclasses.replace(lesion(0, SURE), labels=SQUARE[None])
    info = datasets.write(tmp_path / "data", {"test": [example]}, spec)
    sample_files.write(tmp_path / "samples", example.key, SQUARE[None])
    results = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        num_samples=(1,),
    )
    # One group has no interval.
    assert results["ged"]["1"] == {"mean": 0, "low": None, "high": None}
    assert not {"floor", "excess", "ambiguity", "variance_ncc"} & set(results)
    assert "made up" in evaluate.table(results)


def test_u_statistic_has_floor_zero_and_none_for_one_sample(
    tmp_path, lesions, alternating
):
    results = run(
        tmp_path,
        lesions.data_dir,
        saved_model=str(alternating),
        num_samples=(1, 2),
        statistic="u",
    )
    nothing = {"mean": None, "low": None, "high": None, "left_out": 6}
    assert results["ged"]["1"] == nothing
    # Doubtful: 2 * 1/2 - 1 - 1.
    assert results["ged"]["2"]["mean"] == pytest.approx(-2 / 6)
    assert results["floor"]["2"]["mean"] == 0


def test_dropped_pairs_leave_images_out(tmp_path, lesions):
    import tensorflow as tf

    def empty(image, num_samples, seed):
        return tf.zeros_like(alternate(image, num_samples, seed))

    model = saved_models.save(tmp_path / "model", empty, lesions)
    results = run(
        tmp_path / "out",
        lesions.data_dir,
        saved_model=str(model),
        both_empty="drop",
        num_samples=(4,),
    )
    assert results["ged"]["4"]["left_out"] == 6
    assert "floor" not in results
    assert results["by_presence"]["1"]["ged"] is None


def test_switched_classes(tmp_path, streets):
    info, labels, samples = streets
    results = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        task="switched",
        num_samples=(2, 4),
    )
    scores = [
        switched_modes.score_image(s, y, sample_counts=(2, 4))
        for s, y in zip(samples, labels)
    ]
    for n in (2, 4):
        expected = np.mean([score.energy_distances[n] for score in scores])
        floor = np.mean([score.floors[n] for score in scores])
        assert results["ged"][str(n)]["mean"] == pytest.approx(expected)
        assert results["floor"][str(n)]["mean"] == pytest.approx(floor)
    # All five classes are there and the samples are exact: 0.58 / n is the floor.
    assert results["floor"]["4"]["mean"] == pytest.approx(0.58 / 4, abs=0.01)
    frequencies = results["mode_calibration"]["frequencies"]
    expected = sum(score.mode_counts for score in scores) / 8
    assert frequencies == pytest.approx(expected)
    assert results["mode_calibration"]["largest_ratio"] is None  # Infinite.
    assert not {"ambiguity", "hungarian_iou"} & set(results)
    assert set(results["baselines"]) == {"never_flipped", "no_switchable_class"}
    for name, found in results["baselines"].items():
        expected = np.mean([score.baselines[name] for score in scores])
        assert means(found["ged"]) == pytest.approx({"2": expected, "4": expected})
    assert results["folded_iou"]["mean"] == 1  # The samples are the labels, flipped.
    assert results["mode_calibration"]["undecided"] == 0
    assert results["notes"] == []
    assert set(results["mode_calibration"]["undecided_by_class"].values()) == {0}
    per_image = np.load(tmp_path / "out" / "per_image.npz")
    assert per_image["mode_counts"].shape == (2, 32)
    counted = sum(score.pixel_counts for score in scores)
    np.testing.assert_array_equal(per_image["pixel_counts"], counted)


def test_switched_task_needs_its_classes_and_the_papers_rules(
    tmp_path, streets, lesions
):
    samples = str(tmp_path / "samples")
    with pytest.raises(ValueError, match='expected "v" and "zero"'):
        run(
            tmp_path / "out",
            streets[0].data_dir,
            samples_dir=samples,
            task="switched",
            num_samples=(2,),
            statistic="u",
        )
    empty = tmp_path / "none"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"has 2 classes \(.* and 2 graders, expected"):
        run(
            tmp_path / "out",
            lesions.data_dir,
            samples_dir=str(empty),
            task="switched",
        )
