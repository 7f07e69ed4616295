"""Validation: the scores, the best checkpoint, the log and the warnings."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers import runs, tiny

from tf_probunet import models, seeds
from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation.metrics import ged
from tf_probunet.training import logs, train, validation
from tf_probunet.training.run_dir import RunDir


def test_the_best_checkpoint_is_the_one_with_the_smallest_distance(finished):
    run_dir, outcome = finished
    distances = logs.read_scalars(run_dir)["validation/ged"]
    best_step = min(distances, key=distances.get)
    assert outcome.best["step"] == best_step
    assert outcome.best["ged"] == pytest.approx(distances[best_step], rel=1e-6)
    assert tf.train.latest_checkpoint(str(run_dir / "best")).endswith(f"-{best_step}")


def test_tensorboard_lists_the_run_by_name_with_its_energy_distance(finished):
    from tensorboard.plugins.hparams import metadata

    run_dir, _ = finished
    (path,) = (run_dir / "tensorboard").iterdir()
    found = {
        value.tag: value.metadata.plugin_data.content
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == metadata.PLUGIN_NAME
    }
    experiment = metadata.parse_experiment_plugin_data(found[metadata.EXPERIMENT_TAG])
    shown = [info.name.tag for info in experiment.metric_infos]
    assert shown[0] == "validation/ged"
    assert set(shown) <= set(logs.read_scalars(run_dir))
    session = metadata.parse_session_start_info_plugin_data(
        found[metadata.SESSION_START_INFO_TAG]
    )
    assert session.group_name == str(run_dir)
    assert {info.name for info in experiment.hparam_infos} == set(session.hparams)


def test_best_json_is_plain_json(finished):
    best = json.loads((finished[0] / "best.json").read_text())
    assert set(best) >= {"step", "ged", "loss", "cross_entropy", "kl"}


def test_a_collapse_is_reported_once_and_logged(phantom_dir, tmp_path, capsys):
    # So dear a divergence is given up at once; all samples are then the same.
    config = tiny.run(beta=1e6, steps=60, validate_every=30, learning_rate=1e-2)
    runs.train(config, phantom_dir, tmp_path)
    scalars = logs.read_scalars(tmp_path)
    assert scalars["validation/active_latents"][60] < 2
    output = capsys.readouterr()
    said = [
        line for line in (output.out + output.err).splitlines() if "warning" in line
    ]
    logged = runs.texts(tmp_path, "validation/warning")
    assert 1 <= len(said) == len(logged) <= 2
    assert "latent dimensions are active" in said[0]
    assert "latent dimensions are active" in logged[min(logged)]


def test_a_prior_that_does_not_see_the_image_is_noticed(phantom_dir, finished):
    model = RunDir(finished[0]).load_model("best")
    info, config = records.read_info(phantom_dir), tiny.run()
    validator = validation.Validator(model, info, config)
    moments = [
        (prior.mean().numpy(), prior.stddev().numpy())
        for prior in (model.prior(batch["image"]) for batch in validator._examples)
    ]
    mean, stddev = (np.concatenate(parts) for parts in zip(*moments))
    ratios = [*(mean.std(0) / stddev.mean(0)), *np.log(stddev).std(0)]
    assert validator.prior_spread() == pytest.approx(max(ratios), rel=1e-3)
    assert json.loads((finished[0] / "best.json").read_text())["prior_spread"] > 0.001
    # A net whose last features are 0 for every image gives its biases.
    kernel = model.prior_net.trainable_variables[-2]
    kernel.assign(tf.zeros_like(kernel))
    assert validator.prior_spread() == 0
    fixed = validation.Validator(
        models.build(tiny.run(fixed_prior=True).model), info, config
    )
    assert fixed.prior_spread() is None


def test_a_healthy_run_has_its_diversity_in_the_log(finished):
    scalars = logs.read_scalars(finished[0])
    assert set(scalars["validation/diversity"]) == {4, 6}
    assert all(0 <= share <= 1 for share in scalars["validation/diversity"].values())
    assert all(0 <= n <= 2 for n in scalars["validation/active_latents"].values())


def test_validation_scores_the_whole_frame(phantom_dir):
    """A mask that leaves the crop makes the same samples worse on the frame."""
    config = tiny.run(crop_size=8, eval_size=8, scored_size=32)
    info = records.read_info(phantom_dir)
    config = train.fit_to_data(config, info)
    model = models.build(config.model, 0)
    validator = validation.Validator(model, info, config)
    found = validator.energy_distance()["ged"]
    sample = validation.sampler(model)
    frames = input_pipeline.evaluation_examples(info, "val", DataConfig(eval_size=32))
    expected = []
    for i, batch in enumerate(frames.take(4).batch(4)):
        seed = seeds.fold_in(seeds.root(0), i)
        seen = sample(batch["image"][:, 12:20, 12:20], 2, seed).numpy()
        samples = np.zeros([4, 2, 32, 32], int)
        samples[..., 12:20, 12:20] = seen
        pairs = zip(samples, batch["labels"].numpy())
        expected += [ged.energy_distance(*pair) for pair in pairs]
    assert found == pytest.approx(np.mean(expected), rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "prob_unet"},
        {"name": "prob_unet", "outline_stddev": 1.7},
        {"name": "unet"},
        {"name": "dropout_unet"},
        {"name": "m_heads", "num_heads": 2},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_best_checkpoint_has_the_shift_that_scores_best(
    phantom_dir, tmp_path, settings
):
    config = tiny.run(**settings, tune_foreground=True, ema_decay=0.5)
    runs.train(config, phantom_dir, tmp_path)
    directory = RunDir(tmp_path)
    best = directory.best_score()
    found = directory.load_model("best")
    validator = validation.Validator(found, records.read_info(phantom_dir), config)
    assert validator.energy_distance()["ged"] == pytest.approx(best["ged"], abs=1e-6)
    # Relative to what was found, every other shift that was tried is no better.
    for shift in validation.SHIFTS:
        with found.foreground_shifted(shift - best["foreground_shift"]):
            tried = validator.energy_distance()["ged"]
        assert tried >= best["ged"] - 1e-6
    assert validator.energy_distance()["ged"] == pytest.approx(best["ged"], abs=1e-6)


def test_a_run_with_tuned_shifts_learns_the_same_weights(
    finished, phantom_dir, tmp_path
):
    runs.train(tiny.run(tune_foreground=True), phantom_dir, tmp_path)
    one, other = (
        RunDir(path).load_model("last").get_weights()
        for path in (finished[0], tmp_path)
    )
    for first, second in zip(one, other):
        np.testing.assert_array_equal(first, second)
