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

from tf_probunet.evaluation import evaluate, sample_files, scoring
from tf_probunet.evaluation.metrics import ged, switched_modes

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


def _masks(seed, number, images=3):
    """Random rectangles, some of them empty, [N, number, 12, 12]."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((images, number, 12, 12), np.uint8)
    for place in np.ndindex(images, number):
        top, left, height, width = rng.integers(0, [6, 6, 6, 6])
        masks[place][top : top + height, left : left + width] = 1
    return masks


def test_weights_count_as_repeated_samples():
    samples, graders, keys = _masks(0, 3), _masks(1, 4), ["a", "b", "c"]
    repeats = np.array([[5, 2, 1], [1, 1, 6], [4, 4, 0]])
    repeated = np.stack([np.repeat(s, n, axis=0) for s, n in zip(samples, repeats)])
    plain = scoring.score(scoring.Rules("binary", (8,)), repeated, graders, keys=keys)
    rules = scoring.Rules("binary", (3,), sampling="weighted")
    weighted = scoring.score(rules, samples, graders, keys=keys, weights=repeats / 8)
    # These look at which samples there are, not at how many.
    without = {"best_dice", "sensitivity", "collective_insight", "diversity_agreement"}
    without |= {"floor", "sample_presence", "baseline_graders"}
    for name in set(plain) - without:
        np.testing.assert_allclose(
            weighted[name], plain[name], atol=1e-12, equal_nan=True, err_msg=name
        )
    percent = np.rint(100 * plain["sample_presence"] / 8)
    np.testing.assert_array_equal(weighted["sample_presence"], percent)
    expected = ged.grader_floor(graders, [1e12])
    np.testing.assert_allclose(weighted["floor"], expected)
    np.testing.assert_allclose(plain["floor"] - expected * 1.5, 0, atol=1e-9)


def test_each_number_of_stratified_samples_has_its_own_set():
    sets, graders, keys = {2: _masks(2, 2), 4: _masks(3, 4)}, _masks(4, 3), [*"abc"]
    modes, probabilities = _masks(5, 2), np.tile([0.3, 0.7], (3, 1))
    found = scoring.score(
        scoring.Rules("binary", (2, 4), sampling="stratified"),
        sets[4],
        graders,
        keys=keys,
        modes=modes,
        mode_probs=probabilities,
        sets={2: sets[2]},
    )
    for column, n in enumerate((2, 4)):
        for i in range(3):
            expected = ged.energy_distance(sets[n][i], graders[i])
            assert found["ged"][i, column] == pytest.approx(expected)
            exact = ged.energy_distance(
                sets[n][i], modes[i], grader_weights=probabilities[i]
            )
            assert found["mode_ged"][i, column] == pytest.approx(exact)
    np.testing.assert_array_equal(found["mode_floor"], np.zeros((3, 2)))
    floor = [
        ged.energy_distance(modes[i], graders[i], sample_weights=probabilities[i])
        for i in range(3)
    ]
    np.testing.assert_allclose(found["floor"], np.stack([floor, floor], axis=1))


def test_stratified_sets_of_street_scenes(streets):
    _, labels, samples = streets
    maps, truth = np.stack(samples), np.stack(labels)[:, None]
    found = scoring.score(
        scoring.Rules("switched", (2, 4), sampling="stratified"),
        maps,
        truth,
        keys=["a", "b"],
        sets={2: maps[:, 2:]},
    )
    for i, y in enumerate(labels):
        last = switched_modes.score_image(maps[i, 2:], y, sample_counts=(2,))
        whole = switched_modes.score_image(maps[i], y, sample_counts=(4,))
        expected = [last.energy_distances[2], whole.energy_distances[4]]
        np.testing.assert_allclose(found["ged"][i], expected)
    np.testing.assert_array_equal(found["floor"], np.zeros((2, 2)))


def test_weighted_sample_files(tmp_path, lesions):
    """A doubtful lesion with the weight 1/4: 2 * 1/2 - 2 * 3/16 - 1/2."""
    for key in (f"key-{i:03d}" for i in range(6)):
        weights = [0.25, 0.75] if key in ("key-000", "key-002") else [1.0, 0.0]
        maps = np.stack([SQUARE, np.zeros_like(SQUARE)])
        sample_files.write(tmp_path / "samples", key, maps, weights)
    settings = {"samples_dir": str(tmp_path / "samples"), "save_samples": 0}
    results = run(tmp_path / "out", lesions.data_dir, num_samples=(2,), **settings)
    assert results["protocol"]["sampling"] == "weighted"
    assert results["ged"]["2"]["mean"] == pytest.approx((1 - 3 / 8 - 1 / 2) * 2 / 6)
    assert results["floor"]["2"]["mean"] == pytest.approx(2 / 6 / 2)
    assert results["ambiguity"]["histograms"]["ambiguous"][25] == 2
    assert "weighted samples: not the published protocol" in evaluate.table(results)
    with pytest.raises(ValueError, match="num_samples is 1,2, expected one number"):
        run(tmp_path / "more", lesions.data_dir, num_samples=(1, 2), **settings)


def test_unknown_sampling_is_refused():
    with pytest.raises(ValueError, match="sampling is 'sobol'; expected one of indep"):
        scoring.Rules("binary", (1,), sampling="sobol")
