"""The cost of each model: its parameters, and the multiply-adds of sampling.

The counts include all convolutions and the product of latent and weights in f_comb.
Pooling, up-sampling, biases and activations add less than a hundredth and are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tf_probunet import models
from tf_probunet.config import ModelConfig
from tf_probunet.models import registry, symmetry
from tf_probunet.models.blocks import channels

# Members of the ensemble in the table, as in the paper's comparison with 16 samples.
NUM_MEMBERS = 16


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution: kernel size, channels in and out, and pixels of its output.

    A product whose weights are computed, or counted elsewhere, has no parameters.
    """

    kernel: int
    inputs: int
    outputs: int
    pixels: int
    has_bias: bool = True
    is_learned: bool = True

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        if not self.is_learned:
            return 0
        weights = self.kernel**2 * self.inputs * self.outputs
        return weights + self.outputs * self.has_bias

    @property
    def multiply_adds(self) -> int:
        """One per weight and pixel."""
        return self.pixels * self.kernel**2 * self.inputs * self.outputs


@dataclasses.dataclass(frozen=True)
class Cost:
    """The layers of a model, grouped by how often they run.

    Attributes:
        per_image: layers that run once per image, whatever the number of samples.
        per_sample: layers that run once per sample.
        training_only: layers that sampling does not need: the posterior net.
        copies: the number of members of an ensemble; each has all these layers.
        other_parameters: trained numbers that are no layer.
    """

    per_image: Sequence[Conv]
    per_sample: Sequence[Conv]
    training_only: Sequence[Conv] = ()
    copies: int = 1
    other_parameters: int = 0

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return self.sampling_parameters + self.copies * sum(
            layer.parameters for layer in self.training_only
        )

    @property
    def sampling_parameters(self) -> int:
        """The number of parameters that sampling needs."""
        layers = [*self.per_image, *self.per_sample]
        own = sum(layer.parameters for layer in layers) + self.other_parameters
        return self.copies * own

    def multiply_adds(self, num_samples: int) -> int:
        """Returns the multiply-adds of drawing samples for one image."""
        once = sum(layer.multiply_adds for layer in self.per_image)
        each = sum(layer.multiply_adds for layer in self.per_sample)
        return once + num_samples * each


def cost(config: ModelConfig, height: int, width: int, num_members: int = 0) -> Cost:
    """Counts the layers of a model.

    Args:
        config: the configuration of the model.
        height: the height of the image.
        width: the width of the image.
        num_members: the members of a U-Net Ensemble; 0 for a single model.

    Raises:
        ValueError: the cost of the model is not known.
    """
    config = models.with_defaults(config)
    if config.name not in _COSTS:
        raise ValueError(
            f"the cost of model {config.name!r} is unknown, expected one of "
            f"{', '.join(_COSTS)}"
        )
    single = _COSTS[config.name](config, (height, width))
    if not num_members:
        return single
    # Each sample of an ensemble is a member. Members share nothing.
    return Cost([], [*single.per_image, *single.per_sample], copies=num_members)


def _unet_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    """The only sample is computed once per image."""
    layers = _unet(config, config.image_channels, size)
    return Cost([*layers, *_head(config, config.num_classes, size)], [])


def _dropout_unet_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    """Samples share nothing."""
    return Cost([], _unet_cost(config, size).per_image)


def _m_heads_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    head = _head(config, config.num_classes * config.num_heads, size)
    return Cost([*_unet(config, config.image_channels, size), *head], [])


def _prob_unet_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    image, latent = config.image_channels, config.num_latents
    seen = config.num_classes + (image if config.posterior_sees_image else 0)
    posterior = _gaussian(config, seen, size)
    prior = [] if config.fixed_prior else _prior(config, size)
    width = config.comb_channels or config.base_channels
    first, *rest = _head(config, config.num_classes, size, width)
    if config.injection == "start":
        network = [*_unet(config, image + latent, size), first, *rest]
        return Cost(prior, network, posterior)
    # f_comb's first convolution splits: W [f, z] = W_f f + W_z z.
    shift = Conv(1, latent, width, 1, has_bias=False)
    unet = _unet(config, image, size)
    trunk = [*unet, *prior, first]
    if config.average_symmetries:
        again = [dataclasses.replace(layer, is_learned=False) for layer in unet]
        trunk += (symmetry.NUM_SYMMETRIES - 1) * again
    return Cost(trunk, [shift, *rest], posterior)


def _ssn_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    classes, rank = config.num_classes, config.covariance_rank
    once = [
        *_unet(config, config.image_channels, size),
        *_head(config, classes, size),
        *_head(config, classes * (1 + rank), size),
    ]
    # R common numbers times the rows of the factor, for every logit.
    return Cost(once, [Conv(1, rank, classes, _pixels(size, 0), is_learned=False)])


def _mixture_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    base, latent = config.base_channels, config.num_latents
    unet = _unet(config, config.image_channels, size)
    widest = channels(config)[-1]
    gate = [Conv(1, widest, base, 1), Conv(1, base, config.num_experts, 1)]
    # r(z) and s(z), once for each sample.
    modulation = 2 * [Conv(1, latent, base, 1), Conv(1, base, base, 1)]
    each = [*modulation, *_head(config, config.num_classes, size)]
    # The experts themselves: means and deviations.
    experts = config.num_experts * latent
    return Cost([*unet, *gate], each, other_parameters=2 * experts)


