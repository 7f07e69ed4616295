"""Tables of scores, of arrays and of a model on a data set."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import saved_models

import tf_probunet as pu
from tf_probunet.dataset import records
from tf_probunet.evaluation import evaluate as evaluation


@pytest.fixture(scope="module")
def masks():
    rng = np.random.default_rng(0)
    return rng.random([3, 5, 12, 12]) > 0.6, rng.random([3, 4, 12, 12]) > 0.6


def test_arrays_are_scored_as_by_the_metrics(masks):
    samples, graders = masks
    scores = pu.evaluate(samples, graders)
    assert [*scores.ged] == [1, 4]
    for count, value in scores.ged.items():
        each = [pu.energy_distance(s[:count], g) for s, g in zip(samples, graders)]
        np.testing.assert_allclose(
            scores.per_image["ged"][:, [1, 4].index(count)], each
        )
        assert value == pytest.approx(np.mean(each))
    matched = [pu.hungarian_iou(s[:4], g) for s, g in zip(samples, graders)]
    assert scores.hungarian_iou == pytest.approx(np.mean(matched))
    assert scores.num_images == 3


def test_one_image_and_counts(masks):
    samples, graders = masks
    scores = pu.evaluate(samples[0], graders[0], counts=[5, 2])
    assert [*scores.ged] == [2, 5]
    assert scores.ged[5] == pytest.approx(pu.energy_distance(samples[0], graders[0]))
    assert repr(scores).splitlines()[0] == "1 image"
    assert repr(scores).splitlines()[1].split() == ["2", "samples", "5", "samples"]
    assert f"{scores.ged[5]:.3f}" in repr(scores)


def test_label_maps_of_several_classes():
    graders = np.zeros([2, 8, 8], int)
    graders[:, :4], graders[:, 4:] = 1, 2
    scores = pu.evaluate(graders, graders, num_classes=3)
    assert scores.ged[1] == 0
    swapped = pu.evaluate((3 - graders) % 3, graders, num_classes=3)
    assert swapped.ged[1] == pytest.approx(2)
    with pytest.raises(ValueError, match="image 0"):
        pu.evaluate(graders, graders)


def test_a_model_is_scored_as_by_the_command(phantom_dir, tmp_path):
    info = records.read_info(phantom_dir)
    model = saved_models.save(tmp_path / "model", saved_models.levels, info)
    scores = pu.evaluate(pu.load(model), data_dir=phantom_dir, counts=[1, 2], limit=3)
    config = evaluation.EvaluationConfig(
        data_dir=str(phantom_dir),
        out_dir=str(tmp_path / "results"),
        saved_model=str(model),
        num_samples=(1, 2),
        validation_split="",
        limit=3,
    )
    expected = evaluation.evaluate(config)
    assert scores.ged == {int(n): value["mean"] for n, value in expected["ged"].items()}
    assert scores.hungarian_iou == expected["hungarian_iou"]["mean"]
    assert scores.num_images == 3
    assert scores.results["ged"]["2"]["low"] <= scores.ged[2]


def test_arguments_that_do_not_fit_are_refused(masks):
    samples, graders = masks
    with pytest.raises(ValueError, match="expected both as arrays"):
        pu.evaluate(samples)
    with pytest.raises(ValueError, match="expected data_dir and no graders"):
        pu.evaluate("lidc_cpu", graders)
    with pytest.raises(ValueError, match=r"counts are \[6\]; expected .* 1 to 5"):
        pu.evaluate(samples, graders, counts=6)
    with pytest.raises(ValueError, match="of 3 images, graders of 2"):
        pu.evaluate(samples, graders[:2])
    with pytest.raises(ValueError, match=r"samples have shape \(12, 12\)"):
        pu.evaluate(samples[0, 0], graders[0])


def test_images_with_different_sizes_and_graders_come_as_lists():
    rng = np.random.default_rng(2)
    shapes = [((3, 8, 8), (4, 8, 8)), ((1, 6, 9), (4, 6, 9)), ((2, 8, 8), (5, 8, 8))]
    graders, samples = (
        [rng.integers(0, 2, shapes[n][i]) for n in range(3)] for i in range(2)
    )
    found = pu.evaluate(samples, graders)
    alone = [pu.evaluate(s[:4], g) for s, g in zip(samples, graders)]
    assert found.num_images == 3
    for count in (1, 4):
        assert found.ged[count] == pytest.approx(
            np.mean([scores.ged[count] for scores in alone])
        )
        # One grader has no floor.
        floors = [scores.floor[count] for scores in (alone[0], alone[2])]
        assert found.floor[count] == pytest.approx(np.mean(floors))
    assert alone[1].floor == {}
