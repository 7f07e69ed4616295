"""The steps at the end of a run in which only the prior net learns."""

import dataclasses
import signal

import numpy as np
import pytest
import tensorflow as tf
from helpers import runs

from tf_probunet import models
from tf_probunet.config import Config, DataConfig, ModelConfig, TrainingConfig
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.models import losses
from tf_probunet.models.base import grader_maps
from tf_probunet.training import callbacks, logs, train
from tf_probunet.training.run_dir import RunDir
from tf_probunet.training.strategy import mirrored

CONFIG = Config(
    model=ModelConfig(base_channels=4, num_scales=2, convs_per_block=1, latent_dim=2),
    data=DataConfig(crop_size=16, eval_size=16),
    training=TrainingConfig(
        steps=8,
        prior_steps=5,
        batch_size=4,
        graders_per_image=2,
        learning_rate=1e-2,
        final_learning_rate=1e-3,
        learning_rate_steps=0,
        ema_decay=0.5,
        validate_every=4,
        validation_images=4,
        validation_samples=2,
        log_every=1,
        checkpoint_every=1,
        keep_checkpoints=20,
    ),
)


def _train(config, data_dir, run_dir, devices=1):
    return train.train(
        config, data_dir=data_dir, run_dir=run_dir, strategy=mirrored(devices)
    )


def _of_step(run_dir, step):
    """Returns the weights of a step by name, the averages among them."""
    reader = tf.train.load_checkpoint(str(run_dir / "checkpoints" / f"ckpt-{step}"))
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith("model/")]
    return {n: reader.get_tensor(n) for n in names}


@pytest.fixture(scope="module")
def finished(phantom_dir, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("prior")
    assert _train(CONFIG, phantom_dir, run_dir).step == 8
    return run_dir


def test_only_the_prior_net_changes(finished):
    before, after = _of_step(finished, 4), _of_step(finished, 8)
    networks = {
        name: not np.array_equal(before[name], after[name])
        for name in before
        if name.split("/")[1] in ("unet", "prior_net", "posterior_net", "f_comb")
    }
    assert any("prior_net" in name for name in networks)
    for name, changed in networks.items():
        assert changed == name.startswith("model/prior_net"), name


def test_the_averages_become_the_weights_first(finished):
    """After step 3 the averages are taken, of all weights; step 4 is the prior's."""
    model = models.build(RunDir(finished).config().model, 0)
    model.weight_average = train.WeightAverage(model.trainable_variables, 0.5)
    checkpoint = tf.train.Checkpoint(model=model)
    checkpoint.restore(str(finished / "checkpoints" / "ckpt-3")).expect_partial()
    averages = [average.numpy() for average in model.weight_average.averages]
    checkpoint.restore(str(finished / "checkpoints" / "ckpt-4")).expect_partial()
    prior = {variable.ref() for variable in model.prior_net.trainable_variables}
    for variable, average in zip(model.trainable_variables, averages):
        if variable.ref() not in prior:
            np.testing.assert_array_equal(variable.numpy(), average)


def test_the_objective_is_the_divergence_alone(phantom_dir):
    info = records.read_info(phantom_dir)
    config = train.fit_to_data(CONFIG, info)
    model, _ = train.build(config)
    batch = next(iter(input_pipeline.training_batches(info, config)))
    labels = grader_maps(batch)
    expected = []
    for g in range(2):
        posterior = model.posterior(image=batch["image"], labels=labels[:, g])
        kl = losses.kl_per_dimension(posterior, model.prior(batch["image"]))
        expected.append(kl.numpy())
    terms = model.prior_objective(batch)
    assert set(terms) == {"loss", "kl", "kl_0", "kl_1"}
    mean = np.mean(expected, axis=(0, 1))
    assert float(terms["loss"]) == pytest.approx(mean.sum(), rel=1e-5)
    assert float(terms["kl"]) == pytest.approx(mean.sum(), rel=1e-5)
    assert float(terms["kl_1"]) == pytest.approx(mean[1], rel=1e-5)


def test_the_divergence_falls_and_the_learning_rate_falls_twice(finished):
    scalars = logs.read_scalars(finished)
    rates = scalars["training/learning_rate"]
    assert rates[4] > 0.9e-2 > rates[3] and rates[8] < rates[4]
    # The posterior does not move any more; the prior comes closer to it.
    assert scalars["validation/kl"][8] < scalars["validation/kl"][4]
    assert set(scalars["training/cross_entropy"]) == {1, 2, 3}
    assert set(scalars["training/kl"]) == set(range(1, 9))


@pytest.mark.parametrize("last", [2, 3, 5])
def test_a_run_stopped_anywhere_resumes_to_the_same_weights(
    last, finished, phantom_dir, tmp_path, monkeypatch
):
    original = callbacks.Interrupts.on_step

    def interrupt(self, logs):
        if self.step == last:
            signal.raise_signal(signal.SIGTERM)
        original(self, logs)

    monkeypatch.setattr(callbacks.Interrupts, "on_step", interrupt)
    stopped = _train(CONFIG, phantom_dir, tmp_path)
    assert (stopped.step, stopped.signal) == (last, signal.SIGTERM)
    monkeypatch.undo()
    assert _train(CONFIG, phantom_dir, tmp_path).step == 8
    runs.assert_same_weights(finished, tmp_path)


def test_two_replicas_make_the_steps_of_one(phantom_dir, tmp_path, monkeypatch):
    def zeros(shape, *args, **kwargs):
        return tf.zeros(shape)

    monkeypatch.setattr(tf.random, "stateless_normal", zeros)  # No latents are drawn.
    for devices in (1, 2):
        _train(CONFIG, phantom_dir, tmp_path / str(devices), devices=devices)
    one, two = (logs.read_scalars(tmp_path / name)["training/kl"] for name in "12")
    for step, kl in one.items():
        assert two[step] == pytest.approx(kl, rel=1e-3), step


@pytest.mark.parametrize(
    "settings", [{"name": "unet"}, {"fixed_prior": True}], ids=["unet", "fixed prior"]
)
def test_models_without_a_prior_net_learn_in_all_steps(settings, phantom_dir, tmp_path):
    model = dataclasses.replace(CONFIG.model, **settings)
    config = dataclasses.replace(CONFIG, model=model)
    assert config.prior_steps == 0
    _train(config, phantom_dir, tmp_path)
    before, after = _of_step(tmp_path, 7), _of_step(tmp_path, 8)
    changed = [n for n in before if not np.array_equal(before[n], after[n])]
    assert any(name.startswith("model/unet") for name in changed)


def test_as_many_prior_steps_as_steps_are_refused():
    with pytest.raises(ValueError, match="prior_steps is 8, expected less than steps"):
        Config(training=TrainingConfig(steps=8, prior_steps=8))
