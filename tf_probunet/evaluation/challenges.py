"""The scores of challenges, which `--protocol` adds to the usual metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tf_probunet.evaluation.metrics import curvas, matching, mean_maps
from tf_probunet.evaluation.metrics.distances import LabelSet
from tf_probunet.evaluation.metrics.staple import staple


def staple_dice(samples: np.ndarray, graders: np.ndarray) -> float:
    """Dice of the majority of the samples and the graders' STAPLE estimate."""
    predicted, _ = mean_maps.mean_maps(samples, graders)
    return mean_maps.dice(predicted > 0.5, staple(graders).probability > 0.5)


def _dice_soft(samples: np.ndarray, graders: np.ndarray) -> float:
    cuts = mean_maps.D_PERSONA_THRESHOLDS
    return mean_maps.threshold_dice(samples, graders, thresholds=cuts)


def _crps_of_code(samples: np.ndarray, graders: np.ndarray) -> float:
    limit = curvas.CODE_DEVIATIONS
    return curvas.curvas_crps(samples, graders, deviations=limit)


# Each scores one image: samples [S, H, W] and graders [M, H, W], both binary. With
# several classes it is the mean over the foreground classes.
SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "qubiq_dice": mean_maps.threshold_dice,
    "soft_dice": mean_maps.soft_dice,
    "staple_dice": staple_dice,
    "d_persona_dice_soft": _dice_soft,
    "dice_max": lambda *masks: float(matching.dice_max(*masks).mean()),
    "dice_match": matching.dice_match,
    "consensus_dice": curvas.consensus_dice,
    "multirater_ece": lambda *masks: float(curvas.multirater_ece(*masks).mean()),
    "curvas_crps": curvas.curvas_crps,
    "curvas_crps_code": _crps_of_code,
}


def score(
    names: Sequence[str],
    samples: np.ndarray,
    graders: np.ndarray,
    labels: LabelSet | None = None,
) -> dict[str, float]:
    """Scores one image.

    Args:
        names: of the scores, from `SCORES`.
        samples: [S, H, W] binary masks, or label maps with `labels`.
        graders: [M, H, W] likewise.
        labels: the classes of label maps; None for binary masks. Pixels that a grader
            ignores are left out.

    Returns:
        The values by name. With several classes they are means over the scored classes
        whose value is defined, except the calibration error, which takes all classes
        at once.

    Raises:
        ValueError: on unknown values or shapes that do not fit.
    """
    if labels is None:
        return {name: SCORES[name](samples, graders) for name in names}
    if labels.ignore is not None:
        kept = (graders != labels.ignore).all(axis=0)  # [H, W]
        if not kept.any():
            return dict.fromkeys(names, float("nan"))
        samples, graders = samples[:, None, kept], graders[:, None, kept]
    found = {}
    for name in names:
        if name == "multirater_ece":
            errors = curvas.multirater_ece(
                samples, graders, num_classes=labels.num_classes
            )
            found[name] = float(errors.mean())
        else:
            values = [SCORES[name](samples == c, graders == c) for c in labels.scored]
            defined = [value for value in values if not np.isnan(value)]
            found[name] = float(np.mean(defined)) if defined else float("nan")
    return found
