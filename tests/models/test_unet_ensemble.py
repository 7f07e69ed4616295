"""The U-Net Ensemble: its members as samples."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny

from tf_probunet import models, seeds
from tf_probunet.models.unet_ensemble import UNetEnsemble


def test_ensemble_samples_are_its_members_in_order(batch):
    members = [models.build(tiny.network(name="unet"), s) for s in (1, 2)]
    ensemble = UNetEnsemble(members)
    samples = ensemble.sample(batch["image"], 2, seeds.root(0)).numpy()
    for s, member in enumerate(members):
        np.testing.assert_allclose(
            samples[:, s], member.logits(batch["image"])[:, 0], atol=1e-5
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 2.*2 members"):
        ensemble.sample(batch["image"], 3, seeds.root(0))


def test_ensemble_needs_members():
    with pytest.raises(ValueError, match="at least one member"):
        UNetEnsemble([])
