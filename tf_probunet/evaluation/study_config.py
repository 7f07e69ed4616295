"""The settings of `run/compare_sampling.py`. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tf_probunet.config import MAX_SAMPLES, Checked, field


@dataclasses.dataclass(frozen=True)
class StudyConfig(Checked):
    """Which samples of which images are compared."""

    data_dir: str = field(dataclasses.MISSING, "a prepared data set of binary masks")
    out_dir: str = field(dataclasses.MISSING, "where to write table and figure")
    saved_model: Optional[str] = field(
        None, "a SavedModel with latents; by default the pretrained one"
    )
    split: str = field("val", "the split to score")
    num_samples: tuple[int, ...] = field(
        (1, 2, 4, 8, 16, 32, 100),
        "numbers of independent and of stratified samples",
        at_least=1,
        at_most=MAX_SAMPLES,
    )
    hypotheses: tuple[int, ...] = field(
        (2, 4, 8), "numbers of weighted hypotheses", at_least=1, at_most=64
    )
    pool: int = field(
        256,
        "stratified samples from which the hypotheses are chosen",
        at_least=2,
        at_most=1024,
    )
    limit: int = field(0, "score at most this many images; 0 for all", at_least=0)
    seed: int = field(0, "seed of the samples", at_least=-(2**63), below=2**63)
    overwrite: bool = field(False, "replace the results in --out_dir")

    def __post_init__(self) -> None:
        """Checks the settings, and sorts the numbers."""
        super().__post_init__()
        for name in ("num_samples", "hypotheses"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        if self.hypotheses[-1] > self.pool:
            raise ValueError(
                f"hypotheses is {self.hypotheses[-1]}, expected at most {self.pool}, "
                "the pool that they are chosen from"
            )
