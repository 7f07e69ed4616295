"""The signs of collapsed latents."""

import pytest

from tf_probunet.training import collapse

HEALTHY = {"kl": 1.2, "kl_0": 1.0, "kl_1": 0.2, "diversity": 0.9, "prior_spread": 0.2}


def test_active_latents_are_those_with_a_divergence():
    assert collapse.active_latents(HEALTHY) == 2
    assert collapse.active_latents({**HEALTHY, "kl_0": 0.0099}) == 1
    assert collapse.active_latents({**HEALTHY, "kl_0": 0.01}) == 2
    assert collapse.active_latents({"loss": 1.0, "diversity": 0.0}) is None


def test_a_healthy_model_is_not_warned_of():
    assert collapse.warning(HEALTHY, is_stochastic=True) is None


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"kl_1": 0.001}, ["only 1 of 2 latent dimensions are active"]),
        ({"diversity": 0.01}, ["only 1.0% of the images have samples that differ"]),
        ({"prior_spread": 0.009}, ["the prior is the same for all images"]),
        (
            {"kl_0": 0.0, "kl_1": 0.0, "diversity": 0.0},
            ["only 0 of 2 latent dimensions", "only 0.0% of the images"],
        ),
    ],
)
def test_what_looks_collapsed_is_said(changes, parts):
    warning = collapse.warning({**HEALTHY, **changes}, is_stochastic=True)
    assert all(part in warning for part in parts)
    assert "docs/training.md" in warning and "\n" not in warning


def test_equal_samples_are_right_for_a_deterministic_model():
    scores = {"loss": 1.0, "diversity": 0.0}
    assert collapse.warning(scores, is_stochastic=False) is None
    assert collapse.warning(scores, is_stochastic=True) is not None
