"""Evaluations of images that differ in size and in their number of graders."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import datasets, saved_models
from helpers.evaluations import run
from scipy import optimize

from tf_probunet.artifacts import results_dir
from tf_probunet.dataset import records
from tf_probunet.evaluation import sample_files
from tf_probunet.evaluation.metrics import ged, matching
from tf_probunet.figures import ambiguity, make

_COUNTS = (2, 4)
# The size and the number of graders of each part of the data.
_PARTS = {"one": ((8, 8), 1), "three": ((8, 8), 3), "wide": ((7, 10), 2)}
_PER_PART = 3
_NAMES = ("none", "lesion")


def _example(index: int, size: tuple[int, int], num_graders: int) -> records.Example:
    """An image whose graders mark squares, or nothing."""
    rng = np.random.default_rng(index)
    labels = np.zeros((num_graders, *size), np.uint8)
    for grader in labels:
        row, col = rng.integers(0, 4, 2)
        grader[row : row + 3, col : col + 3] = rng.random() < 0.7
    image = labels.mean(axis=0, keepdims=True) * 200 + 20
    return datasets.example(
        index, image=image.astype(np.uint8).transpose(1, 2, 0), labels=labels
    )


def _examples() -> dict[str, list[records.Example]]:
    return {
        name: [_example(10 * p + i, *shape) for i in range(_PER_PART)]
        for p, (name, shape) in enumerate(_PARTS.items())
    }


def _samples(example: records.Example) -> np.ndarray:
    rng = np.random.default_rng(int(example.key[-3:]))
    return (rng.random((4, *example.labels.shape[1:])) < 0.3).astype(np.uint8)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Results of all images together, and of each part by itself."""
    out = tmp_path_factory.mktemp("mixed")
    parts = _examples()
    everything = [example for part in parts.values() for example in part]
    results = {}
    for name, examples in {"all": everything, **parts}.items():
        spec = datasets.mixed_spec(class_names=_NAMES)
        datasets.write(out / name, {"test": examples}, spec)
        for example in examples:
            sample_files.write(out / f"{name}_samples", example.key, _samples(example))
        results[name] = run(
            out / f"{name}_results",
            out / name,
            samples_dir=str(out / f"{name}_samples"),
            num_samples=_COUNTS,
            save_samples=20,
        )
    return out, results


def _per_image(out, name):
    found = results_dir.read(out / f"{name}_results")
    keys = found.per_image["keys"].tolist()
    return {
        array: dict(zip(keys, values))
        for array, values in found.per_image.items()
        if array not in ("keys", "counts", "groups")
    }


def test_every_image_is_scored_as_in_a_data_set_of_its_like(evaluated):
    out, _ = evaluated
    together = _per_image(out, "all")
    for name, (_, num_graders) in _PARTS.items():
        for array, values in _per_image(out, name).items():
            for key, value in values.items():
                np.testing.assert_array_equal(together[array][key], value, array)
        for key in values:
            assert together["num_graders"][key] == num_graders
            # What needs two graders is left out for one.
            is_single = num_graders == 1
            assert np.isnan(together["floor"][key]).all() == is_single
            assert not is_single or np.isnan(together["variance_ncc"][key])


def test_means_and_floors_take_each_image_with_its_own_graders(evaluated):
    out, results = evaluated
    distances, floors, matched = [], [], []
    for example in (e for part in _examples().values() for e in part):
        samples = _samples(example)
        distances.append(ged.energy_distance(samples, example.labels))
        matched.append(matching.hungarian_iou(samples, example.labels))
        if len(example.labels) > 1:
            floors.append(ged.grader_floor(example.labels, [4])[0])
    found = results["all"]
    assert found["ged"]["4"]["mean"] == pytest.approx(np.mean(distances))
    assert found["hungarian_iou"]["mean"] == pytest.approx(np.mean(matched))
    assert found["floor"]["4"]["mean"] == pytest.approx(np.mean(floors))
    assert found["floor"]["4"]["left_out"] == _PER_PART
    assert (found["data"]["fewest_graders"], found["data"]["graders"]) == (1, 3)
    assert found["protocol"]["smallest_image_size"] == [7, 8]
    assert found["protocol"]["image_size"] == [8, 10]
    text = (out / "all_results" / "results.md").read_text()
    assert "images of 7x8 to 8x10" in text and "graders: 1 to 3" in text


