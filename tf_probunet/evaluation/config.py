"""What is scored, on which data and how. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Optional

from tf_probunet.config import (
    MAX_SAMPLES,
    MAX_SIDE,
    SAMPLINGS,
    TASKS,
    Checked,
    field,
)
from tf_probunet.evaluation import protocols
from tf_probunet.evaluation.metrics.distances import BOTH_EMPTY
from tf_probunet.evaluation.metrics.ged import STATISTICS

UNITS = ("image", "lesion")  # What is scored.


@dataclasses.dataclass(frozen=True)
class EvaluationConfig(Checked):
    """The settings of an evaluation: the fields are the flags of `run/evaluate.py`."""

    data_dir: str = field(dataclasses.MISSING, "a prepared data set")
    out_dir: str = field(dataclasses.MISSING, "where to write the results")
    saved_model: Optional[str] = field(None, "a SavedModel of run/export.py")
    samples_dir: Optional[str] = field(
        None, "instead of --saved_model: the samples of any model, as files"
    )
    split: str = field("test", "the split to score")
    protocol: Optional[str] = field(
        None,
        "score as this paper or challenge does: it fixes --statistic, --both_empty, "
        "--num_samples and the matching, and may add scores; see docs/evaluation.md",
        choices=tuple(protocols.PROTOCOLS),
    )
    num_samples: Optional[tuple[int, ...]] = field(
        None,
        "numbers of samples, separated by commas; each is scored with the first "
        "samples of the image (default: the protocol's, or 1,4,8,16)",
        at_least=1,
        at_most=MAX_SAMPLES,
    )
    sampling: str = field(
        "independent",
        "how the samples of an image are drawn: independent, as in published results; "
        "or stratified, for a model with latents: each number of samples gets a set of "
        "its own that is spread over the prior; or weighted, for a model whose "
        "samples have weights, with a single number of samples",
        choices=(*SAMPLINGS, "weighted"),
    )
    validation_split: str = field(
        "val",
        "the split on which the threshold for ambiguous images is chosen; empty for "
        "no threshold",
    )
    batch_size: int = field(
        8,
        "images to read and score at once; the results do not depend on it",
        at_least=1,
    )
    seed: int = field(0, "seed of the samples", at_least=-(2**63), below=2**63)
    statistic: Optional[str] = field(
        None,
        "v: the V-statistic of the paper, in which pairs of a sample with itself "
        "count; u: the unbiased U-statistic (default: the protocol's, or v)",
        choices=STATISTICS,
    )
    both_empty: Optional[str] = field(
        None,
        "the distance between two empty masks: zero, as in the paper; one, as in the "
        "code of D-Persona; or drop to leave such pairs out (default: the "
        "protocol's, or zero)",
        choices=BOTH_EMPTY,
    )
    save_samples: int = field(
        16, "images to keep with their samples, for figures", at_least=0
    )
    limit: int = field(
        0, "score at most this many images of each split; 0 for all", at_least=0
    )
    by: str = field(
        "image",
        "score each image, or each lesion: its slices stacked to volumes",
        choices=UNITS,
    )
    smooth_slices: float = field(
        1.0,
        "with --by=lesion: standard deviation, in slices, of the Gaussian that smooths "
        "the means of the priors in the comparison; 0 for no smoothing",
        at_least=0,
        at_most=100,
    )
    offset_px: int = field(
        0,
        "move each image and its labels by this many pixels, in a random direction, to "
        "see how much a model that sees only the middle depends on the lesion's place",
        at_least=0,
        at_most=MAX_SIDE,
    )
    overwrite: bool = field(False, "replace the results in --out_dir")
    task: Optional[str] = field(
        None,
        "with --samples_dir: the task of the samples, plain by default",
        choices=TASKS,
    )
    eval_size: Optional[int] = field(
        None,
        "with --samples_dir: height and width of the central crop that was sampled; 0 "
        "for the whole image, the default",
        at_least=0,
        at_most=MAX_SIDE,
    )

    def __post_init__(self) -> None:
        """Checks the settings, sorts the numbers of samples, applies the protocol."""
        super().__post_init__()
        if bool(self.saved_model) == bool(self.samples_dir):
            raise ValueError(
                f"saved_model is {self.saved_model!r} and samples_dir is "
                f"{self.samples_dir!r}, expected exactly one of them"
            )
        if self.saved_model and (self.task is not None or self.eval_size is not None):
            raise ValueError(
                f"task is {self.task!r} and eval_size is {self.eval_size!r}, expected "
                "neither: a SavedModel knows its own"
            )
        if self.by == "lesion" and self.limit:
            raise ValueError(
                f"limit is {self.limit}, expected 0 with by='lesion': some slices of a "
                "lesion would be missing"
            )
        given = {name: getattr(self, name) for name in protocols.DEFAULTS}
        if given["num_samples"] is not None:
            given["num_samples"] = tuple(sorted(set(given["num_samples"])))
        for name, value in protocols.resolve(self.protocol, given).items():
            object.__setattr__(self, name, value)
        scores = protocols.PROTOCOLS[self.protocol].scores if self.protocol else ()
        if self.by == "lesion" and scores:
            raise ValueError(
                f"protocol is {self.protocol!r}, expected none with by='lesion': its "
                f"scores ({', '.join(scores)}) are those of images"
            )
        self._check_sampling()

    def _check_sampling(self) -> None:
        if self.sampling == "independent":
            return
        others = {
            "samples_dir": (self.samples_dir, None, "files hold one set of samples"),
            "statistic": (self.statistic, "v", "u is for independent samples"),
        }
        for name, (found, expected, reason) in others.items():
            if found != expected:
                raise ValueError(
                    f"{name} is {found!r}, expected {expected!r} with "
                    f"sampling={self.sampling!r}: {reason}"
                )
        if self.by == "lesion" and len(self.num_samples or ()) > 1:
            raise ValueError(
                f"num_samples is {self.num_samples}, expected one number with "
                f"by='lesion' and sampling={self.sampling!r}"
            )

    def command(self) -> str:
        """Returns the command line that repeats the evaluation."""
        words = ["python", "run/evaluate.py"]
        nothing = dict.fromkeys(protocols.DEFAULTS)
        implied = protocols.resolve(self.protocol, nothing)
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if value == implied.get(setting.name, setting.default):
                continue
            if isinstance(value, tuple):
                value = ",".join(map(str, value))
            words.append(f"--{setting.name}={value}")
        return shlex.join(words)
