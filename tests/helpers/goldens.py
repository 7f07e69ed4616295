"""A small configuration of each public model and each ablation, to be tested alike."""

from __future__ import annotations

import dataclasses
from typing import Any

from helpers import tiny

from tf_probunet import models
from tf_probunet.config import ModelConfig

SMALL = tiny.network(latent_dim=None, initializer="he_normal")


@dataclasses.dataclass(frozen=True)
class Golden:
    """A model that the suite takes through its life.

    Attributes:
        name: the name of the case.
        model: the public name of the model.
        class_name: the name of its class.
        settings: the settings of the configuration, besides the size.
        calm: settings that switch off all randomness in training but the latents.
        num_members: the members of an ensemble; 0 for other models.
        couples_graders: whether several graders in a step count otherwise than one
            after the other.
    """

    name: str
    model: str
    class_name: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    calm: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_members: int = 0
    couples_graders: bool = False

    def config(self, *, calm: bool = False) -> ModelConfig:
        """Returns the configuration with the model's defaults."""
        name = "unet" if self.num_members else self.model
        settings = {**self.settings, **(self.calm if calm else {})}
        config = dataclasses.replace(SMALL, name=name, **settings)
        return models.with_defaults(config)

    def on_energy(self, **settings: Any) -> Golden:
        """Returns the same model, trained on the energy distance too."""
        energy = {"energy_weight": 100.0, "energy_noise": "independent", **settings}
        return dataclasses.replace(
            self, name=f"{self.name}_energy", settings={**self.settings, **energy}
        )

    def build(self, seed: int = 0, *, calm: bool = False):
        """Builds the model with all its variables."""
        if not self.num_members:
            return models.build(self.config(calm=calm), seed)
        from tf_probunet.models.unet_ensemble import UNetEnsemble

        seeds = range(seed, seed + self.num_members)
        model = UNetEnsemble([models.build(self.config(), s) for s in seeds])
        model.initialize()
        return model


GOLDENS = (
    Golden("prob_unet", "prob_unet", "ProbUNet", {"latent_dim": 2}),
    Golden(
        "latent_pooling",
        "prob_unet",
        "ProbUNet",
        {"latent_dim": 2, "latent_pooling": 2},
    ),
    Golden(
        "mixture_prior",
        "prob_unet",
        "ProbUNet",
        {"latent_dim": 2, "prior_components": 3},
    ),
    Golden(
        "fixed_prior", "prob_unet", "ProbUNet", {"latent_dim": 2, "fixed_prior": True}
    ),
    Golden(
        "fixed_prior_blind_posterior",
        "prob_unet",
        "ProbUNet",
        {"latent_dim": 2, "fixed_prior": True, "posterior_sees_image": False},
    ),
    Golden(
        "early_injection",
        "prob_unet",
        "ProbUNet",
        {"latent_dim": 2, "injection": "start"},
    ),
    Golden("unet", "unet", "UNet"),
    Golden("dropout_unet", "dropout_unet", "DropoutUNet", calm={"dropout_rate": 0.0}),
    Golden("m_heads", "m_heads", "MHeads", {"num_heads": 2}),
    Golden("ssn", "ssn", "SSN", {"covariance_rank": 3, "logit_samples": 4}),
    Golden(
        "mixture",
        "mixture",
        "Mixture",
        {"num_experts": 2, "expert_samples": 2},
        couples_graders=True,
    ),
    Golden(
        "hpu_net",
        "hpu_net",
        "HPUNet",
        {"num_latent_scales": 2, "hardest_share": 0.5},
        calm={"hardest_share": 1.0},
    ),
    Golden(
        "hpu_net_elbo",
        "hpu_net",
        "HPUNet",
        {"num_latent_scales": 1, "hierarchy_loss": "elbo", "latent_dim": 2},
    ),
    Golden("image2image_vae", "image2image_vae", "Image2ImageVAE"),
    Golden("unet_ensemble", "unet_ensemble", "UNetEnsemble", num_members=2),
)
