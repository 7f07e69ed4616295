"""Whole evaluations of made-up models, against numbers worked out by hand."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile

import numpy as np
import pytest
from helpers import saved_models
from helpers.evaluations import (
    FEW_GROUPS,
    SQUARE,
    alternate,
    means,
    numbers,
    run,
)

from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation import evaluate, parts, sources
from tf_probunet.evaluation.metrics import ged, matching


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
    # One of two graders marks two of the six images, and both mark the others.
    shares = {"samples": pytest.approx(5 / 6), "graders": pytest.approx(5 / 6)}
    assert results["presence"] == shares
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
    assert "| floor (a perfect model, independent samples) | 0.500" in markdown
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


def test_refuses_to_replace_results(tmp_path, lesions, alternating):
    settings = dict(saved_model=str(alternating), num_samples=(1,))
    run(tmp_path, lesions.data_dir, **settings)
    with pytest.raises(ValueError, match="results.json: exists already; --overwrite"):
        run(tmp_path, lesions.data_dir, **settings)
    settings["num_samples"] = (2,)
    results = run(tmp_path, lesions.data_dir, overwrite=True, **settings)
    assert list(results["ged"]) == ["2"]


def test_an_unknown_split_is_refused(tmp_path, lesions, alternating):
    with pytest.raises(ValueError, match="no split 'nowhere'; there are test, val"):
        run(tmp_path, lesions.data_dir, saved_model=str(alternating), split="nowhere")


def test_an_offset_moves_image_and_labels_away_from_the_middle(tmp_path, lesions):
    # The model sees the middle 4 x 4 of 8 x 8 pixels, with the square in it.
    model = saved_models.save(
        tmp_path / "model",
        alternate,
        lesions,
        data=DataConfig(crop_size=4, eval_size=4, scored_size=8),
    )
    settings = {"saved_model": str(model), "num_samples": (1,)}
    results = run(tmp_path / "middle", lesions.data_dir, **settings)
    assert results["ged"]["1"]["mean"] == pytest.approx(1 / 6)
    assert "offset_px" not in results["protocol"]
    results = run(tmp_path / "moved", lesions.data_dir, offset_px=2, **settings)
    assert results["protocol"]["offset_px"] == 2
    with np.load(tmp_path / "moved" / "samples.npz") as saved:
        graders, samples = saved["graders"], saved["samples"]
    with np.load(tmp_path / "moved" / "per_image.npz") as stored:
        scores = stored["ged"][:, 0]
    moves = set()
    for masks, (sample,), score in zip(graders, samples, scores):
        row, col = (int(places.min()) - 2 for places in np.nonzero(masks[0]))
        moves.add((row, col))
        assert round(np.hypot(row, col)) == 2
        expected = np.roll(SQUARE, (row, col), axis=(0, 1))
        np.testing.assert_array_equal(masks[0], expected)
        seen = np.zeros_like(SQUARE)
        seen[2:6, 2:6] = expected[2:6, 2:6]
        np.testing.assert_array_equal(sample, seen)
        assert score == pytest.approx(ged.energy_distance(sample[None], masks))
    assert len(moves) > 1
    with pytest.raises(ValueError, match="offset_px is 3, expected at most 2: .* 4 of"):
        run(tmp_path / "far", lesions.data_dir, offset_px=3, **settings)
