"""The metrics under stable names, wherever their modules live. No TensorFlow."""

from tf_probunet.evaluation.metrics.curvas import (
    consensus_dice,
    curvas_crps,
    multirater_ece,
)
from tf_probunet.evaluation.metrics.ged import energy_distance
from tf_probunet.evaluation.metrics.matching import (
    best_dice,
    collective_insight,
    dice_match,
    dice_max,
    hungarian_iou,
)
from tf_probunet.evaluation.metrics.mean_maps import soft_dice, threshold_dice
from tf_probunet.evaluation.metrics.representatives import (
    Representatives,
    representatives,
)
from tf_probunet.evaluation.metrics.staple import Staple, staple
from tf_probunet.evaluation.metrics.switched_modes import (
    energy_distance as switched_energy_distance,
)
from tf_probunet.evaluation.metrics.switched_modes import (
    mode_counts as switched_mode_counts,
)

__all__ = [
    "Representatives",
    "Staple",
    "best_dice",
    "collective_insight",
    "consensus_dice",
    "curvas_crps",
    "dice_match",
    "dice_max",
    "energy_distance",
    "hungarian_iou",
    "multirater_ece",
    "representatives",
    "soft_dice",
    "staple",
    "switched_energy_distance",
    "switched_mode_counts",
    "threshold_dice",
]