def test_strata_and_ambiguity_of_the_graders_there_are(evaluated):
    out, results = evaluated
    examples = [e for part in _examples().values() for e in part]
    present = np.array([e.labels.any(axis=(1, 2)).sum() for e in examples])
    number = np.array([len(e.labels) for e in examples])
    share = results["all"]["presence"]["graders"]
    assert share == pytest.approx((present / number).mean())
    strata = results["all"]["by_presence"]
    assert {name: stratum["images"] for name, stratum in strata.items()} == {
        "none": (present == 0).sum(),
        "some": ((present > 0) & (present < number)).sum(),
        "all": (present == number).sum(),
    }
    several = number > 1
    share = ((present > 0) & (present < number))[several].mean()
    assert results["all"]["ambiguity"]["always_ambiguous"] == pytest.approx(share)
    shown = ambiguity.presences(results_dir.read(out / "all_results"))
    assert (len(shown.counts), shown.ambiguous.mean()) == (several.sum(), share)
    assert "ambiguity" not in results["one"]


def test_kept_samples_have_their_own_size_and_graders(evaluated, tmp_path):
    out, _ = evaluated
    kept = results_dir.read(out / "all_results").samples()
    by_key = {e.key: e for part in _examples().values() for e in part}
    for key, image, graders, samples in zip(*kept):
        example = by_key[key]
        np.testing.assert_array_equal(graders, example.labels)
        np.testing.assert_allclose(image, example.image / np.float32(255))
        assert samples.shape == (4, *example.labels.shape[1:])
    request = make.Request(results=[results_dir.read(out / "all_results")])
    for figure in ("sample_grid", "uncertainty"):
        (path, *_) = make.make(figure, request, str(tmp_path), report=lambda line: None)
        assert path.stat().st_size > 10_000


def test_validation_images_of_one_grader_each_give_no_threshold(tmp_path):
    examples = [_example(i, (8, 8), 3) for i in range(4)]
    single = [_example(i, (8, 8), 1) for i in range(10, 13)]
    spec = datasets.mixed_spec(class_names=_NAMES)
    datasets.write(tmp_path / "data", {"test": examples, "val": single}, spec)
    for example in examples + single:
        sample_files.write(tmp_path / "samples", example.key, _samples(example))
    results = run(
        tmp_path / "out",
        tmp_path / "data",
        samples_dir=str(tmp_path / "samples"),
        num_samples=_COUNTS,
        validation_split="val",
    )
    assert "threshold" not in results["ambiguity"]
    assert "no image of the split 'val' has several graders" in str(results["notes"])


def test_images_that_the_network_does_not_take_are_mirrored(tmp_path):
    examples = [_example(1, (7, 9), 2), _example(2, (10, 8), 1)]
    info = datasets.write(
        tmp_path / "data", {"test": examples}, datasets.mixed_spec(class_names=_NAMES)
    )

    def bright(image, num_samples, seed):
        import tensorflow as tf

        del seed
        tf.debugging.assert_equal(tf.shape(image)[1:3] % 4, [0, 0])
        # All that is brighter than the mean, which padding with 0 would change.
        level = tf.reduce_mean(image, axis=[1, 2, 3], keepdims=True)
        return tf.repeat((image > level)[:, None, ..., 0], num_samples, axis=1)

    model = saved_models.save(tmp_path / "model", bright, info, size_divisor=4)
    results = run(
        tmp_path / "out", info.data_dir, saved_model=str(model), num_samples=(1,)
    )
    assert "mirrored at their border" in " ".join(results["notes"])
    assert results["hungarian_iou"]["mean"] == pytest.approx(
        np.mean([_matched(example) for example in examples])
    )


def _matched(example):
    """The IoU of what is brighter than the mean of the mirrored image."""
    border = [(n // 2, n - n // 2) for n in (-s % 4 for s in example.image.shape[:2])]
    mirrored = np.pad(example.image[..., 0].astype(float), border, mode="symmetric")
    marked = (example.image[..., 0] > mirrored.mean())[None].astype(np.uint8)
    return matching.hungarian_iou(marked, example.labels)


def test_many_graders_are_matched_as_by_repetition():
    rng = np.random.default_rng(0)
    distances = rng.random((25, 32))  # Their least common multiple is 800.
    weights = {"sample_weights": np.full(25, 1 / 25)}
    assert matching.matched_iou(distances) == pytest.approx(
        matching.matched_iou(distances, **weights)
    )
    repeated = np.repeat(np.repeat(distances[:, :24], 24, 0), 25, 1)
    pairs = optimize.linear_sum_assignment(repeated)
    assert matching.matched_iou(distances[:, :24]) == pytest.approx(
        1 - repeated[pairs].mean()
    )
