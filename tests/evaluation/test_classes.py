"""Scores of label maps with several classes, each class by itself and all together."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from helpers import datasets
from helpers.evaluations import run

from tf_probunet.artifacts import results_dir
from tf_probunet.evaluation import sample_files, scoring
from tf_probunet.evaluation.metrics import agreement, calibration, ged, matching

_NAMES = ("background", "disc", "cup", "haze")
_COUNTS = (2, 4)
_RULES = scoring.Rules("classes", _COUNTS, num_classes=4)


def _maps(rng, number: int, size: int = 8) -> np.ndarray:
    """Nested squares of the first two classes; the third never occurs."""
    maps = np.zeros((number, size, size), np.uint8)
    for one in maps:
        row, col = rng.integers(0, 3, 2)
        one[row : row + 5, col : col + 5] = 1
        if rng.random() < 0.6:
            one[row + 1 : row + 3, col + 1 : col + 4] = 2
    return maps


def _images(number: int = 6, num_graders: int = 3):
    rng = np.random.default_rng(7)
    return [(_maps(rng, 4), _maps(rng, num_graders)) for _ in range(number)]


def _scored(rules=_RULES, images=None):
    samples, graders = (np.stack(part) for part in zip(*(images or _images())))
    keys = [f"key-{i:03d}" for i in range(len(samples))]
    return scoring.score(rules, samples, graders, keys=keys)


def test_each_class_is_scored_as_binary_masks():
    arrays = _scored()
    binary = scoring.Rules("binary", _COUNTS)
    for place, label in enumerate((1, 2, 3)):
        masks = [(1 * (s == label), 1 * (g == label)) for s, g in _images()]
        expected = _scored(binary, masks)
        for name in (
            "ged",
            "hungarian_iou",
            "best_dice",
            "ncc",
            "brier",
            "sensitivity",
        ):
            found = arrays[f"class_{name}"][:, place]
            values = expected[name][:, -1] if name == "ged" else expected[name]
            np.testing.assert_allclose(found, values, err_msg=name)
        for name in ("pixel", "marked", "presence"):
            found = arrays[f"class_{name}_reliability"][:, place]
            np.testing.assert_allclose(found, expected[f"{name}_reliability"])
        for who in ("sample", "grader"):
            found = arrays[f"class_{who}_presence"][:, place]
            np.testing.assert_array_equal(found, expected[f"{who}_presence"])


def test_values_of_all_classes_are_the_mean_or_the_sum_of_each():
    arrays = _scored()
    for name in ("best_dice", "collective_insight", "ncc", "variance_ncc", "brier"):
        np.testing.assert_allclose(arrays[name], arrays[f"class_{name}"].mean(axis=1))
    by_class = arrays["class_pixel_reliability"]  # [N, K - 1, 3, B]
    np.testing.assert_allclose(arrays["pixel_reliability"], by_class.sum(axis=1))
    # Each of 3 graders answers for each of 64 pixels and each of 3 classes.
    assert arrays["pixel_reliability"][:, 0].sum() == 6 * 3 * 64 * 3


def test_ignored_pixels_count_for_no_class():
    ((samples, graders),) = _images(1)
    graders[0, :2] = 255
    kept = scoring.Rules("classes", _COUNTS, num_classes=4, ignore_label=255)
    arrays = _scored(kept, [(samples, graders)])
    disc = samples[:, 2:] == 1, graders[:, 2:] == 1
    assert arrays["class_brier"][0, 0] == agreement.brier_score(*disc)
    assert arrays["class_hungarian_iou"][0, 0] == matching.hungarian_iou(*disc)
    assert arrays["class_ged"][0, 0] == pytest.approx(ged.energy_distance(*disc))
    number = arrays["class_pixel_reliability"][0, :, 0].sum(axis=-1)
    assert number.tolist() == [3 * 48] * 3  # The class that never occurs too.


def test_baselines_of_classes_by_hand():
    grader = np.array([[1, 2], [2, 0]])
    graders = np.stack([grader, grader, 0 * grader])[None]
    rules = scoring.Rules("classes", (3,), num_classes=3)
    arrays = scoring.score(rules, 0 * graders, graders, keys=["a"])
    # d(0, grader) = 1 and d(grader, grader) = 0: E[d(Y, Y')] = 4/9.
    assert arrays["baseline_always_empty"][0, 0] == pytest.approx(2 * 2 / 3 - 4 / 9)
    assert arrays["baseline_majority"][0, 0] == pytest.approx(2 * 1 / 3 - 4 / 9)
    assert arrays["baseline_graders"][0, 0] == pytest.approx(0)


def test_results_name_every_class(tmp_path):
    images = _images(4)
    examples = [
        datasets.example(i, labels=graders) for i, (_, graders) in enumerate(images)
    ]
    spec = datasets.spec(class_names=_NAMES, num_graders=3)
    info = datasets.write(tmp_path / "data", {"test": examples}, spec)
    for example, (samples, _) in zip(examples, images):
        sample_files.write(tmp_path / "samples", example.key, samples)
    results = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        num_samples=_COUNTS,
    )
    by_class = results["by_class"]
    assert list(by_class) == ["disc", "cup", "haze"]
    cups = [(s == 2, g == 2) for s, g in images]
    cup = by_class["cup"]
    assert cup["ged"]["mean"] == pytest.approx(
        np.mean([ged.energy_distance(*pair) for pair in cups])
    )
    shares = {
        who: np.mean([pair[i].any(axis=(1, 2)).mean() for pair in cups])
        for i, who in enumerate(("samples", "graders"))
    }
    assert cup["presence"] == pytest.approx(shares)
    assert cup["area"]["graders"] == pytest.approx(
        np.mean([g.sum(axis=(1, 2)).mean() for _, g in cups])
    )
    sums = sum(np.array(calibration.pixel_reliability(*pair)) for pair in cups)
    expected = calibration.Reliability(*sums).expected_calibration_error()
    assert cup["calibration"]["pixels"]["ece"] == pytest.approx(expected)
    assert by_class["haze"]["presence"] == {"samples": 0, "graders": 0}
    assert results["best_dice"]["mean"] == pytest.approx(
        np.mean([values["best_dice"]["mean"] for values in by_class.values()])
    )
    text = (tmp_path / "out" / "results.md").read_text()
    assert "| cup |" in text and "| mean of the classes |" in text
    with open(tmp_path / "out" / "results.csv") as handle:
        rows = {row["metric"]: row["mean"] for row in csv.DictReader(handle)}
    assert float(rows["by_class.cup.ged"]) == cup["ged"]["mean"]
    stored = results_dir.read(tmp_path / "out").per_image
    assert stored["class_ged"].shape == (4, 3)
