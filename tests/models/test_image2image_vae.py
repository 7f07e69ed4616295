"""The Image2Image VAE: the Probabilistic U-Net with all three ablations."""

import numpy as np
from helpers import tiny

from tf_probunet import models


def test_image2image_vae_is_the_model_with_all_three_ablations(batch):
    config = tiny.network(name="image2image_vae", latent_dim=None)
    model = models.build(config)
    assert (model.config.latent_dim, model.config.beta) == (3, 10.0)
    np.testing.assert_array_equal(model.prior(batch["image"]).mean(), np.zeros((2, 3)))
    one = model.posterior(**batch).mean()
    other = model.posterior(image=0 * batch["image"], labels=batch["labels"]).mean()
    np.testing.assert_array_equal(one, other)
    assert model.unet.encoder.weights[0].shape[2] == 1 + 3
