"""The Image2Image VAE: latents at the U-Net's input, fixed prior, blind posterior."""

from __future__ import annotations

from tf_probunet.models.prob_unet import ProbUNet


class Image2ImageVAE(ProbUNet):
    """The paper's fourth baseline (after Zhu et al., 2017).

    It is the Probabilistic U-Net with all three ablations: a standard normal prior, a
    posterior that sees only the labels, and latents at the input. The model registry
    fixes these settings.
    """
