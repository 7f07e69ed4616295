"""Training runs: learning, resuming, refusing, replicas and broken losses."""

import concurrent.futures
import dataclasses
import json
import pathlib
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets, runs, tiny

from tf_probunet import locks, models, seeds
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.export import export
from tf_probunet.models.base import SegmentationModel
from tf_probunet.training import callbacks, logs, train
from tf_probunet.training.run_dir import RunDir, latest_checkpoint
from tf_probunet.training.strategy import mirrored

CONFIG = tiny.run()


def test_a_run_leaves_configuration_checkpoints_and_logs(finished):
    run_dir, outcome = finished
    assert outcome.step == 6 and outcome.signal is None
    directory = RunDir(run_dir)
    assert directory.config().training == CONFIG.training
    assert directory.dataset()["name"] == "phantom"
    scalars = logs.read_scalars(run_dir)
    assert set(scalars["training/loss"]) == {2, 4, 6}
    assert set(scalars["validation/ged"]) == {4, 6}
    for tag in ("kl", "kl_0", "kl_1", "gradient_norm", "learning_rate"):
        assert f"training/{tag}" in scalars
    # The mean of the terms is the mean of the loss.
    for step, loss in scalars["training/loss"].items():
        parts = scalars["training/cross_entropy"][step] + scalars["training/kl"][step]
        assert loss == pytest.approx(parts, rel=1e-4)
    # Six steps, five falls: the second step has the second of six rates.
    assert scalars["training/learning_rate"][2] == pytest.approx(10**-3.6, rel=1e-4)


def test_loaded_model_has_the_weights_of_the_run(finished):
    run_dir, _ = finished
    model = RunDir(run_dir).load_model("last")
    stored = runs.weights(run_dir)
    kernel = model.unet.encoder.weights[0].numpy()
    assert any(
        value.shape == kernel.shape and np.array_equal(value, kernel)
        for value in stored.values()
    )


def _interrupted_at_two(config, data_dir, run_dir, monkeypatch, between=lambda: None):
    """Interrupts a run after two steps, goes on with it and returns how it ended."""
    original = callbacks.Interrupts.on_step

    def interrupt_at_two(self, logs):
        if self.step == 2:
            signal.raise_signal(signal.SIGINT)
        original(self, logs)

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Interrupts, "on_step", interrupt_at_two)
        stopped = runs.train(config, data_dir, run_dir)
    assert stopped.step == 2 and stopped.signal == signal.SIGINT
    assert train.exit_code(stopped) == 130
    between()
    return runs.train(config, data_dir, run_dir)


def test_stopped_and_resumed_run_ends_with_the_same_weights(
    finished, phantom_dir, tmp_path, monkeypatch
):
    resumed = _interrupted_at_two(CONFIG, phantom_dir, tmp_path, monkeypatch)
    assert resumed.step == 6 and resumed.signal is None
    runs.assert_same_weights(finished[0], tmp_path)
    assert resumed.best == finished[1].best


def test_the_end_of_the_terminal_saves_unless_it_is_ignored(
    phantom_dir, tmp_path, monkeypatch
):
    original = callbacks.Interrupts.on_step

    def hang_up_at_two(self, logs):
        if self.step == 2:
            signal.raise_signal(signal.SIGHUP)
        original(self, logs)

    monkeypatch.setattr(callbacks.Interrupts, "on_step", hang_up_at_two)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        stopped = runs.train(CONFIG, phantom_dir, tmp_path / "a")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # As under nohup.
        finished = runs.train(CONFIG, phantom_dir, tmp_path / "b")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (stopped.step, stopped.signal) == (2, signal.SIGHUP)
    assert train.exit_code(stopped) == 129
    assert latest_checkpoint(tmp_path / "a" / "checkpoints") == "ckpt-2"
    assert (finished.step, finished.signal) == (6, None)


