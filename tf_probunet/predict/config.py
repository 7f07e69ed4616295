"""Settings of a prediction. Importing them does not import TensorFlow."""

from __future__ import annotations

import dataclasses

from tf_probunet.config import MAX_SAMPLES, MAX_SIDE, Checked, field

OUTPUT_FORMATS = ("auto", "dicom_seg", "nifti", "png")


@dataclasses.dataclass(frozen=True)
class PredictConfig(Checked):
    """How many samples are drawn, and how they are written."""

    num_samples: int = field(
        16, "segmentations per image", at_least=1, at_most=MAX_SAMPLES
    )
    seed: int = field(
        0,
        "seed of the samples, the same for every image",
        at_least=-(2**31),
        below=2**31,
    )
    output_format: str = field(
        "auto",
        "format of the label maps; auto: that of the input (PNG for DICOM if highdicom "
        "is not installed)",
        choices=OUTPUT_FORMATS,
    )
    group_iou: float = field(
        0.7,
        "samples with at least this IoU are one hypothesis",
        at_least=0,
        at_most=1,
    )
    tile_size: int = field(
        512,
        "larger images are segmented in tiles of this height and width",
        at_least=1,
        at_most=MAX_SIDE,
    )
    overwrite: bool = field(False, "replace earlier results of the same names")
