"""The protocols of papers and challenges: how each of them scores the same samples."""

from __future__ import annotations

import dataclasses
from typing import Any

# What applies if neither a flag nor a protocol says anything else.
DEFAULTS: dict[str, Any] = {
    "statistic": "v",
    "both_empty": "zero",
    "num_samples": (1, 4, 8, 16),
    "sampling": "independent",
}

_REPEATED = (
    "samples and graders repeated to their least common multiple, matched one to one "
    "by IoU"
)
_DISTINCT = "each grader with a sample of its own, by Dice; other samples do not count"


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How a paper or a challenge scores.

    Attributes:
        source: the publication; where it is silent, its public code.
        statistic: of the energy distance; None if the source has no energy distance.
        both_empty: the distance of two empty masks; likewise.
        num_samples: numbers of samples; None if the source has one map per image.
        sampling: how samples are drawn; likewise.
        matching: the matching rule; None if the source matches nothing.
        matching_samples: how many samples are matched for the Hungarian-matched IoU;
            None for all.
        scores: names in `challenges.SCORES`, in addition to the usual metrics.
    """

    source: str
    statistic: str | None = None
    both_empty: str | None = None
    num_samples: tuple[int, ...] | None = None
    sampling: str | None = None
    matching: str | None = None
    matching_samples: int | None = None
    scores: tuple[str, ...] = ()

    def fixed(self) -> dict[str, Any]:
        """Returns the settings that the protocol fixes, by the names of their flags."""
        settings = {name: getattr(self, name) for name in DEFAULTS}
        return {name: value for name, value in settings.items() if value is not None}


PROTOCOLS = {
    "paper": Protocol(
        "Kohl et al. 2018 (Probabilistic U-Net)",
        statistic="v",
        both_empty="zero",
        num_samples=(1, 4, 8, 16),
        sampling="independent",
    ),
    "mose": Protocol(
        "Gao et al. 2023 (MoSE)",
        statistic="v",
        both_empty="zero",
        num_samples=(16, 50, 100),
        sampling="independent",
        matching=_REPEATED,
        matching_samples=16,
    ),
    "ccdm": Protocol(
        "Zbinden et al. 2023 (CCDM)",
        statistic="v",
        both_empty="zero",
        num_samples=(16, 32, 50, 100),
        sampling="independent",
        matching=_REPEATED,
        matching_samples=16,
    ),
    "d_persona": Protocol(
        "Wu et al. 2024 (D-Persona)",
        statistic="v",
        both_empty="one",
        num_samples=(10, 50),
        sampling="independent",
        matching=_DISTINCT,
        scores=("d_persona_dice_soft", "dice_max", "dice_match"),
    ),
    "qubiq": Protocol(
        "Li et al. 2024 (QUBIQ challenges)",
        scores=("qubiq_dice", "soft_dice", "staple_dice"),
    ),
    "curvas": Protocol(
        "Riera-Marin et al. 2025 (CURVAS challenge)",
        scores=("consensus_dice", "multirater_ece", "curvas_crps", "curvas_crps_code"),
    ),
}


def resolve(name: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a protocol, with the user's where it leaves them free.

    Args:
        name: of the protocol; None for none.
        given: the user's settings by the names in `DEFAULTS`; None if not given.

    Returns:
        A value for each name in `DEFAULTS`.

    Raises:
        ValueError: a setting contradicts the protocol.
    """
    fixed = PROTOCOLS[name].fixed() if name else {}
    for setting, value in fixed.items():
        if given[setting] not in (None, value):
            raise ValueError(
                f"{setting} is {_text(given[setting])}, but the protocol {name} has "
                f"{_text(value)}; leave out --{setting} or --protocol"
            )
    chosen = {setting: value for setting, value in given.items() if value is not None}
    return {**DEFAULTS, **chosen, **fixed}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
