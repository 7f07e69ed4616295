"""Samples of SavedModels: which part of a frame they see, what they depend on."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import run_dirs, saved_models
from helpers.evaluations import (
    FEW_GROUPS,
    alternate,
    numbers,
    run,
)
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import saved_model
from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation import sources
from tf_probunet.evaluation.metrics import ged
from tf_probunet.export import export
from tf_probunet.predict import sampling


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


def test_stratified_sets_depend_on_seed_and_key_alone(tmp_path):
    path = save_threshold_model(tmp_path / "model", eval_size=16)
    source = sources.SavedModel(path, 3, "stratified")
    images = np.random.default_rng(0).random((2, 16, 16, 1)).astype(np.float32)
    drawn = source.draw(["a", "b"], images, 16, fewer=(2, 16), with_mean=True)
    alone = source.draw(["b"], images[1:], 16, fewer=(2,))
    np.testing.assert_array_equal(drawn.labels[1], alone.labels[0])
    np.testing.assert_array_equal(drawn.sets[2][1], alone.sets[2][0])
    assert list(drawn.sets) == [2]
    for count, found in ((2, drawn.sets[2]), (16, drawn.labels)):
        expected = sampling.draw_set(
            saved_model.load(path),
            images[1:],
            count=count,
            seed=sources.image_seed(3, "b"),
            sampling="stratified",
            about="b",
        )
        np.testing.assert_array_equal(found[1], expected["labels"][0])
    np.testing.assert_allclose(
        drawn.mean[1], expected["probabilities"][0].mean(axis=0), atol=1e-6
    )
    assert source.draw(["a"], images[:1], 2).sets is None
    independent = sources.SavedModel(path, 3).draw(["a"], images[:1], 4, fewer=(2,))
    assert independent.sets is None


def test_a_model_without_latents_cannot_be_stratified(tmp_path, lesions, alternating):
    with pytest.raises(
        ValueError, match="sampling is 'stratified', but the made_up in"
    ):
        run(
            tmp_path / "out",
            lesions.data_dir,
            saved_model=str(alternating),
            sampling="stratified",
        )
    assert not (tmp_path / "out" / "results.json").exists()


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
    coarse = saved_models.save(
        tmp_path / "coarse", alternate, lesions, data=DataConfig(eval_size=16)
    )
    check("images of 8x8, but .*coarse expects at least 16x16", saved_model=str(coarse))
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


def test_weighted_samples_come_with_the_weights_of_the_model(tmp_path, phantom_dir):
    data = DataConfig(crop_size=16, eval_size=16)
    run_dirs.make_run(tmp_path / "run", phantom_dir, data=data, name="mixture")
    path = export.export_run(tmp_path / "run", tmp_path / "saved")
    source = sources.SavedModel(path, 3, "weighted")
    images = np.random.default_rng(0).random((2, 16, 16, 1)).astype(np.float32)
    drawn = source.draw(["a", "b"], images, 6, with_mean=True)
    loaded = saved_model.load(path)
    seed = [sources.image_seed(3, "b")]
    expected = loaded.call("weighted", images[1:], 6, seed, about="b")
    np.testing.assert_array_equal(drawn.labels[1], expected["labels"][0])
    weights = expected["weights"][0]
    np.testing.assert_allclose(drawn.weights[1], weights, atol=1e-6)
    np.testing.assert_allclose(drawn.weights.sum(1), 1, atol=1e-12)
    mean = np.einsum("s,shwk->hwk", weights, expected["probabilities"][0])
    np.testing.assert_allclose(drawn.mean[1], mean, atol=1e-5)


def test_a_model_without_weights_can_not_be_weighted(tmp_path, lesions, alternating):
    settings = {"saved_model": str(alternating), "sampling": "weighted"}
    with pytest.raises(ValueError, match="the samples of the made_up in .* no weights"):
        run(tmp_path / "out", lesions.data_dir, **settings)
