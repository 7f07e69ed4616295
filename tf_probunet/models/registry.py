"""The table of models. Everything that lists models is derived from it.

To add a model, add an entry here. `tests/models/test_registry.py` then names every
piece that is still missing: class, cost, picture, documentation, golden case. Nothing
here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model that can be trained.

    Attributes:
        title: its name in tables and figures.
        class_name: its class in the module of `tf_probunet.models` with its name.
        has_latents: whether it has a prior and a posterior over a latent vector.
        defaults: values for settings that are None in the configuration. They are the
            paper's for LIDC. The flag files have those for Cityscapes.
        fixed: settings that define the model and can't be chosen.
        energy_weight: what the energy distance weighs beside the model's own loss, if
            models are compared. Most losses are nats, summed over pixels.
    """

    title: str
    class_name: str
    has_latents: bool = False
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    energy_weight: float = 1000.0


@dataclasses.dataclass(frozen=True)
class Variant:
    """A model with certain settings: a row in the tables that compare models.

    Attributes:
        title: the title of the row.
        model: the name of the model in `MODELS`.
        settings: the settings that define the variant.
        training: settings of its training, instead of those of all models.
        is_ablation: whether the paper calls it an ablation.
        is_ensemble: whether it combines several runs with different seeds.
        has_cost: whether `run/model_table.py` lists it.
        is_compared: whether `run/compare_models.py` trains it.
    """

    title: str
    model: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    is_ablation: bool = False
    is_ensemble: bool = False
    has_cost: bool = True
    is_compared: bool = True

    def flags(self) -> tuple[str, ...]:
        """Returns the model and its settings as flags of `run/train.py`."""
        words = [f"--model={self.model}"]
        for name, value in {**self.settings, **self.training}.items():
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no{name}")
            else:
                words.append(f"--{name}={value}")
        return tuple(words)


MODELS = {
    "prob_unet": Entry(
        "Probabilistic U-Net",
        "ProbUNet",
        has_latents=True,
        defaults={"latent_dim": 6, "beta": 1.0},
    ),
    "unet": Entry("U-Net", "UNet"),
    "dropout_unet": Entry("Dropout U-Net", "DropoutUNet"),
    "m_heads": Entry("M-Heads", "MHeads"),
    "ssn": Entry("Stochastic Segmentation Network", "SSN"),
    "mixture": Entry(
        "Mixture of Stochastic Experts",
        "Mixture",
        defaults={"latent_dim": 1, "beta": 1.0},
        energy_weight=1.0,  # Its own loss lies between 0 and 1 as well.
    ),
    "hpu_net": Entry(
        "Hierarchical Probabilistic U-Net",
        "HPUNet",
        defaults={"latent_dim": 1, "beta": 1.0},
    ),
    "image2image_vae": Entry(
        "Image2Image VAE",
        "Image2ImageVAE",
        has_latents=True,
        defaults={"latent_dim": 3, "beta": 10.0},
        fixed={
            "fixed_prior": True,
            "posterior_sees_image": False,
            "injection": "start",
        },
    ),
}

# A combination of trained U-Nets. It is exported and scored, but not trained itself.
ENSEMBLE = "unet_ensemble"

# The keys are the names in `run/compare_models.py --models`.
VARIANTS = {
    "prob_unet": Variant("Probabilistic U-Net", "prob_unet"),
    "mixture_prior": Variant(
        "Probabilistic U-Net, mixture prior", "prob_unet", {"prior_components": 4}
    ),
    "fixed_prior": Variant(
        "fixed prior", "prob_unet", {"fixed_prior": True}, is_ablation=True
    ),
    "blind_posterior": Variant(
        "fixed prior, posterior without image",
        "prob_unet",
        {"fixed_prior": True, "posterior_sees_image": False},
        is_ablation=True,
    ),
    "early_injection": Variant(
        "latents at the start", "prob_unet", {"injection": "start"}, is_ablation=True
    ),
    "single_unet": Variant("U-Net", "unet", is_compared=False),
    "unet": Variant("U-Net Ensemble", "unet", is_ensemble=True),
    "dropout_unet": Variant("Dropout U-Net", "dropout_unet"),
    **{
        f"m_heads_{number}": Variant(
            f"M-Heads, {number} heads",
            "m_heads",
            {"num_heads": number},
            has_cost=number == 16,
        )
        for number in (4, 8, 16)
    },
    "ssn": Variant("Stochastic Segmentation Network", "ssn"),
    # Its beta weighs another divergence than that of the flag files.
    "mixture": Variant("Mixture of Stochastic Experts", "mixture", {"beta": 1.0}),
    # GECO weighs its KL divergence; nothing else shall.
    "hpu_net": Variant(
        "Hierarchical Probabilistic U-Net", "hpu_net", training={"kl_warmup_steps": 0}
    ),
    "image2image_vae": Variant("Image2Image VAE", "image2image_vae"),
}


def entry(name: str) -> Entry:
    """Returns the entry of a model.

    Raises:
        ValueError: there is no such model.
    """
    if name not in MODELS:
        raise ValueError(f"model is {name!r}, expected one of {', '.join(MODELS)}")
    return MODELS[name]
