"""A small Probabilistic U-Net whose segmentations depend on its latents."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets, results_writer
from helpers.predictions import with_classes
from helpers.threshold_model import save_with_assets

from tf_probunet import models
from tf_probunet.artifacts import saved_model
from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.dataset import records
from tf_probunet.dataset.cityscapes_labels import (
    IGNORE_LABEL,
    NUM_CLASSES,
    TRAIN_CLASS_NAMES,
)
from tf_probunet.export.signatures import Signatures

LATENT_DIM = 4
LESION_SIZE = 32
_FUNCTIONS = ("sample", "prior", "posterior", "decode", "features")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """A SavedModel for images of 32x32."""
    config = Config(
        model=_small(), data=DataConfig(crop_size=LESION_SIZE, eval_size=LESION_SIZE)
    )
    network = models.build(config.model, seed=1)
    functions = Signatures(network).functions()
    _balance(network)
    return _save(tmp_path_factory.mktemp("explorer"), network, functions, config)


@pytest.fixture(scope="session")
def street_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """A SavedModel for street scenes with switched classes."""
    config = Config(
        model=_small(
            image_channels=3, num_classes=NUM_CLASSES, ignore_label=IGNORE_LABEL
        ),
        data=DataConfig(crop_size=0, eval_size=0, task="switched"),
    )
    network = models.build(config.model, seed=1)
    functions = Signatures(network).functions()
    return _save(tmp_path_factory.mktemp("streets"), network, functions, config)


@pytest.fixture(scope="session")
def class_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """A SavedModel of whole images for two classes on a background.

    A number of the latent moves the outlines.
    """
    config = Config(
        model=_small(num_classes=3, outline_stddev=1.7),
        data=DataConfig(crop_size=0, eval_size=0),
    )
    network = models.build(config.model, seed=1)
    functions = Signatures(network).functions()
    loaded = _save(tmp_path_factory.mktemp("classes"), network, functions, config)
    return with_classes(loaded, ["background", "disc", "cup"])


@pytest.fixture(scope="session")
def street_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A data set of one street scene with all classes that are switched."""
    labels = results_writer.street_scene(0)
    path = tmp_path_factory.mktemp("street_data")
    datasets.write(
        path,
        {"test": [_street_example(labels)]},
        datasets.spec(
            class_names=TRAIN_CLASS_NAMES,
            image_shape=(*labels.shape, 3),
            num_graders=1,
            ignore_label=IGNORE_LABEL,
        ),
    )
    return path


def _street_example(labels: np.ndarray) -> records.Example:
    colours = np.stack([labels * factor for factor in (3, 5, 7)], axis=-1)
    return datasets.example(0, image=colours.astype(np.uint8), labels=labels[None])


def _small(**settings) -> ModelConfig:
    return ModelConfig(
        base_channels=8,
        num_scales=2,
        convs_per_block=1,
        latent_dim=LATENT_DIM,
        initializer="he_normal",
        **settings,
    )


def _save(
    folder: pathlib.Path, network: tf.keras.Model, functions, config: Config
) -> saved_model.LoadedModel:
    module = tf.Module()
    module.weights = list(network.trainable_variables)
    for name in _FUNCTIONS:
        setattr(module, name, functions[name])
    return saved_model.load(save_with_assets(folder / "model", module, config))


def _balance(network: tf.keras.Model) -> None:
    """Shifts the last bias so that about half of an image is marked."""
    image = np.random.default_rng(0).random((1, 32, 32, 1), np.float32)
    prior = network.prior(tf.constant(image))
    logits = network.decode(network.features(image), prior.mean()[:, None])
    difference = np.median(logits[..., 1] - logits[..., 0])
    (bias,) = [w for w in network.weights if "f_comb/conv_2/bias" in w.name]
    bias.assign([difference / 2, -difference / 2])
