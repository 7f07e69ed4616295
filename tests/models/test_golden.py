"""Every public model through its life: training, checkpoint, SavedModel, replicas.

The outputs of each model are compared with those in tests/goldens. After a change that
is meant to change them, run

    python -m pytest tests/models/test_golden.py --renew_goldens

and commit the files.
"""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from helpers import goldens
from helpers.goldens import GOLDENS

from tf_probunet import files, seeds
from tf_probunet.config import Config, DataConfig
from tf_probunet.export import export, signatures
from tf_probunet.models.base import SegmentationModel
from tf_probunet.training import strategy
from tf_probunet.training.run_dir import RunDir

SIZE, BATCH = 8, 4
OUTPUTS = pathlib.Path(__file__).parents[1] / "goldens"
ON_ENERGY = tuple(
    golden.on_energy()
    for golden in GOLDENS
    if golden.name
    in ("prob_unet", "mixture_prior", "m_heads", "ssn", "mixture", "hpu_net")
)
ON_SWITCHES = tuple(
    dataclasses.replace(golden, name=f"{golden.name}_switched")
    for golden in (
        plain.on_energy(switched=True, num_classes=24, segmentation_weight=0.5)
        for plain in GOLDENS
        if plain.name in ("prob_unet", "m_heads")
    )
)
DATASET = {
    "name": "made up",
    "fingerprint": "0",
    "class_names": ["background", "lesion"],
    "intensity": "uint8",
    "num_graders": 1,
    "counts": {"train": BATCH},
}


def _batch(size=BATCH):
    """A bright half in noise; the labels are the bright half."""
    noise = tf.random.stateless_uniform([size, SIZE, SIZE, 1], [1, 1])
    columns = tf.range(SIZE)[None, None] < tf.range(1, size + 1)[:, None, None]
    labels = tf.broadcast_to(tf.cast(columns, tf.int32), [size, SIZE, SIZE])
    return {
        "image": 0.5 * noise + tf.cast(labels[..., None], tf.float32),
        "labels": labels,
    }


def _compiled(golden, seed=1, rate=0.01):
    model = golden.build(seed)
    optimizer = tf.keras.optimizers.Adam(rate)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, weight_decay=1e-5)
    return model, tf.train.Checkpoint(model=model, optimizer=optimizer)


def _steps(model, number):
    """Makes steps on the same batch and returns the loss of each."""
    step = model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(_batch()).repeat(number))
    losses = []
    for _ in range(number):
        model.reset_metrics()
        losses.append(float(step(batches)["loss"]))
    return losses


def _weights(model):
    return [variable.numpy() for variable in model.trainable_variables]


def _state(model):
    slots = [variable.numpy() for variable in model.optimizer.variables]
    return _weights(model) + slots


def _outputs(golden):
    """Returns the terms of the objective, and a few logits of two samples."""
    model, batch = golden.build(1), _batch(2)
    terms = model.objective(batch, seeds.root(3))
    samples = model.sample(batch["image"], 2, seeds.root(4)).numpy()
    return {
        "term_names": np.array(sorted(terms)),
        "terms": np.array([terms[name] for name in sorted(terms)]),
        "samples": samples[:, :, 1::3, 1::3],  # [2, 2, 3, 3, K]
    }


@pytest.mark.parametrize("golden", GOLDENS + ON_ENERGY, ids=lambda golden: golden.name)
def test_outputs_are_those_that_were_committed(golden, pytestconfig):
    path, found = OUTPUTS / f"{golden.name}.npz", _outputs(golden)
    if pytestconfig.getoption("renew_goldens"):
        np.savez_compressed(path, **found)
        pytest.skip(f"{path} is renewed")
    with np.load(path) as expected:
        assert list(found["term_names"]) == list(expected["term_names"])
        for name in ("terms", "samples"):
            np.testing.assert_allclose(
                found[name],
                expected[name],
                rtol=1e-4,
                atol=1e-4,
                err_msg=f"{name} of {golden.name} changed; is it meant? (--help: "
                "--renew_goldens)",
            )


