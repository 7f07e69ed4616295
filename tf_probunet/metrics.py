"""The metrics under stable names, wherever their modules live. No TensorFlow."""

from tf_probunet.evaluation.metrics.ged import energy_distance
from tf_probunet.evaluation.metrics.matching import (
    best_dice,
    collective_insight,
    hungarian_iou,
)
from tf_probunet.evaluation.metrics.representatives import (
    Representatives,
    representatives,
)
from tf_probunet.evaluation.metrics.switched_modes import (
    energy_distance as switched_energy_distance,
)
from tf_probunet.evaluation.metrics.switched_modes import (
    mode_counts as switched_mode_counts,
)

__all__ = [
    "Representatives",
    "best_dice",
    "collective_insight",
    "energy_distance",
    "hungarian_iou",
    "representatives",
    "switched_energy_distance",
    "switched_mode_counts",
]
