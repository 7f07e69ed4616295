"""The models with the habits of Keras: keyword arguments, arrays, integer seeds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_probunet as pu
from tf_probunet import models, seeds
from tf_probunet.config import ModelConfig
from tf_probunet.models import registry

_TINY = {"base_channels": 2, "num_scales": 2, "convs_per_block": 1}


@pytest.fixture(scope="module")
def arrays():
    images = np.random.default_rng(0).integers(0, 256, [4, 8, 8, 1], np.uint8)
    return images, images[..., 0] > 128


@pytest.fixture(scope="module")
def network():
    return pu.ProbUNet(num_classes=2, image_channels=1, seed=3, **_TINY)


def _plain() -> models.base.SegmentationModel:
    return models.build(ModelConfig(num_classes=2, image_channels=1, **_TINY), seed=3)


@pytest.mark.parametrize("name", registry.MODELS)
def test_every_model_learns_from_arrays(name, arrays):
    settings = {**_TINY, "base_channels": 4, "initializer": "he_normal"}
    epochs = 60 if name == "mixture" else 30
    model = getattr(pu, registry.MODELS[name].class_name)(
        num_heads=4, dropout_rate=0.1, num_latent_scales=2, **settings
    )
    assert model.config.name == name
    model.compile(optimizer=tf.keras.optimizers.Adam(0.03))
    # Keras would draw the order of the images at random.
    fit = model.fit(*arrays, batch_size=4, epochs=epochs, verbose=0, shuffle=False)
    history = fit.history
    # The multiplier in the loss of the hierarchical model grows as long as it learns.
    term = history["cross_entropy" if name == "hpu_net" else "loss"]
    assert np.mean(term[-5:]) < 0.9 * np.mean(term[:2])
    if name == "mixture":
        # At least 1 - IoU of the nearest sample. It is 0.504 where all is marked.
        assert np.mean(history["transport"][-5:]) < 0.25
        marked = np.argmax(model.sample(arrays[0], num_samples=16), axis=-1) == 1
        masks = arrays[1][:, None]
        overlap = (marked & masks).sum((2, 3)) / (marked | masks).sum((2, 3))
        assert overlap.max(axis=1).min() > 0.75
    assert model.sample(arrays[0], num_samples=2).shape == [4, 2, 8, 8, 2]


def test_arrays_and_integer_seeds_are_those_of_the_plain_model(network, arrays):
    (images, masks), plain = arrays, _plain()
    batch = {
        "image": tf.constant(images, tf.float32) / 255,
        "labels": tf.constant(masks, tf.int32),
    }
    expected = plain.sample(batch["image"], 3, seeds.root(7))
    np.testing.assert_array_equal(network.sample(images, 3, seed=7), expected)
    np.testing.assert_array_equal(
        network.sample(images[..., 0], 3, np.int64(7)), expected
    )
    np.testing.assert_array_equal(network.sample(images, 3, seeds.root(7)), expected)
    expected = plain.objective(batch, seeds.root(7))["loss"]
    for given in ((images, masks), (images, masks[..., None]), batch):
        assert float(network.objective(given, seed=7)["loss"]) == float(expected)


def test_masks_of_several_graders(network, arrays):
    images, masks = arrays
    graders = np.stack([masks, masks, ~masks], axis=1)  # [4, 3, 8, 8]
    found = network.objective((images, graders))["cross_entropy"]
    one, other = (
        network.objective((images, maps))["cross_entropy"] for maps in (masks, ~masks)
    )
    assert float(found) == pytest.approx(float(2 * one + other) / 3, rel=0.01)


def test_a_model_is_fitted_again_with_arrays_of_another_kind(arrays):
    images, masks = arrays
    model = pu.ProbUNet(num_classes=2, image_channels=1, **_TINY)
    model.compile("adam")
    several = np.stack([masks] * 3, axis=1)
    for x, y in ((images, masks), (images[..., 0], several), (images, masks[:2, None])):
        model.fit(x[: len(y)], y, batch_size=2, verbose=0)
        terms = model.evaluate(x[: len(y)], y, verbose=0, return_dict=True)
        assert np.isfinite(terms["loss"])


def test_callbacks_keep_the_best_of_several_epochs(arrays, tmp_path):
    model = pu.UNet(num_classes=2, image_channels=1, **_TINY)
    model.compile("adam")
    keep = tf.keras.callbacks.ModelCheckpoint(
        str(tmp_path / "best"), save_best_only=True
    )
    fit = model.fit(
        *arrays, validation_split=0.5, epochs=3, verbose=0, callbacks=[keep]
    )
    assert len(fit.history["val_loss"]) == 3
    assert pu.load(tmp_path / "best").name == "unet"


def test_a_data_set_of_tuples_is_the_same_as_arrays(arrays):
    weights = []
    data = tf.data.Dataset.from_tensor_slices(arrays).batch(2)
    for given in ((data,), arrays):
        model = pu.UNet(**_TINY)
        model.compile()
        model.fit(*given, batch_size=None if len(given) == 1 else 2, shuffle=False,
                  validation_data=data, verbose=0)  # fmt: skip
        weights.append(model.get_weights())
    for first, second in zip(*weights):
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_weights_are_saved_and_loaded(network, arrays, tmp_path):
    network.save_weights(tmp_path / "it.weights.h5")
    other = pu.ProbUNet(seed=4, **_TINY)
    before = other.sample(arrays[0], 2)
    other.load_weights(tmp_path / "it.weights.h5")
    expected = network.sample(arrays[0], 2)
    np.testing.assert_array_equal(other.sample(arrays[0], 2), expected)
    assert np.abs(before - expected).max() > 1e-3


def test_a_saved_model_is_loaded(network, arrays, tmp_path):
    images = arrays[0]
    path = network.save(tmp_path / "model", class_names=["nothing", "something"])
    loaded = pu.load(path)
    assert loaded.class_names == ["nothing", "something"]
    expected = network.sample(images[:1], 3, seeds.fold_in(seeds.root(5), 0)[None])
    found = loaded.probabilities(images[0], num_samples=3, seed=5)
    np.testing.assert_allclose(found, tf.nn.softmax(expected)[0], atol=1e-5)
    card = (path / "assets" / "README.md").read_text("utf-8")
    assert "**Training**: by Keras' `fit`" in card
    with pytest.raises(ValueError, match="exists already"):
        network.save(path, overwrite=False)


def test_arguments_that_do_not_fit_are_refused(network, arrays, tmp_path):
    with pytest.raises(ValueError, match="loss is 'mse', expected none"):
        network.compile("adam", loss="mse")
    with pytest.raises(ValueError, match=r"it\.keras: expected a directory"):
        network.save(tmp_path / "it.keras")
    with pytest.raises(ValueError, match="expected 2 of them"):
        network.save(tmp_path / "it", class_names=["one"])
    with pytest.raises(ValueError, match="a batch is a ndarray, expected a tuple"):
        network.objective(arrays[0])
    for labels in (255 * arrays[1].astype(int), -1 * arrays[1]):
        for method in (network.fit, network.evaluate):
            with pytest.raises(ValueError, match=r"masks hold .*, expected labels 0 t"):
                method(arrays[0], labels, verbose=0)
    with pytest.raises(ValueError, match="images hold values from 0 .*expected uint8"):
        network.fit(arrays[0] * 1.0, arrays[1])
    with pytest.raises(ValueError, match="num_samples is 0, expected a whole number"):
        network.sample(arrays[0], 0)
    with pytest.raises(TypeError, match="chanels"):
        pu.ProbUNet(chanels=3)