def test_a_run_directory_is_held_while_a_run_writes_to_it(phantom_dir, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with locks.inside(tmp_path / "run"):
            (tmp_path / "run" / "checkpoints" / "ckpt-3_temp").mkdir(parents=True)
            other = pool.submit(runs.train, CONFIG, phantom_dir, tmp_path / "run")
            with pytest.raises(ValueError, match="run: in use since .* by process"):
                other.result()
            # Another run's temporary files are its own.
            assert (tmp_path / "run" / "checkpoints" / "ckpt-3_temp").exists()


def test_signal_handlers_are_restored_after_a_run(phantom_dir, tmp_path):
    """The test has its own handler, because its parent process may ignore Ctrl-C."""

    def handler(number, frame):
        raise AssertionError(f"signal {number} reached the handler of the test")

    before = signal.signal(signal.SIGINT, handler)
    try:
        runs.train(tiny.run(steps=1), phantom_dir, tmp_path)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_finished_run_is_not_trained_again(finished, phantom_dir):
    run_dir, outcome = finished
    before = runs.weights(run_dir)
    again = runs.train(CONFIG, phantom_dir, run_dir)
    assert (again.step, again.best) == (outcome.step, outcome.best)
    for name, value in runs.weights(run_dir).items():
        np.testing.assert_array_equal(value, before[name])


def test_another_configuration_is_refused_with_the_difference(finished, phantom_dir):
    with pytest.raises(ValueError, match=r"training\.batch_size: 4 -> 2"):
        runs.train(tiny.run(batch_size=2), phantom_dir, finished[0])


def test_other_data_is_refused(finished, phantom_dir, tmp_path):
    from tf_probunet.config import PhantomConfig
    from tf_probunet.preparation import phantom

    other = PhantomConfig(image_size=32, num_train=8, num_val=4, num_test=4, seed=99)
    phantom.prepare(other, tmp_path / "other")
    with pytest.raises(ValueError, match="fingerprint"):
        runs.train(CONFIG, tmp_path / "other", finished[0])


@pytest.fixture
def data_copy(phantom_dir, tmp_path):
    """The phantom data, to be changed."""
    return pathlib.Path(shutil.copytree(phantom_dir, tmp_path / "data"))


def test_the_same_shards_with_another_meaning_are_refused(finished, data_copy):
    path = data_copy / records.INFO_NAME
    info = json.loads(path.read_text())
    info["class_names"].reverse()
    path.write_text(json.dumps(info))
    before, after = (r'\["background", "lesion"\]', r'\["lesion", "background"\]')
    message = f"trained on data with class_names {before}, but {data_copy} has {after}"
    with pytest.raises(ValueError, match=message):
        runs.train(CONFIG, data_copy, finished[0])


_SHARD = "train-00000-of-00001.tfrecord"


def _damage_fifth_record(shard: pathlib.Path, with_length: bool) -> None:
    kept = [record.numpy() for record in tf.data.TFRecordDataset(str(shard))]
    if not with_length:
        message = tf.train.Example.FromString(kept[4])
        message.features.feature["image"].bytes_list.value[:] = [b"no picture"]
        kept[4] = message.SerializeToString()
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in kept:
            writer.write(record)
    if with_length:
        data = bytearray(shard.read_bytes())
        start = sum(12 + len(record) + 4 for record in kept[:4])
        length = (2**40).to_bytes(8, "little")
        checksum = records._masked_crc32c(length).to_bytes(4, "little")
        data[start : start + 12] = length + checksum
        shard.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("with_length", "message"),
    [
        (True, r"damaged shard \(record 5 announces 1099511627776 bytes"),
        (False, r"unreadable record 5 of 24 \(.*(PNG|image|format).*\); prepare the"),
    ],
    ids=["length", "picture"],
)
def test_a_damaged_record_is_named(data_copy, tmp_path, with_length, message):
    """With checksums that fit: so that the pipeline meets it in the middle of a run."""
    _damage_fifth_record(data_copy / _SHARD, with_length)
    datasets.vouch(data_copy, _SHARD)
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(CONFIG, data_copy, tmp_path / "run")
    assert str(caught.value).startswith(f"{data_copy / _SHARD}: ")


@pytest.mark.parametrize("which", ["checkpoints", "best"])
def test_a_checkpoint_that_can_not_be_written_is_named(
    phantom_dir, tmp_path, monkeypatch, which
):
    write = tf.train.Checkpoint.write

    def fail(self, path):
        if pathlib.Path(path).parent.name == which:
            raise tf.errors.ResourceExhaustedError(
                None, None, "{{function_node x}} a_temp; No space left on device [Op:S]"
            )
        return write(self, path)

    monkeypatch.setattr(tf.train.Checkpoint, "write", fail)
    with pytest.raises(OSError) as caught:
        runs.train(CONFIG, phantom_dir, tmp_path)
    step = {"checkpoints": 3, "best": 4}[which]
    assert str(caught.value) == (
        f"{tmp_path / which}: can't write the checkpoint of step {step} (a_temp; No "
        "space left on device)"
    )


