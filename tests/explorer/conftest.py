"""A small Probabilistic U-Net whose segmentations depend on its latents."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from helpers.threshold_model import save_with_assets

from tf_probunet import models
from tf_probunet.artifacts import saved_model
from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.export.signatures import Signatures

LATENT_DIM = 4
_FUNCTIONS = ("sample", "prior", "posterior", "decode", "features")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """A SavedModel for images of 32x32."""
    config = Config(
        model=ModelConfig(
            base_channels=8,
            num_scales=2,
            convs_per_block=1,
            latent_dim=LATENT_DIM,
            initializer="he_normal",
        ),
        data=DataConfig(crop_size=32, eval_size=32),
    )
    network = models.build(config.model, seed=1)
    functions = Signatures(network).functions()
    _balance(network)
    module = tf.Module()
    module.weights = list(network.trainable_variables)
    for name in _FUNCTIONS:
        setattr(module, name, functions[name])
    path = tmp_path_factory.mktemp("explorer") / "model"
    return saved_model.load(save_with_assets(path, module, config))


def _balance(network: tf.keras.Model) -> None:
    """Shifts the last bias so that about half of an image is marked."""
    image = np.random.default_rng(0).random((1, 32, 32, 1), np.float32)
    prior = network.prior(tf.constant(image))
    logits = network.decode(network.features(image), prior.mean()[:, None])
    difference = np.median(logits[..., 1] - logits[..., 0])
    (bias,) = [w for w in network.weights if "f_comb/conv_2/bias" in w.name]
    bias.assign([difference / 2, -difference / 2])