def _hpu_net_cost(config: ModelConfig, size: tuple[int, int]) -> Cost:
    image, coarsest = config.image_channels, config.num_scales - 1
    finest_latents = coarsest - config.num_latent_scales + 1
    posterior = _residual_encoder(config, image + config.num_classes, size)
    posterior += _top_down(config, size, range(finest_latents, coarsest + 1))
    head = _head(config, config.num_classes, size)
    if finest_latents == 0:  # The head sees the finest latents too.
        head[0] = dataclasses.replace(
            head[0], inputs=head[0].inputs + config.num_latents
        )
    each = [*_top_down(config, size, range(coarsest + 1)), *head]
    return Cost(_residual_encoder(config, image, size), each, posterior)


def _residual_encoder(
    config: ModelConfig, inputs: int, size: tuple[int, int]
) -> list[Conv]:
    layers = []
    for scale, filters in enumerate(channels(config)):
        layers += _residual(config, inputs, filters, _pixels(size, scale))
        inputs = filters
    return layers


def _top_down(config: ModelConfig, size: tuple[int, int], scales: range) -> list[Conv]:
    widths, coarsest = channels(config), config.num_scales - 1
    latent = config.num_latents
    layers = []
    for scale in reversed(scales):
        pixels, above = _pixels(size, scale), coarsest - scale
        if above:
            # What comes from the coarser scale carries its latents.
            joined = widths[scale + 1] + widths[scale]
            joined += latent if above <= config.num_latent_scales else 0
            layers += _residual(config, joined, widths[scale], pixels)
        if above < config.num_latent_scales:
            layers.append(Conv(1, widths[scale], 2 * latent, pixels))
    return layers


def _residual(
    config: ModelConfig, inputs: int, filters: int, pixels: int
) -> list[Conv]:
    project = Conv(1, inputs, filters, pixels)
    return [*_block(config, inputs, filters, pixels), project]


_COSTS = {
    "prob_unet": _prob_unet_cost,
    "unet": _unet_cost,
    "dropout_unet": _dropout_unet_cost,
    "m_heads": _m_heads_cost,
    "image2image_vae": _prob_unet_cost,
    "ssn": _ssn_cost,
    "mixture": _mixture_cost,
    "hpu_net": _hpu_net_cost,
}


def _encoder(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    layers = []
    for scale, filters in enumerate(channels(config)):
        layers += _block(config, inputs, filters, _pixels(size, scale))
        inputs = filters
    return layers


def _unet(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    size = (size[0] // config.input_pooling, size[1] // config.input_pooling)
    layers, widths = _encoder(config, inputs, size), channels(config)
    for scale in reversed(range(config.num_scales - 1)):
        joined = widths[scale + 1] + widths[scale]
        layers += _block(config, joined, widths[scale], _pixels(size, scale))
    return layers


def _gaussian(config: ModelConfig, inputs: int, size: tuple[int, int]) -> list[Conv]:
    height, width = size[0] // config.latent_pooling, size[1] // config.latent_pooling
    encoder = _encoder(config, inputs, (height, width))
    return [*encoder, Conv(1, encoder[-1].outputs, 2 * config.num_latents, 1)]


def _prior(config: ModelConfig, size: tuple[int, int]) -> list[Conv]:
    *encoder, last = _gaussian(config, config.image_channels, size)
    components = config.prior_components
    if components == 1:
        return [*encoder, last]
    # A mixture has a weight for each of its Gaussians.
    outputs = components * (last.outputs + 1)
    return [*encoder, dataclasses.replace(last, outputs=outputs)]


def _head(
    config: ModelConfig, outputs: int, size: tuple[int, int], width: int | None = None
) -> list[Conv]:
    base, pixels = config.base_channels, _pixels(size, 0)
    width = width or base
    return [
        Conv(1, base, width, pixels),
        Conv(1, width, width, pixels),
        Conv(1, width, outputs, pixels),
    ]


def _block(config: ModelConfig, inputs: int, filters: int, pixels: int) -> list[Conv]:
    widths = [inputs] + [filters] * config.convs_per_block
    return [Conv(3, a, b, pixels) for a, b in zip(widths, widths[1:])]


def _pixels(size: tuple[int, int], scale: int) -> int:
    return (size[0] >> scale) * (size[1] >> scale)


def rows() -> Iterator[tuple[str, registry.Variant]]:
    """Yields the title and the variant of each row of the table."""
    for variant in registry.VARIANTS.values():
        if variant.has_cost:
            title = f"— {variant.title}" if variant.is_ablation else variant.title
            if variant.is_ensemble:
                title += f", {NUM_MEMBERS} members"
            yield title, variant


def markdown_table(config: ModelConfig, height: int, width: int) -> str:
    """Returns a Markdown table of all models with the size of `config`."""
    lines = [
        "| model | parameters | in sampling | multiply-adds, 1 sample | 16 samples |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, variant in rows():
        own = dataclasses.replace(config, name=variant.model, **variant.settings)
        row = cost(own, height, width, NUM_MEMBERS if variant.is_ensemble else 0)
        millions = (row.parameters / 1e6, row.sampling_parameters / 1e6)
        billions = (row.multiply_adds(1) / 1e9, row.multiply_adds(16) / 1e9)
        lines.append(
            f"| {title} | {millions[0]:.2f} M | {millions[1]:.2f} M | "
            f"{billions[0]:.2f} G | {billions[1]:.2f} G |"
        )
    return "\n".join(lines) + "\n"