def test_without_resume_an_existing_run_is_refused(finished, phantom_dir):
    with pytest.raises(ValueError, match="holds a run already"):
        runs.train(CONFIG, phantom_dir, finished[0], resume=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop_size": 64}, "crop_size is 64, but the images .* are only 32x32"),
        ({"scored_size": 64}, "scored_size is 64, but the images .* are only 32x32"),
        ({"task": "switched"}, "expected the 19 classes of Cityscapes"),
        ({"batch_size": 3}, "expected a multiple of the 2 replicas"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, message, phantom_dir, tmp_path):
    with pytest.raises(ValueError, match=message):
        runs.train(tiny.run(**changes), phantom_dir, tmp_path, devices=2)
    assert not (tmp_path / "config.json").exists()


def test_missing_data_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no dataset_info.json"):
        runs.train(CONFIG, tmp_path / "nothing", tmp_path / "run")


def test_a_few_steps_lower_the_loss(phantom_dir, tmp_path):
    config = tiny.run(
        base_channels=8,
        initializer="he_normal",
        steps=60,
        learning_rate_steps=0,
        log_every=10,
        validate_every=60,
    )
    runs.train(config, phantom_dir, tmp_path)
    losses = logs.read_scalars(tmp_path)["training/loss"]
    assert losses[60] < 0.75 * losses[10]


def test_damaged_checkpoint_is_named(finished, phantom_dir, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    path = tf.train.latest_checkpoint(str(tmp_path / "run" / "checkpoints"))
    pathlib.Path(path + ".index").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="unreadable checkpoint"):
        RunDir(tmp_path / "run").load_model("last")


class _MeanPosterior:
    """Switches the only stochastic part of the training step off."""

    def __enter__(self):
        self._normal = tf.random.stateless_normal
        tf.random.stateless_normal = lambda shape, *args, **kwargs: tf.zeros(shape)

    def __exit__(self, *error):
        tf.random.stateless_normal = self._normal


@pytest.mark.parametrize("name", ["prob_unet", "unet", "m_heads"])
def test_two_replicas_make_the_step_of_one(name, phantom_dir):
    config = tiny.run(name=name, num_heads=3, weight_decay=1e-3)
    info = records.read_info(phantom_dir)
    config = train.fit_to_data(config, info)
    results = []
    for devices in (1, 2):
        strategy = mirrored(devices)
        with strategy.scope():
            model, _ = train.build(config)
        batches = train._batches(info, config, strategy, 0)
        with _MeanPosterior():
            history = model.fit(batches, epochs=3, steps_per_epoch=1, verbose=0)
        weights = [variable.numpy() for variable in model.trainable_variables]
        results.append((history.history, weights))
    (one, weights), (two, other_weights) = results
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-4)
    np.testing.assert_allclose(one["gradient_norm"], two["gradient_norm"], rtol=1e-3)
    for value, other in zip(weights, other_weights):
        np.testing.assert_allclose(value, other, atol=2e-4)


class _Breaking(SegmentationModel):
    """A model whose `kl` turns NaN at the third step."""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        self.conv = tf.keras.layers.Conv2D(config.num_classes, 1)
        self.calls = tf.Variable(0.0, trainable=False)

    def fit_terms(self, shared, batch, seed, kl_weight):
        loss = tf.reduce_mean(self.conv(shared) ** 2)
        kl = tf.where(self.calls.assign_add(1.0) > 3.0, np.nan, 0.0)  # 1 to initialise
        return {"loss": loss, "kl": kl}

    def sample(self, image, num_samples, seed):
        return tf.repeat(self.conv(image)[:, None], num_samples, axis=1)


