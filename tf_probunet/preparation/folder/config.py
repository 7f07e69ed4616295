"""Settings of `run/prepare_folder.py`. Importing them does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Optional

from tf_probunet.config import MAX_SIDE, Checked, field
from tf_probunet.imaging.read_nifti import CUTS

# What each layout looks like, in the order in which they are tried.
LAYOUTS = {
    "grader_suffixes": "images/NAME.png with masks/NAME_GRADER.png",
    "grader_folders": "images/NAME.png with masks/GRADER/NAME.png",
    "mask_folders": "images/NAME.png with masks_0/NAME.png, masks_1/NAME.png, ...",
    "case_folders": "CASE/image.nii.gz with CASE/seg_01.nii.gz, ...",
    "manifest": "a CSV file that lists images and masks",
}
CHANNELS = ("auto", "grey", "rgb")
# Rules for intensities; the other one is a window such as -150,250.
INTENSITIES = ("auto", "uint8", "hu", "minmax", "percentiles")

_NAME = re.compile(r"[\w][\w.-]*")


@dataclasses.dataclass(frozen=True)
class FolderConfig(Checked):
    """How files are matched, and what becomes of their values and sizes."""

    name: str = field("folder", "name of the data set")
    layout: str = field(
        "auto",
        "how the files are arranged; auto: by looking. "
        + "; ".join(f"{name}: {text}" for name, text in LAYOUTS.items()),
        choices=("auto", *LAYOUTS),
    )
    mask_pattern: Optional[str] = field(
        None, "use only masks whose file name fits this pattern, such as 'task01_*'"
    )
    group_pattern: Optional[str] = field(
        None,
        "regular expression that finds the group (the patient) in an image's path: its "
        "first parenthesis, or all of it. Images of a group stay in one split",
    )
    nested_classes: Optional[str] = field(
        None,
        "classes that have a binary mask each, the outer one first, such as disc,cup. "
        "A folder or a part of the file name is the class. A later class is painted "
        "over an earlier one",
    )
    mask_threshold: Optional[float] = field(
        None, "mask values of at least this are 1, others 0: for JPEG and soft masks"
    )
    intensity: str = field(
        "auto",
        "what becomes of the images' values. uint8: kept; hu: kept, as Hounsfield "
        "units; LOW,HIGH: these become 0 and 255; minmax, percentiles: the smallest "
        "and largest value of each file, or its 0.5 and 99.5 %, become 0 and 255; "
        "auto: by looking",
    )
    channels: str = field(
        "auto",
        "grey or rgb; auto: rgb if any image is in colour. A grey picture may be "
        "stored as RGB",
        choices=CHANNELS,
    )
    resize: Optional[str] = field(
        None,
        "HEIGHT,WIDTH: resample all images to this size; or one number: the longer "
        "side gets it, and the ratio of the sides stays",
    )
    spacing_mm: Optional[float] = field(
        None,
        "resample all images to this height and width of a pixel in mm; the files must "
        "say theirs",
        at_least=1e-6,
        at_most=1e6,
    )
    slice_axis: str = field(
        "auto",
        "how volumes are cut; auto: axial, or the direction that has a single slice",
        choices=("auto", *CUTS),
    )
    ignore_mask_affine: bool = field(
        False,
        "let NIfTI masks lie where their image lies, whatever their header says. Next "
        "to other images, their columns and rows are taken as they are stored",
    )
    drop_empty: bool = field(
        False, "leave out images and slices on which no grader marked anything"
    )
    val_share: float = field(
        0.15,
        "share of the groups for validation, where neither folders nor a list say",
        at_least=0,
        below=1,
    )
    test_share: float = field(
        0.15, "share of the groups for the test, likewise", at_least=0, below=1
    )
    split_salt: str = field(
        "folder split 1", "another text gives another random split of the groups"
    )

    def __post_init__(self) -> None:
        """Checks everything that needs no file."""
        super().__post_init__()
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name is {self.name!r}, expected letters, digits, '_', '-' and '.'"
            )
        if self.group_pattern is not None:
            try:
                re.compile(self.group_pattern)
            except re.error as error:
                raise ValueError(
                    f"group_pattern is {self.group_pattern!r}, expected a regular "
                    f"expression ({error})"
                ) from None
        if self.resize is not None and self.spacing_mm is not None:
            raise ValueError(
                f"resize {self.resize} and spacing_mm {self.spacing_mm:g} are given, "
                "expected one only"
            )
        if self.val_share + self.test_share >= 1:
            raise ValueError(
                f"val_share {self.val_share:g} and test_share {self.test_share:g}, "
                "expected less than 1 together"
            )
        _ = self.resize_numbers, self.window, self.nested_names  # They check.

    @property
    def nested_names(self) -> tuple[str, ...]:
        """The classes with a mask each; none if a mask holds all classes."""
        if self.nested_classes is None:
            return ()
        names = tuple(name.strip() for name in self.nested_classes.split(","))
        if not all(names) or len({name.casefold() for name in names}) < len(names):
            raise ValueError(
                f"nested_classes is {self.nested_classes!r}, expected different names "
                "such as disc,cup"
            )
        return names

    @property
    def resize_numbers(self) -> tuple[int, ...] | None:
        """Height and width, or the longer side only."""
        if self.resize is None:
            return None
        texts = [text.strip() for text in self.resize.split(",")]
        sizes = tuple(int(text) for text in texts if text.isdecimal())
        right = len(texts) == len(sizes) in (1, 2)
        if not right or not all(1 <= size <= MAX_SIDE for size in sizes):
            raise ValueError(
                f"resize is {self.resize!r}, expected HEIGHT,WIDTH or one number, each "
                f"from 1 to {MAX_SIDE}"
            )
        return sizes

    @property
    def window(self) -> tuple[float, float] | None:
        """The values that become 0 and 255; None for another rule."""
        if self.intensity in INTENSITIES:
            return None
        try:
            low, high = map(float, self.intensity.split(","))
        except ValueError:
            low = high = math.nan
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                f"intensity is {self.intensity!r}, expected {', '.join(INTENSITIES)} "
                "or LOW,HIGH with LOW below HIGH"
            )
        return low, high
