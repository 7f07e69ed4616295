"""What each model costs: parameters, and multiply-adds of sampling, from its layers.

Convolutions are counted, and the product of latent and weights in f_comb. Pooling,
up-sampling, biases and activations are left out: they are below a hundredth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tf_probunet import models
from tf_probunet.config import ModelConfig
from tf_probunet.models.blocks import channels


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution: kernel size, channels in and out, and pixels of its output."""

    kernel: int
    inputs: int
    outputs: int
    pixels: int
    has_bias: bool = True

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        weights = self.kernel**2 * self.inputs * self.outputs
        return weights + self.outputs * self.has_bias

    @property
    def multiply_adds(self) -> int:
        """One for each weight and pixel."""
        return self.pixels * self.kernel**2 * self.inputs * self.outputs


@dataclasses.dataclass(frozen=True)
class Cost:
    """The layers of a model by how often they run.

    Attributes:
        per_image: run once for each image, however many samples are drawn.
        per_sample: run for each sample.
        training_only: not run in sampling: the posterior net.
        copies: of all of it, for an ensemble, whose samples are its members.
    """

    per_image: Sequence[Conv]
    per_sample: Sequence[Conv]
    training_only: Sequence[Conv] = ()
    copies: int = 1

    @property
    def parameters(self) -> int:
        """All that are trained."""
        layers = [*self.per_image, *self.per_sample, *self.training_only]
        return self.copies * sum(layer.parameters for layer in layers)

    @property
    def sampling_parameters(self) -> int:
        """Those that sampling needs."""
        layers = [*self.per_image, *self.per_sample]
        return self.copies * sum(layer.parameters for layer in layers)

    def multiply_adds(self, num_samples: int) -> int:
        """Returns the multiply-adds of so many samples of one image."""
        once = sum(layer.multiply_adds for layer in self.per_image)
        each = sum(layer.multiply_adds for layer in self.per_sample)
        return once + num_samples * each


def cost(config: ModelConfig, height: int, width: int, num_members: int = 0) -> Cost:
    """Counts the layers of a model.

    Args:
        config: of the model.
        height: of the image.
        width: of the image.
        num_members: of a U-Net Ensemble; 0 for a model on its own.
    """
    config = models.with_defaults(config)
    size, image, classes = (height, width), config.image_channels, config.num_classes
    if config.name in ("unet", "dropout_unet"):
        layers = [*_unet(config, image, size), *_head(config, classes, size)]
        if num_members:
            return Cost([], layers, copies=num_members)
        # The U-Net's only sample is computed once, dropout's anew for each.
        return Cost(layers, []) if config.name == "unet" else Cost([], layers)
    if config.name == "m_heads":
        head = _head(config, classes * config.num_heads, size)
        return Cost([*_unet(config, image, size), *head], [])
    return _prob_unet(config, size)


def _prob_unet(config: ModelConfig, size: tuple[int, int]) -> Cost:
    image, latent = config.image_channels, config.latent_dim
    blind = config.name == "image2image_vae" or not config.posterior_sees_image
    early = config.name == "image2image_vae" or config.injection == "start"
    fixed = config.name == "image2image_vae" or config.fixed_prior
    seen = config.num_classes + (0 if blind else image)
    posterior = _gaussian(config, seen, size)
    prior = [] if fixed else _gaussian(config, image, size)
    first, *rest = _head(config, config.num_classes, size)
    if early:
        network = [*_unet(config, image + latent, size), first, *rest]
        return Cost(prior, network, posterior)
    # f_comb's first convolution splits: W [f, z] = W_f f + W_z z.
    shift = Conv(1, latent, config.base_channels, 1, has_bias=False)
    trunk = [*_unet(config, image, size), *prior, first]
    return Cost(trunk, [shift, *rest], posterior)


def _encoder(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    layers = []
    for scale, filters in enumerate(channels(config)):
        layers += _block(config, inputs, filters, _pixels(size, scale))
        inputs = filters
    return layers


def _unet(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    layers, widths = _encoder(config, inputs, size), channels(config)
    for scale in reversed(range(config.num_scales - 1)):
        joined = widths[scale + 1] + widths[scale]
        layers += _block(config, joined, widths[scale], _pixels(size, scale))
    return layers


def _gaussian(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    height, width = size[0] // config.latent_pooling, size[1] // config.latent_pooling
    encoder = _encoder(config, inputs, (height, width))
    return [*encoder, Conv(1, encoder[-1].outputs, 2 * config.latent_dim, 1)]


def _head(config: ModelConfig, outputs: int, size: tuple[int, int]) -> list[Conv]:
    base, pixels = config.base_channels, _pixels(size, 0)
    return [
        Conv(1, base, base, pixels),
        Conv(1, base, base, pixels),
        Conv(1, base, outputs, pixels),
    ]


def _block(config: ModelConfig, inputs: int, filters: int, pixels: int) -> list[Conv]:
    widths = [inputs] + [filters] * config.convs_per_block
    return [Conv(3, a, b, pixels) for a, b in zip(widths, widths[1:])]


def _pixels(size: tuple[int, int], scale: int) -> int:
    return (size[0] >> scale) * (size[1] >> scale)


# Each row of the table: title, settings, members of an ensemble.
ROWS = (
    ("Probabilistic U-Net", {"name": "prob_unet"}, 0),
    ("— fixed prior", {"name": "prob_unet", "fixed_prior": True}, 0),
    (
        "— fixed prior, posterior without image",
        {"name": "prob_unet", "fixed_prior": True, "posterior_sees_image": False},
        0,
    ),
    ("— latents at the start", {"name": "prob_unet", "injection": "start"}, 0),
    ("U-Net", {"name": "unet"}, 0),
    ("U-Net Ensemble, 16 members", {"name": "unet"}, 16),
    ("Dropout U-Net", {"name": "dropout_unet"}, 0),
    ("M-Heads, 16 heads", {"name": "m_heads", "num_heads": 16}, 0),
    ("Image2Image VAE", {"name": "image2image_vae"}, 0),
)


def markdown_table(config: ModelConfig, height: int, width: int) -> str:
    """Returns a Markdown table of all models with the size of `config`."""
    lines = [
        "| model | parameters | in sampling | multiply-adds, 1 sample | 16 samples |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, settings, num_members in ROWS:
        row = cost(dataclasses.replace(config, **settings), height, width, num_members)
        millions = (row.parameters / 1e6, row.sampling_parameters / 1e6)
        billions = (row.multiply_adds(1) / 1e9, row.multiply_adds(16) / 1e9)
        lines.append(
            f"| {title} | {millions[0]:.2f} M | {millions[1]:.2f} M | "
            f"{billions[0]:.2f} G | {billions[1]:.2f} G |"
        )
    return "\n".join(lines) + "\n"