def test_every_file_of_outputs_has_its_model():
    names = {golden.name for golden in GOLDENS + ON_ENERGY}
    assert {path.stem for path in OUTPUTS.iterdir()} == names


@dataclasses.dataclass
class Trained:
    """A model after 6 steps.

    Attributes:
        losses: of each step.
        checkpoint: written after step 3.
        state: weights and the optimiser's variables at step 3.
    """

    golden: goldens.Golden
    model: SegmentationModel
    losses: list
    checkpoint: str
    state: list


@pytest.fixture(scope="module", params=GOLDENS, ids=lambda golden: golden.name)
def trained(request, tmp_path_factory):
    model, checkpoint = _compiled(request.param)
    losses = _steps(model, 3)
    path = checkpoint.save(str(tmp_path_factory.mktemp("checkpoint") / "ckpt"))
    state = _state(model)
    losses += _steps(model, 3)
    return Trained(request.param, model, losses, path, state)


def test_loss_falls(trained):
    assert np.isfinite(trained.losses).all()
    assert int(trained.model.bad_step) == -1
    if trained.golden.couples_graders:
        pytest.skip("it learns in more steps: see tests/api/test_models.py")
    assert min(trained.losses[-2:]) < 0.98 * trained.losses[0]


def test_a_checkpoint_holds_all_that_a_run_goes_on_with(trained):
    other, checkpoint = _compiled(trained.golden, seed=1)
    checkpoint.restore(trained.checkpoint).assert_consumed()
    assert int(other.optimizer.iterations) == 3
    for mine, theirs in zip(trained.state, _state(other)):
        np.testing.assert_array_equal(mine, theirs)
    # Going back to it and on again ends at the same place.
    model, before = trained.model, _weights(trained.model)
    again = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    again.restore(trained.checkpoint).assert_consumed()
    assert any(np.any(a != b) for a, b in zip(before, _weights(model)))
    assert _steps(model, 3) == trained.losses[3:]
    for mine, theirs in zip(before, _weights(model)):
        np.testing.assert_array_equal(mine, theirs)


def test_another_seed_starts_with_other_weights(trained):
    golden = trained.golden
    first, same, other = (golden.build(seed) for seed in (1, 1, 9))
    for mine, theirs in zip(_weights(first), _weights(same)):
        np.testing.assert_array_equal(mine, theirs)
    assert all(np.any(a != b) for a, b in zip(_weights(first), _weights(other)))


def test_seeds_decide_the_samples(trained):
    model = trained.model
    sample = tf.function(model.sample, reduce_retracing=True)
    image, count = _batch()["image"], tf.constant(2)
    first, again, other = (
        sample(image, count, seeds.root(seed)).numpy() for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert first.shape == (BATCH, 2, SIZE, SIZE, 2)
    differs = np.abs(first - other).max(axis=(2, 3, 4)) > 1e-5  # [B, S]
    assert differs.all() if model.is_stochastic else not differs.any()


def test_samples_differ_where_there_is_more_than_one(trained):
    golden, model = trained.golden, trained.model
    samples = model.sample(_batch()["image"], 2, seeds.root(0)).numpy()
    differs = np.abs(samples[:, 0] - samples[:, 1]).max(axis=(1, 2, 3)) > 1e-5
    assert differs.any() == (golden.name != "unet")


def test_saved_model_gives_the_models_samples(trained, tmp_path):
    golden, model = trained.golden, trained.model
    config = Config(model=golden.config(), data=DataConfig(crop_size=8, eval_size=8))
    run_dir = RunDir(tmp_path / "run")
    files.write_json(run_dir.path / "config.json", config.to_json())
    files.write_json(run_dir.path / "dataset.json", DATASET)
    path = export.save(model, run_dir, tmp_path / "saved", validation=None)
    metadata = files.read_json(path / "assets" / "metadata.json", "metadata")
    assert metadata["model"] == golden.model
    assert metadata["max_samples"] == model.max_samples
    assert metadata["parameters"] == sum(w.size for w in _weights(model))
    loaded = tf.saved_model.load(str(path))
    image, numbers = _batch()["image"] / 1.5, tf.constant([7, 8, 9, 10])
    outputs = loaded.sample(image, 2, numbers)
    per_image = signatures.image_seeds(numbers, BATCH)
    logits = model.sample(image, 2, per_image)
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(logits), atol=1e-5
    )
    # The default number of samples is one that the model has.
    count = {"unet": 1}.get(golden.name, model.max_samples or 16)
    assert metadata["default_samples"] == count
    assert loaded.sample(image)["labels"].shape[1] == count
    if model.max_samples:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="at most 2: the model"
        ):
            loaded.sample(image, 3, numbers)


