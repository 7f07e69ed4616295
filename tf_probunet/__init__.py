"""The Probabilistic U-Net for segmenting ambiguous images (Kohl et al., 2018).

Importing the package is quick: TensorFlow and matplotlib are loaded when a function
that needs them is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from tf_probunet import lane as _lane

__version__ = "0.2.0"

_lane.prepare()

# The module of each public name, in the order of docs/api.md.
_PUBLIC = {
    "load": "api.predictor",
    "pretrained": "api.predictor",
    "Predictor": "api.predictor",
    "Hypotheses": "api.hypotheses",
    "plot_samples": "api.drawing",
    "ProbUNet": "api.models",
    "UNet": "api.models",
    "DropoutUNet": "api.models",
    "MHeads": "api.models",
    "SSN": "api.models",
    "Mixture": "api.models",
    "HPUNet": "api.models",
    "Image2ImageVAE": "api.models",
    "train": "api.training",
    "TrainedRun": "api.training",
    "evaluate": "api.scores",
    "Scores": "api.scores",
    "energy_distance": "metrics",
    "hungarian_iou": "metrics",
    "best_dice": "metrics",
    "collective_insight": "metrics",
    "threshold_dice": "metrics",
    "soft_dice": "metrics",
    "dice_max": "metrics",
    "dice_match": "metrics",
    "consensus_dice": "metrics",
    "multirater_ece": "metrics",
    "curvas_crps": "metrics",
    "staple": "metrics",
    "Staple": "metrics",
    "representatives": "metrics",
    "Representatives": "metrics",
    "switched_energy_distance": "metrics",
    "switched_mode_counts": "metrics",
}
__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names, whether they are imported yet or not."""
    return sorted({*globals(), *_PUBLIC})
