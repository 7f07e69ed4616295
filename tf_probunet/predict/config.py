"""Settings of a prediction. Importing them does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

OUTPUT_FORMATS = ("auto", "dicom_seg", "nifti", "png")
# The SavedModel that comes with the repository, relative to its root.
SHIPPED_MODEL = "data/pretrained/lidc_cpu"


def model_path(given: str | None, root: pathlib.Path) -> pathlib.Path:
    """Returns the SavedModel to use: the given one, or the shipped one.

    Args:
        given: the user's; None or empty for the shipped one.
        root: of the repository.

    Raises:
        FileNotFoundError: none is given, and the shipped one does not exist.
    """
    if given:
        return pathlib.Path(given)
    shipped = root / SHIPPED_MODEL
    if not shipped.is_dir():
        raise FileNotFoundError(
            f"{shipped}: the model that comes with the repository is not there, "
            "expected a complete checkout, or --saved_model with one of run/export.py"
        )
    return shipped


def _field(default: Any, text: str, **limits: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, **limits})


@dataclasses.dataclass(frozen=True)
class PredictConfig:
    """How many samples are drawn, and how they are written."""

    num_samples: int = _field(16, "segmentations per image")
    seed: int = _field(0, "seed of the samples, the same for every image")
    output_format: str = _field(
        "auto",
        "format of the label maps; auto: that of the input (PNG for DICOM if highdicom "
        "is not installed)",
        choices=OUTPUT_FORMATS,
    )
    group_iou: float = _field(0.7, "samples with at least this IoU are one hypothesis")
    tile_size: int = _field(
        512, "larger images are segmented in tiles of this height and width"
    )
    overwrite: bool = _field(False, "replace earlier results of the same names")

    def __post_init__(self) -> None:
        """Checks the numbers."""
        limits = {
            "num_samples": (1, 4096),
            "seed": (-(2**31), 2**31 - 1),
            "group_iou": (0, 1),
            "tile_size": (1, 2**15),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low} to {high}")
        if self.output_format not in OUTPUT_FORMATS:
            raise ValueError(
                f"output_format is {self.output_format!r}, expected one of "
                f"{', '.join(OUTPUT_FORMATS)}"
            )
