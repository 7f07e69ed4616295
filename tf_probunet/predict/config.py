"""Settings of a prediction. Importing them does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tf_probunet.config import MAX_SAMPLES, MAX_SIDE, SAMPLINGS, Checked, field

MAX_HYPOTHESES = 16
OUTPUT_FORMATS = ("auto", "dicom_seg", "nifti", "png")


@dataclasses.dataclass(frozen=True)
class PredictConfig(Checked):
    """How many samples are drawn, and how they are written."""

    num_samples: int = field(
        64, "segmentations per image", at_least=1, at_most=MAX_SAMPLES
    )
    sampling: Optional[str] = field(
        None,
        "how the samples are drawn: stratified, which makes probabilities far less "
        "noisy, or independent; by default stratified for a model with latents",
        choices=SAMPLINGS,
    )
    hypotheses: int = field(
        4,
        "how many weighted samples are chosen to represent all",
        at_least=1,
        at_most=MAX_HYPOTHESES,
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
    tile_size: int = field(
        512,
        "larger images are segmented in tiles of this height and width",
        at_least=1,
        at_most=MAX_SIDE,
    )
    overwrite: bool = field(False, "replace earlier results of the same names")
