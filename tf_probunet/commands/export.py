"""Exports a trained model as a SavedModel that needs TensorFlow only.

    python run/export.py --run_dir=runs/phantom_prob_unet --out_dir=runs/saved_model
    python run/export.py --members='runs/unet_*' --out_dir=runs/ensemble
    python run/export.py --saved_model=runs/old_saved_model --out_dir=runs/saved_model

The second command combines U-Nets with different seeds: n samples are n members. The
third writes the SavedModel of an earlier version in the layout of this version. With
--results, the model card shows the scores that run/evaluate.py gave an earlier export.
--outline_stddev=1.7 lets the samples of a trained Probabilistic U-Net draw their
outlines from its probabilities. --average_symmetries averages its features over the
eight symmetries of the square.
"""

from absl import flags

from tf_probunet.commands import cli
from tf_probunet.config import SAMPLING_SETTINGS

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("members", None, "pattern of the runs of an ensemble, in quotes")
flags.DEFINE_string("saved_model", None, "an earlier export, to write again")
flags.DEFINE_string("out_dir", None, "where to write the SavedModel")
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "which checkpoint")
flags.DEFINE_string(
    "results", None, "an --out_dir of run/evaluate.py, for the model card"
)
flags.DEFINE_float(
    "outline_stddev",
    None,
    "how samples draw their outlines (docs/models.md); by default as in the training",
)
flags.DEFINE_bool(
    "average_symmetries",
    None,
    "average features over the symmetries of the square (docs/models.md); by default "
    "as in the training",
)
flags.DEFINE_bool("overwrite", False, "replace the SavedModel in --out_dir")
REQUIRED = ["out_dir"]


def main() -> None:
    flags_ = cli.FLAGS
    given = [flags_.run_dir, flags_.members, flags_.saved_model]
    if sum(map(bool, given)) != 1:
        raise ValueError(
            "expected one of --run_dir, --members and --saved_model; see --help"
        )
    if flags_.saved_model:
        cli.refuse_flags(["checkpoint"], "a SavedModel has no checkpoints")
    from tf_probunet.export import export

    out_dir, checkpoint = flags_.out_dir, flags_.checkpoint
    settings = {"results": flags_.results or None, "overwrite": flags_.overwrite}
    values = {name: flags_[name].value for name in SAMPLING_SETTINGS}
    sampling = {name: value for name, value in values.items() if value is not None}
    if flags_.members and sampling:
        raise ValueError(f"an ensemble of U-Nets takes no --{next(iter(sampling))}")
    if flags_.members:
        path = export.export_ensemble(
            flags_.members, out_dir, checkpoint=checkpoint, **settings
        )
    else:
        settings["sampling"] = sampling
        if flags_.saved_model:
            path = export.export_again(flags_.saved_model, out_dir, **settings)
        else:
            path = export.export_run(
                flags_.run_dir, out_dir, checkpoint=checkpoint, **settings
            )
    print(f"SavedModel: {path}")