@pytest.fixture
def no_noise(monkeypatch):
    """Latents lie at the same place of all distributions, off their means."""
    halves = lambda shape, seed: tf.fill(shape, 0.5)  # noqa: E731
    monkeypatch.setattr(tf.random, "stateless_normal", halves)


def _gradients(golden, devices):
    """The terms for 2 N images and the change of the weights by a step of rate 1."""
    with devices.scope():
        model = golden.build(1, calm=True)
        optimizer = tf.keras.optimizers.SGD(1.0)
        optimizer.build(model.trainable_variables)
        model.compile(optimizer, weight_decay=1e-5)
    before = _weights(model)
    batches = devices.experimental_distribute_dataset(
        tf.data.Dataset.from_tensors(_batch(2 * BATCH)).unbatch().batch(2 * BATCH)
    )
    # Not compiled: the graph of two replicas takes long to build.
    terms = devices.run(model.train_step, args=(next(iter(batches)),))
    terms = {
        name: float(devices.reduce("MEAN", value, axis=None))
        for name, value in terms.items()
    }
    changes = [after - b for after, b in zip(_weights(model), before)]
    return terms, changes, model


@pytest.mark.parametrize(
    "golden", GOLDENS + ON_ENERGY + ON_SWITCHES, ids=lambda golden: golden.name
)
def test_two_replicas_compute_what_one_does(golden, no_noise):
    one, one_changes, _ = _gradients(golden, tf.distribute.get_strategy())
    two, two_changes, model = _gradients(golden, strategy.mirrored(2))
    assert set(one) == set(two) >= {"loss", "gradient_norm", "weight_decay"}
    for name, value in one.items():
        assert two[name] == pytest.approx(value, rel=2e-4, abs=1e-5), name
    for mine, theirs in zip(one_changes, two_changes):
        scale = np.abs(mine).max()
        assert scale > 0
        np.testing.assert_allclose(theirs, mine, atol=2e-4 * scale)
    for variable in model.trainable_variables:
        copies = [copy.numpy() for copy in variable.values]
        assert len(copies) == 2
        np.testing.assert_array_equal(*copies)


@pytest.mark.parametrize(
    "golden",
    [golden for golden in GOLDENS if not golden.couples_graders],
    ids=lambda golden: golden.name,
)
def test_several_graders_count_as_their_mean(golden, no_noise):
    model, batch = golden.build(1, calm=True), _batch()
    graders = [batch["labels"], 1 - batch["labels"], tf.zeros_like(batch["labels"])]
    together = model.objective(
        {"image": batch["image"], "labels": tf.stack(graders, 1)}, seeds.root(0)
    )
    alone = [
        model.objective({"image": batch["image"], "labels": labels}, seeds.root(0))
        for labels in graders
    ]
    for name, value in together.items():
        mean = np.mean([terms[name] for terms in alone])
        assert float(value) == pytest.approx(mean, rel=1e-4, abs=1e-5), name
