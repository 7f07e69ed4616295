"""The table of models: every piece that a model needs is there, or is named."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import pkgutil

import pytest
from helpers.goldens import GOLDENS

from tf_probunet import models
from tf_probunet.config import ModelConfig
from tf_probunet.figures import architectures
from tf_probunet.models import cost, registry
from tf_probunet.models.base import SegmentationModel

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def _subclasses(of):
    for subclass in of.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


@pytest.mark.parametrize("name", registry.MODELS)
def test_no_piece_of_a_model_is_missing(name):
    entry = registry.entry(name)
    assert models.model_class(name).__name__ == entry.class_name
    config = models.with_defaults(ModelConfig(name=name))
    assert cost.cost(config, 128, 128).parameters > 0
    assert name in architectures.PICTURES, "no picture in figures/architectures.py"
    text = (_DOCS / "models.md").read_text(encoding="utf-8")
    assert f"\n## {entry.title}" in text, f"docs/models.md has no section {entry.title}"
    variants = [v for v in registry.VARIANTS.values() if v.model == name]
    assert any(v.is_compared for v in variants), "run/compare_models.py leaves it out"
    assert any(v.has_cost for v in variants), "run/model_table.py leaves it out"
    assert name in {golden.model for golden in GOLDENS}, "no case in helpers/goldens.py"
    samplings = models.model_class(name).samplings
    assert "stratified" in samplings or not entry.has_latents, "samplings of the class"


def test_every_public_model_is_in_the_registry():
    for module in pkgutil.iter_modules(models.__path__):
        importlib.import_module(f"tf_probunet.models.{module.name}")
    tested = {golden.model for golden in GOLDENS}
    assert tested == {*registry.MODELS, registry.ENSEMBLE}
    classes = {golden.class_name for golden in GOLDENS}
    public = {
        found.__name__
        for found in _subclasses(SegmentationModel)
        if found.__module__.startswith("tf_probunet.") and not inspect.isabstract(found)
    }
    assert classes == public


def test_every_ablation_has_a_golden_case():
    names = ("fixed_prior", "posterior_sees_image", "injection")
    configs = [golden.config() for golden in GOLDENS if golden.model == "prob_unet"]
    tested = {tuple(getattr(c, name) for name in names) for c in configs}
    ablations = {
        tuple(getattr(ModelConfig(**variant.settings), name) for name in names)
        for variant in registry.VARIANTS.values()
        if variant.model == "prob_unet"
    }
    assert tested == ablations
    assert len(ablations) == 4  # The model itself and the paper's three.
    assert all(c.beta == 1.0 for c in configs)


def test_unknown_models_are_named():
    with pytest.raises(ValueError, match="model is 'vnet', expected one of prob_unet,"):
        registry.entry("vnet")


def test_the_settings_that_make_a_model_can_not_be_changed():
    given = ModelConfig(name="image2image_vae", injection="end", latent_dim=5)
    config = models.with_defaults(given)
    assert (config.injection, config.fixed_prior) == ("start", True)
    assert not config.posterior_sees_image
    assert (config.latent_dim, config.beta) == (5, 10.0)


@pytest.mark.parametrize(
    "key, flags",
    [
        ("unet", ("--model=unet",)),
        ("m_heads_8", ("--model=m_heads", "--num_heads=8")),
        (
            "blind_posterior",
            ("--model=prob_unet", "--fixed_prior", "--noposterior_sees_image"),
        ),
        ("early_injection", ("--model=prob_unet", "--injection=start")),
    ],
)
def test_variants_as_flags(key, flags):
    assert registry.VARIANTS[key].flags() == flags
