"""Settings of the conversions to other formats. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tf_probunet.config import MAX_SIDE, Checked, field


@dataclasses.dataclass(frozen=True)
class ConversionConfig(Checked):
    """Which model is converted, and where the file goes."""

    run_dir: Optional[str] = field(None, "a run of run/train.py")
    saved_model: Optional[str] = field(None, "a SavedModel of run/export.py")
    out_file: Optional[str] = field(None, "the file to write")
    image_size: int = field(
        0,
        "height and width of the images; 0 for those of the evaluation",
        at_least=0,
        at_most=MAX_SIDE,
    )
    checkpoint: str = field(
        "best", "which checkpoint of the run", choices=("best", "last")
    )
    overwrite: bool = field(False, "replace the file if it exists")


@dataclasses.dataclass(frozen=True)
class TFLiteConfig(ConversionConfig):
    """The settings of a conversion to TensorFlow Lite."""

    float16: bool = field(False, "store weights in 16 bits, which halves the file")