def test_a_loss_that_is_not_finite_stops_the_run(phantom_dir, tmp_path, monkeypatch):
    def build(config, seed):
        model = _Breaking(models.with_defaults(config), seed)
        model.initialize()
        return model

    monkeypatch.setattr(models, "build", build)
    config = tiny.run(checkpoint_every=1, validate_every=6, log_every=4)
    info = records.read_info(phantom_dir)
    batches = input_pipeline.training_batches(
        info, train.fit_to_data(config, info), start_step=2, with_keys=True
    )
    keys = [key.decode() for key in next(iter(batches))["key"].numpy()]
    with pytest.raises(callbacks.DivergedError) as error:
        runs.train(config, phantom_dir, tmp_path)
    # Steps are counted from 0; the guard looks before the checkpoint of each step.
    assert "step 2: kl not finite" in str(error.value)
    assert all(key in str(error.value) for key in keys)
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith("-2")


def test_a_run_on_the_energy_distance_alone(phantom_dir, tmp_path, monkeypatch):
    config = tiny.run(
        elbo_weight=0.0, energy_weight=10.0, energy_samples=3, ema_decay=0.9
    )
    whole = runs.train(config, phantom_dir, tmp_path / "whole")
    assert {"loss", "energy_distance", "ged"} <= set(whole.best)
    assert "kl" not in whole.best and "active_latents" not in whole.best
    scalars = logs.read_scalars(tmp_path / "whole")
    for step, loss in scalars["training/loss"].items():
        distance = scalars["training/energy_distance"][step]
        assert loss == pytest.approx(10.0 * distance, rel=1e-4)
    resumed = _interrupted_at_two(config, phantom_dir, tmp_path / "other", monkeypatch)
    assert resumed.best == whole.best
    runs.assert_same_weights(tmp_path / "whole", tmp_path / "other")


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):
    """The last weights of the finished run, as a SavedModel."""
    return export.export_run(
        finished[0], tmp_path_factory.mktemp("export") / "model", checkpoint="last"
    )


def test_a_run_starts_from_the_weights_of_a_saved_model(
    finished, exported, phantom_dir, tmp_path
):
    still = tiny.run(
        start_from=str(exported),
        seed=5,
        steps=2,
        learning_rate=0.0,
        final_learning_rate=0.0,
        ema_decay=0.5,
        energy_weight=1.0,
    )
    runs.train(still, phantom_dir, tmp_path / "run")
    for which in ("last", "best"):  # "last" has the averages.
        model = RunDir(tmp_path / "run").load_model(which)
        expected = RunDir(finished[0]).load_model("last")
        for mine, theirs in zip(
            model.trainable_variables, expected.trainable_variables
        ):
            np.testing.assert_array_equal(mine, theirs)
    (before,) = RunDir(tmp_path / "run").history()
    assert before == SavedModelDir(exported).history()[-1]
    assert before["config"]["training"]["steps"] == 6


def test_a_run_that_goes_on_needs_no_saved_model(
    exported, phantom_dir, tmp_path, monkeypatch
):
    config = tiny.run(start_from=str(tmp_path / "model"))
    shutil.copytree(exported, tmp_path / "model")
    resumed = _interrupted_at_two(
        config,
        phantom_dir,
        tmp_path / "run",
        monkeypatch,
        between=lambda: shutil.rmtree(tmp_path / "model"),
    )
    assert resumed.step == 6


def test_weights_of_another_network_are_refused(exported, phantom_dir, tmp_path):
    config = tiny.run(start_from=str(exported), base_channels=2)
    with pytest.raises(ValueError) as error:
        runs.train(config, phantom_dir, tmp_path)
    assert str(error.value) == (
        f"{exported}: weights of another network than this run's: base_channels is 4, "
        "expected at most 2; give the flags of the network it was trained with, or of "
        "a larger one"
    )


def test_a_larger_network_starts_from_a_smaller_one(
    finished, exported, phantom_dir, tmp_path
):
    still = {"learning_rate": 0.0, "final_learning_rate": 0.0, "steps": 2}
    config = tiny.run(start_from=str(exported), base_channels=6, **still)
    runs.train(config, phantom_dir, tmp_path / "run")
    small = RunDir(finished[0]).load_model("last")
    large = RunDir(tmp_path / "run").load_model("last")
    image = tf.random.stateless_uniform([1, 16, 16, 1], [1, 2])
    found, expected = (m.sample(image, 2, seeds.root(0)) for m in (large, small))
    np.testing.assert_allclose(found, expected, atol=1e-5)


