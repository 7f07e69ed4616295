"""Whole evaluations of made-up models, against numbers worked out by hand."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shutil
import zipfile

import numpy as np
import pytest
from helpers import datasets, saved_models

from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.dataset.cityscapes_labels import (
    MODE_BITS,
    MODE_PROBABILITIES,
    TRAIN_CLASS_NAMES,
    switch_table,
)
from tf_probunet.evaluation import evaluate, parts, sample_files, sources
from tf_probunet.evaluation import summary as summary_lib
from tf_probunet.evaluation.metrics import ged, matching, switched_modes

SIZE = datasets.SIZE
SQUARE = np.zeros((SIZE, SIZE), np.uint8)
SQUARE[2:5, 2:5] = 1
SURE, DOUBTFUL = 255, 153
FEW_GROUPS = (
    "there are 3 groups, fewer than 10: the intervals resample images, and say nothing "
    "about other groups"
)


def lesion(index: int, shade: int) -> records.Example:
    """A square that one grader marks if it is doubtful, both if it is sure."""
    second = SQUARE if shade == SURE else np.zeros_like(SQUARE)
    return datasets.example(
        index,
        group=f"patient-{index // 2}",
        image=(SQUARE * shade)[..., None].astype(np.uint8),
        labels=np.stack([SQUARE, second]),
    )


@pytest.fixture(scope="module")
def lesions(tmp_path_factory) -> records.DatasetInfo:
    """Test: 2 doubtful and 4 sure lesions of 3 patients; validation: 1 and 1."""
    shades = [DOUBTFUL, SURE, DOUBTFUL, SURE, SURE, SURE]
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=2)
    return datasets.write(
        tmp_path_factory.mktemp("lesions"),
        {
            "test": [lesion(i, shade) for i, shade in enumerate(shades)],
            "val": [lesion(20, DOUBTFUL), lesion(22, SURE)],
        },
        spec,
    )


def alternate(image, num_samples, seed):
    """Samples: a sure lesion always, a doubtful one every other time."""
    import tensorflow as tf

    del seed
    even = tf.range(num_samples) % 2 == 0
    present = even[None] | (tf.reduce_max(image, [1, 2, 3]) > 0.9)[:, None]
    return (image[:, None, :, :, 0] > 0.1) & present[:, :, None, None]


@pytest.fixture(scope="module")
def alternating(tmp_path_factory, lesions):
    path = tmp_path_factory.mktemp("models") / "alternating"
    return saved_models.save(path, alternate, lesions)


@pytest.fixture(scope="module")
def drawing(tmp_path_factory, phantom_dir):
    """A model of random samples for the phantom."""
    path = tmp_path_factory.mktemp("models") / "drawing"
    return saved_models.save(path, saved_models.levels, records.read_info(phantom_dir))


def run(out_dir, data_dir, *, validation_split="", **settings):
    config = evaluate.EvaluationConfig(
        data_dir=str(data_dir),
        out_dir=str(out_dir),
        validation_split=validation_split,
        **settings,
    )
    return evaluate.evaluate(config)


def means(by_count):
    return {count: value["mean"] for count, value in by_count.items()}


def test_hand_worked_results(tmp_path, lesions, alternating):
    results = run(
        tmp_path,
        lesions.data_dir,
        saved_model=str(alternating),
        num_samples=(1, 2),
        validation_split="val",
    )
    # Sure lesions: 0 everywhere. Doubtful ones, graders {square, nothing}, so that
    # E[d(S, Y)] = E[d(Y, Y')] = 1/2. One sample {square}: 1 - 0 - 1/2. Two samples
    # {square, nothing}: 1 - 1/2 - 1/2. They are 2 of 6 images.
    assert means(results["ged"]) == pytest.approx({"1": 1 / 6, "2": 0})
    assert means(results["terms"]["samples"]) == pytest.approx({"1": 0, "2": 1 / 6})
    assert results["terms"]["graders"]["mean"] == pytest.approx(1 / 6)
    # Distinct graders differ by 1: the floor is 1/n + 1/2.
    assert means(results["floor"]) == pytest.approx({"1": 0.5, "2": 1 / 3})
    assert means(results["excess"]) == pytest.approx({"1": -1 / 3, "2": -1 / 3})
    baselines = {k: means(v["ged"]) for k, v in results["baselines"].items()}
    # Nothing against two squares: 2 E[d(S, Y)] = 2. A majority of 1 in 2 is none.
    assert baselines["always_empty"] == pytest.approx({"1": 9 / 6, "2": 9 / 6})
    assert baselines["majority"] == pytest.approx({"1": 1 / 6, "2": 1 / 6})
    assert baselines["graders"] == pytest.approx({"1": 1 / 6, "2": 0})
    assert results["hungarian_iou"]["mean"] == pytest.approx(1)
    assert results["best_dice"]["mean"] == pytest.approx(1)
    assert results["diversity"]["mean"] == pytest.approx(1 / 6)
    # (1/2 - y)^2 = 1/4 on the 9 of 64 pixels of the doubtful squares.
    assert results["brier"]["mean"] == pytest.approx(2 / 6 * 9 / 64 / 4)
    assert results["calibration"]["pixels"]["ece"] == pytest.approx(0)
    assert results["calibration"]["presence"]["ece"] == pytest.approx(0)
    strata = results["by_presence"]
    assert [strata[n]["images"] for n in "012"] == [0, 2, 4]
    assert (strata["0"]["ged"], strata["1"]["floor"]) == (None, pytest.approx(1))
    ambiguity = results["ambiguity"]
    assert (ambiguity["threshold"], ambiguity["direction"]) == (2, "below")
    assert (ambiguity["accuracy"], ambiguity["auroc"]) == (1, 1)
    assert ambiguity["always_ambiguous"] == pytest.approx(1 / 3)
    assert ambiguity["histograms"]["ambiguous"] == [0, 2, 0]
    assert results["data"]["images"] == 6
    assert results["data"]["groups"] == 3
    assert results["notes"] == [FEW_GROUPS]


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


def test_files_hold_the_same_numbers(tmp_path, lesions, alternating):
    results = run(
        tmp_path,
        lesions.data_dir,
        saved_model=str(alternating),
        num_samples=(2, 1),
        save_samples=4,
    )

    def refuse(constant):
        raise AssertionError(constant)

    text = (tmp_path / "results.json").read_text()
    assert json.loads(text, parse_constant=refuse) == results
    with np.load(tmp_path / "per_image.npz", allow_pickle=False) as stored:
        per_image = dict(stored)
    assert per_image["counts"].tolist() == [1, 2]
    assert per_image["ged"].mean(axis=0).tolist() == pytest.approx([1 / 6, 0])
    doubtful = per_image["grader_presence"] == 1
    assert sorted(per_image["keys"][doubtful]) == ["key-000", "key-002"]
    assert per_image["sample_presence"].tolist() == (2 - doubtful).tolist()
    assert set(per_image["groups"]) == {"patient-0", "patient-1", "patient-2"}
    with np.load(tmp_path / "samples.npz", allow_pickle=False) as stored:
        saved = dict(stored)
    assert saved["keys"].tolist() == per_image["keys"][:4].tolist()
    assert (saved["images"].dtype, saved["graders"].dtype) == (np.float32, np.uint8)
    for i in range(4):
        np.testing.assert_array_equal(saved["graders"][i, 0], SQUARE)
        np.testing.assert_array_equal(saved["samples"][i, 0], SQUARE)
        np.testing.assert_allclose(
            saved["mean"][i, ..., 1], SQUARE * saved["samples"][i, :, 2, 2].mean()
        )
    with open(tmp_path / "results.csv", newline="") as handle:
        rows = {(r["metric"], r["num_samples"]): r for r in csv.DictReader(handle)}
    assert float(rows["ged", "1"]["mean"]) == results["ged"]["1"]["mean"]
    assert float(rows["hungarian_iou", "2"]["mean"]) == 1
    table = evaluate.table(results)
    line = next(line for line in table.splitlines() if line.startswith("made_up  "))
    assert line.split()[1] == "0.167"
    markdown = (tmp_path / "results.md").read_text()
    assert "| floor (a perfect model) | 0.500" in markdown
    assert results["command"] in markdown
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "per_image.npz",
        "results.csv",
        "results.json",
        "results.md",
        "samples.npz",
    ]


def test_agrees_with_metrics_of_single_images(tmp_path, phantom_dir, drawing):
    results = run(
        tmp_path, phantom_dir, saved_model=str(drawing), num_samples=(2, 5), seed=11
    )
    examples = input_pipeline.evaluation_examples(
        records.read_info(phantom_dir), "test", DataConfig(eval_size=0)
    )
    distances, exact, matched, floors = [], [], [], []
    for example in examples.as_numpy_iterator():
        seed = np.array([sources.image_seed(11, example["key"].decode())], np.int32)
        samples = saved_models.levels(example["image"][None], 5, seed)[0].numpy()
        modes = dict(modes=example["modes"], probabilities=example["mode_probs"])
        floors.append(ged.known_floor(example["labels"], (2,), **modes)[0])
        distances.append(ged.energy_distance(samples[:2], example["labels"]))
        matched.append(matching.hungarian_iou(samples, example["labels"]))
        exact.append(
            ged.energy_distance(
                samples, example["modes"], weights=example["mode_probs"]
            )
        )
    assert np.std(distances) > 0
    assert results["ged"]["2"]["mean"] == pytest.approx(np.mean(distances))
    assert results["floor"]["2"]["mean"] == pytest.approx(np.mean(floors))
    excess = results["excess"]["2"]["mean"]
    assert excess == pytest.approx(np.mean(distances) - np.mean(floors))
    assert results["hungarian_iou"]["mean"] == pytest.approx(np.mean(matched))
    assert results["exact_modes"]["ged"]["5"]["mean"] == pytest.approx(np.mean(exact))


def test_what_the_model_does_not_see_of_the_frame_is_background(tmp_path, phantom_dir):
    info = records.read_info(phantom_dir)
    model = saved_models.save(
        tmp_path / "model",
        saved_models.levels,
        info,
        data=DataConfig(crop_size=16, eval_size=16, scored_size=28),
    )
    results = run(
        tmp_path / "out",
        phantom_dir,
        saved_model=str(model),
        num_samples=(3,),
        save_samples=8,
    )
    assert results["protocol"]["image_size"] == [28, 28]
    distances = []
    examples = input_pipeline.evaluation_examples(
        info, "test", DataConfig(eval_size=28)
    )
    for example in examples.as_numpy_iterator():
        seed = np.array([sources.image_seed(0, example["key"].decode())], np.int32)
        seen = example["image"][None, 6:22, 6:22]
        samples = np.zeros([3, 28, 28], np.uint8)
        samples[:, 6:22, 6:22] = saved_models.levels(seen, 3, seed)[0].numpy()
        distances.append(ged.energy_distance(samples, example["labels"]))
    assert results["ged"]["3"]["mean"] == pytest.approx(np.mean(distances))
    with np.load(tmp_path / "out" / "samples.npz", allow_pickle=False) as stored:
        mean = stored["mean"]
    outside = np.ones([28, 28], bool)
    outside[6:22, 6:22] = False
    np.testing.assert_array_equal(mean[:, outside, 0], 1)
    np.testing.assert_array_equal(mean[:, outside, 1], 0)
    assert mean[:, ~outside, 1].std() > 0


def test_mean_probabilities_are_kept_in_few_bytes(tmp_path, phantom_dir, monkeypatch):
    import tensorflow as tf

    info = records.read_info(phantom_dir)
    model = saved_models.save(tmp_path / "model", saved_models.levels, info)
    exact = {}
    draw = sources.SavedModel.draw

    def keep(self, keys, images, count, **options):
        drawn = draw(self, keys, images, count, **options)
        noise = np.random.default_rng(0).random(drawn.mean.shape, np.float32)
        drawn = drawn._replace(mean=tf.nn.softmax(9 * noise, axis=-1).numpy())
        exact.update(zip(keys, drawn.mean))
        return drawn

    monkeypatch.setattr(sources.SavedModel, "draw", keep)
    run(tmp_path / "out", phantom_dir, saved_model=str(model), num_samples=(2,))
    with np.load(tmp_path / "out" / "samples.npz", allow_pickle=False) as stored:
        mean, keys = stored["mean"], stored["keys"]
    assert mean.dtype == np.float16
    expected = np.stack([exact[key] for key in keys])
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1 / 512)
    with zipfile.ZipFile(tmp_path / "out" / "samples.npz") as archive:
        assert archive.getinfo("mean.npy").compress_size < 0.4 * expected.nbytes


def numbers(results):
    """Results without what tells two calls apart."""
    return {k: v for k, v in results.items() if k != "command"}


def test_no_number_depends_on_the_batch_size(tmp_path, phantom_dir, lesions):
    import tensorflow as tf

    def rounding(image, num_samples, seed):
        # Stands for convolutions, which round differently in larger batches.
        shift = 0.1 * tf.cast(tf.shape(image)[0], tf.float32)
        return saved_models.levels(image + shift, num_samples, seed)

    info = records.read_info(phantom_dir)
    model = saved_models.save(tmp_path / "model", rounding, info)
    results = [
        run(tmp_path / f"{n}", phantom_dir, saved_model=str(model), batch_size=n)
        for n in (1, 3, 8)
    ]
    assert numbers(results[0]) == numbers(results[1]) == numbers(results[2])
    arrays = [dict(np.load(tmp_path / f"{n}" / "per_image.npz")) for n in (1, 3, 8)]
    for name, values in arrays[0].items():
        np.testing.assert_array_equal(values, arrays[1][name])
        np.testing.assert_array_equal(values, arrays[2][name])


def test_seed_decides_the_samples(tmp_path, phantom_dir, drawing):
    settings = dict(saved_model=str(drawing), limit=4)
    same, again, other = (
        run(tmp_path / name, phantom_dir, seed=seed, **settings)
        for name, seed in (("same", 1), ("again", 1), ("other", 2))
    )
    assert numbers(same) == numbers(again)
    assert same["ged"] != other["ged"]
    assert same["floor"] == other["floor"]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_goes_on_after_an_interruption(
    tmp_path, phantom_dir, drawing, monkeypatch, batch_size
):
    monkeypatch.setattr(parts, "_IMAGES_PER_PART", 2)
    settings = dict(saved_model=str(drawing), save_samples=5, validation_split="val")
    whole = run(tmp_path / "whole", phantom_dir, **settings)
    draw, drawn = sources.SavedModel.draw, []

    def failing(self, keys, *args, **kwargs):
        if len(drawn) + len(keys) > 5:
            raise KeyboardInterrupt
        drawn.extend(keys)
        return draw(self, keys, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(sources.SavedModel, "draw", failing)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "b", phantom_dir, batch_size=batch_size, **settings)
    assert not (tmp_path / "b" / "results.json").exists()
    assert len(drawn) == {1: 5, 3: 3}[batch_size]
    # As a killed process leaves them: half a file, and one that is not finished.
    (directory,) = (tmp_path / "b" / ".parts").iterdir()
    (directory / f"{len(drawn):08d}.npz").write_bytes(b"PK\x03\x04half")
    (directory / ".00000004.123.tmp.npz").write_bytes(b"")
    redrawn = []

    def counting(self, keys, *args, **kwargs):
        redrawn.extend(keys)
        return draw(self, keys, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(sources.SavedModel, "draw", counting)
        resumed = run(tmp_path / "b", phantom_dir, batch_size=2, **settings)
    assert not set(drawn) & set(redrawn)
    assert len(drawn) + len(redrawn) == 8 + 8  # Test and validation.
    assert numbers(resumed) == numbers(whole)
    for name in ("per_image.npz", "samples.npz"):
        one, other = (dict(np.load(tmp_path / d / name)) for d in ("whole", "b"))
        assert sorted(one) == sorted(other)
        for array in one:
            np.testing.assert_array_equal(one[array], other[array])
    assert not (tmp_path / "b" / ".parts").exists()


def test_parts_of_other_settings_are_not_used(
    tmp_path, phantom_dir, drawing, monkeypatch
):
    monkeypatch.setattr(parts, "_IMAGES_PER_PART", 2)
    settings = dict(saved_model=str(drawing), num_samples=(1,))
    expected = run(tmp_path / "whole", phantom_dir, seed=2, **settings)

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(evaluate._Evaluation, "score_validation", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "b", phantom_dir, seed=1, **settings)
    assert list((tmp_path / "b" / ".parts").iterdir())
    results = run(tmp_path / "b", phantom_dir, seed=2, **settings)
    assert numbers(results) == numbers(expected)


def test_parts_of_the_same_shards_with_another_meaning_are_not_used(
    tmp_path, phantom_dir, drawing, monkeypatch
):
    data_dir = shutil.copytree(phantom_dir, tmp_path / "data")
    settings = dict(saved_model=str(drawing), num_samples=(1,), validation_split="")
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "_write", lambda *_: (_ for _ in ()).throw(OSError))
        with pytest.raises(OSError):
            run(tmp_path / "b", data_dir, **settings)
    path = data_dir / records.INFO_NAME
    info = json.loads(path.read_text())
    info["class_names"].reverse()
    path.write_text(json.dumps(info))
    draw, drawn = sources.SavedModel.draw, []

    def counting(self, keys, *args, **kwargs):
        drawn.extend(keys)
        return draw(self, keys, *args, **kwargs)

    monkeypatch.setattr(sources.SavedModel, "draw", counting)
    run(tmp_path / "b", data_dir, **settings)
    assert len(drawn) == 8


def test_few_different_samples(tmp_path, lesions):
    model = saved_models.save(tmp_path / "model", alternate, lesions, max_samples=2)
    settings = dict(saved_model=str(model), num_samples=(1, 2, 4))
    results = run(tmp_path / "out", lesions.data_dir, **settings)
    assert list(results["ged"]) == ["1", "2"]
    assert any("2 different samples" in note for note in results["notes"])
    settings["num_samples"] = (4,)
    with pytest.raises(ValueError, match=r"num_samples is \(4,\), expected at most 2"):
        run(tmp_path / "none", lesions.data_dir, **settings)


def test_limit_scores_the_first_images(tmp_path, phantom_dir, drawing):
    settings = dict(saved_model=str(drawing), num_samples=(3,))
    run(tmp_path / "all", phantom_dir, **settings)
    results = run(
        tmp_path / "some", phantom_dir, limit=3, validation_split="val", **settings
    )
    whole, some = (
        np.load(tmp_path / name / "per_image.npz")["ged"] for name in ("all", "some")
    )
    np.testing.assert_array_equal(some, whole[:3])
    assert results["data"]["images"] == results["protocol"]["limit"] == 3
    assert results["ambiguity"]["validation_images"] == 3


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
    assert not {"baselines", "ambiguity", "brier"} & set(results)


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


@pytest.fixture
def streets(tmp_path):
    """Two street scenes of switchable classes with samples of known modes."""
    spec = datasets.spec(
        class_names=TRAIN_CLASS_NAMES,
        num_graders=1,
        ignore_label=255,
    )
    rng = np.random.default_rng(0)
    labels = rng.choice([0, 1, 8, 11, 13, 2, 255], (2, SIZE, SIZE)).astype(np.uint8)
    examples = [datasets.example(i, labels=labels[i][None]) for i in range(2)]
    info = datasets.write(tmp_path / "data", {"test": examples}, spec)
    samples = []
    for i in range(2):
        modes = rng.choice(32, 4, p=MODE_PROBABILITIES)
        maps = np.stack([switch_table(mode)[labels[i]] for mode in modes])
        maps[maps == 255] = 3
        sample_files.write(tmp_path / "samples", f"key-{i:03d}", maps)
        samples.append(maps)
    return info, labels, samples


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


def test_refuses_to_replace_results(tmp_path, lesions, alternating):
    settings = dict(saved_model=str(alternating), num_samples=(1,))
    run(tmp_path, lesions.data_dir, **settings)
    with pytest.raises(ValueError, match="results.json: exists already; --overwrite"):
        run(tmp_path, lesions.data_dir, **settings)
    settings["num_samples"] = (2,)
    results = run(tmp_path, lesions.data_dir, overwrite=True, **settings)
    assert list(results["ged"]) == ["2"]


def test_models_that_do_not_fit(tmp_path, lesions, phantom_dir):
    def check(message, error=ValueError, data_dir=lesions.data_dir, **settings):
        with pytest.raises(error, match=message):
            run(tmp_path / "out", data_dir, **settings)

    check("nowhere: no such directory", FileNotFoundError, saved_model="nowhere")
    foreign = saved_models.save(
        tmp_path / "foreign", alternate, lesions, with_assets=False
    )
    check("foreign: a SavedModel without assets/config.json", saved_model=str(foreign))
    colour = saved_models.save(tmp_path / "colour", alternate, lesions, channels=3)
    check(
        "has 1 image channels, but the model in .*colour expects 3",
        saved_model=str(colour),
    )
    many = saved_models.save(tmp_path / "many", alternate, lesions, num_classes=5)
    check("has 2 classes, but the model in .*many expects 5", saved_model=str(many))
    coarse = saved_models.save(tmp_path / "coarse", alternate, lesions, size_divisor=16)
    check("images are 8x8, but .* multiples of 16", saved_model=str(coarse))
    (coarse / "saved_model.pb").write_bytes(b"nonsense")
    check("coarse: damaged SavedModel", saved_model=str(coarse))


def test_a_model_that_fails_names_the_image(tmp_path, lesions):
    import tensorflow as tf

    def fails(image, num_samples, seed):
        check = tf.debugging.assert_less(image, 0.9, message="too bright")
        with tf.control_dependencies([check]):
            return alternate(tf.identity(image), num_samples, seed)

    model = saved_models.save(tmp_path / "model", fails, lesions)
    message = "key-00[1345]: sample of .*fails on it .*too bright"
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "out", lesions.data_dir, saved_model=str(model))


def test_notes_other_training_data(tmp_path, lesions, phantom_dir, drawing):
    results = run(
        tmp_path, lesions.data_dir, saved_model=str(drawing), num_samples=(1,)
    )
    assert len(results["notes"]) == 3
    assert results["notes"][-1] == FEW_GROUPS
    assert "trained on other data (phantom" in results["notes"][0]
    assert "'hu' values and is scored on 'uint8'" in results["notes"][1]


def test_an_unknown_split_is_refused(tmp_path, lesions, alternating):
    with pytest.raises(ValueError, match="no split 'nowhere'; there are test, val"):
        run(tmp_path, lesions.data_dir, saved_model=str(alternating), split="nowhere")
