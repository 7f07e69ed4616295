"""Detects models that have stopped using their latents."""

from __future__ import annotations

from collections.abc import Mapping

# A dimension with a smaller mean KL divergence carries no information.
ACTIVE_NATS = 0.01
# Priors with a smaller spread are the same for all images. `make demo` ends with 0.06.
MIN_PRIOR_SPREAD = 0.01
# With a smaller share of images whose samples differ, sampling is pointless.
MIN_DIVERSITY = 0.02


def active_latents(scores: Mapping[str, float]) -> int | None:
    """Counts the latent dimensions in use, from `kl_0`, `kl_1`, ... in nats.

    Returns:
        The number of them, or None for a model without latents.
    """
    shares = _latents(scores)
    return sum(share >= ACTIVE_NATS for share in shares) if shares else None


def warning(scores: Mapping[str, float], *, is_stochastic: bool) -> str | None:
    """Returns a warning if the model looks collapsed.

    Args:
        scores: the scores of a validation. They include `diversity`, the share of
            images whose samples are not all the same, and, for a model with latents,
            `kl_0`, `kl_1` and so on, and `prior_spread`.
        is_stochastic: whether the samples should differ.

    Returns:
        One line, or None.
    """
    active, asked = active_latents(scores), len(_latents(scores))
    signs = []
    if active is not None and active < asked:
        signs.append(
            f"only {active} of {asked} latent dimensions are active (KL of at least "
            f"{ACTIVE_NATS} nats)"
        )
    if is_stochastic and scores["diversity"] < MIN_DIVERSITY:
        signs.append(
            f"only {scores['diversity']:.1%} of the images have samples that differ"
        )
    if scores.get("prior_spread", 1.0) < MIN_PRIOR_SPREAD:
        signs.append("the prior is the same for all images")
    return f"{'; '.join(signs)}: see docs/training.md" if signs else None


def _latents(scores: Mapping[str, float]) -> list[float]:
    return [v for name, v in scores.items() if name[:3] == "kl_" and name[3:].isdigit()]