LEARNING = tiny.run(
    base_channels=8,
    initializer="he_normal",
    steps=10,
    learning_rate=1e-2,
    learning_rate_steps=0,
    log_every=1,
    validate_every=10,
)


def _losses(config, data_dir, run_dir):
    """Returns the loss of each step, without latents: XLA draws other ones."""
    with _MeanPosterior():
        runs.train(config, data_dir, run_dir)
    tf.keras.mixed_precision.set_global_policy("float32")
    return logs.read_scalars(run_dir)["training/loss"]


@pytest.fixture(scope="module")
def learning(phantom_dir, tmp_path_factory):
    """The losses of ten steps that learn quickly, in full precision."""
    return _losses(LEARNING, phantom_dir, tmp_path_factory.mktemp("learning"))


@pytest.mark.parametrize(
    ("changes", "tolerance"),
    [({"mixed_precision": "bfloat16"}, 0.05), ({"jit_compile": True}, 1e-3)],
    ids=["bfloat16", "xla"],
)
def test_other_ways_to_compute_come_to_the_same_losses(
    changes, tolerance, learning, phantom_dir, tmp_path
):
    assert learning[10] < 0.8 * learning[1]
    found = _losses(tiny.changed(LEARNING, **changes), phantom_dir, tmp_path)
    for step, loss in learning.items():
        assert found[step] == pytest.approx(loss, rel=tolerance), step


def test_float16_comes_to_the_same_losses_a_few_steps_later(
    learning, phantom_dir, tmp_path
):
    config = tiny.changed(LEARNING, mixed_precision="float16", steps=14)
    found = _losses(config, phantom_dir, tmp_path)
    assert found[1] == pytest.approx(learning[1], rel=0.01)
    # The first steps only find the scale of the loss; their gradients overflow.
    assert found[14] < 0.8 * learning[1]


def test_several_steps_in_a_call_are_the_same_steps(learning, phantom_dir, tmp_path):
    found = _losses(
        tiny.changed(LEARNING, steps_per_execution=5), phantom_dir, tmp_path
    )
    # Logged when five steps are done: their mean.
    for last in (5, 10):
        expected = np.mean([learning[step] for step in range(last - 4, last + 1)])
        assert found[last] == pytest.approx(expected, rel=1e-4)


def test_kl_grows_to_its_weight_during_the_warm_up(phantom_dir, tmp_path):
    config = tiny.run(kl_warmup_steps=4, log_every=1, beta=2.0, steps=6)
    runs.train(config, phantom_dir, tmp_path)
    scalars = logs.read_scalars(tmp_path)
    for step, weight in [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0), (5, 1.0)]:
        terms = {n: scalars[f"training/{n}"][step] for n in ("loss", "kl")}
        expected = scalars["training/cross_entropy"][step] + 2 * weight * terms["kl"]
        assert terms["loss"] == pytest.approx(expected, rel=1e-5)
    # Validation always has the whole weight.
    terms = {n: scalars[f"validation/{n}"][4] for n in ("loss", "kl", "cross_entropy")}
    assert terms["loss"] == pytest.approx(
        terms["cross_entropy"] + 2 * terms["kl"], rel=1e-5
    )


def test_terms_on_samples_grow_to_their_weights_during_the_warm_up(
    phantom_dir, tmp_path
):
    config = tiny.run(
        energy_warmup_steps=4,
        energy_weight=50.0,
        elbo_weight=0.0,
        presence_weight=20.0,
        log_every=1,
        steps=6,
    )
    runs.train(config, phantom_dir, tmp_path)
    scalars = logs.read_scalars(tmp_path)
    for step, factor in [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0), (5, 1.0)]:
        energy, presence, loss = (
            scalars[f"training/{name}"][step]
            for name in ("energy_distance", "presence", "loss")
        )
        assert loss == pytest.approx(factor * (50 * energy + 20 * presence), rel=1e-5)


def test_shifts_are_for_two_classes(phantom_dir):
    info = records.read_info(phantom_dir)
    spec = dataclasses.replace(info.spec, class_names=("a", "b", "c"))
    info = dataclasses.replace(info, spec=spec)
    with pytest.raises(ValueError, match="tune_foreground is for two classes, .* 3"):
        train.fit_to_data(tiny.run(tune_foreground=True), info)
