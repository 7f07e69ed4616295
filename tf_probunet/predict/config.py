"""Settings of a prediction. Importing them does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tf_probunet.config import MAX_SAMPLES, MAX_SIDE, SAMPLINGS, Checked, field
from tf_probunet.imaging.crop_config import numbers

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


# Why the flags of `LesionConfig` make no sense.
NO_LESION = (
    "no lesion is followed: expected --center=slice,row,col, --point_mm or --points"
)


@dataclasses.dataclass(frozen=True)
class LesionConfig(Checked):
    """Which lesions are followed through the slices, and how far."""

    point_mm: Optional[str] = field(
        None,
        "x,y,z: follow the lesion at this point through the slices. In the patient's "
        "coordinates: as in DICOM for DICOM, as in NIfTI for NIfTI",
    )
    points: Optional[str] = field(
        None,
        "follow many lesions: a CSV file with the columns slice, row and col, or x_mm, "
        "y_mm and z_mm, and perhaps name; a NIfTI label map; or a DICOM segmentation",
    )
    reach_mm: float = field(
        40.0,
        "a lesion is followed this far up and down from its point at most",
        at_least=0.1,
        at_most=1000,
    )
    least_presence: float = field(
        0.1,
        "a lesion ends where fewer than this share of the samples show it on two "
        "slices in a row",
        at_least=0,
        at_most=1,
    )
    smooth_slices: float = field(
        1.0,
        "standard deviation, in slices, of a Gaussian that smooths the means of the "
        "priors along the slices of a lesion; 0 for none",
        at_least=0,
        at_most=100,
    )

    def __post_init__(self) -> None:
        """Checks everything that needs no image."""
        super().__post_init__()
        if self.point_mm is not None:
            if self.points is not None:
                raise ValueError(
                    f"point_mm is {self.point_mm} and points {self.points}, expected "
                    "one only"
                )
            self.point_numbers  # noqa: B018 - Fails if it makes no sense.

    @property
    def chooses(self) -> bool:
        """Whether there is a lesion to follow, besides a voxel in `CropConfig`."""
        return self.point_mm is not None or self.points is not None

    @property
    def point_numbers(self) -> tuple[float, ...] | None:
        """x, y and z."""
        if self.point_mm is None:
            return None
        return numbers("point_mm", self.point_mm, 3, float, "x,y,z in mm")
