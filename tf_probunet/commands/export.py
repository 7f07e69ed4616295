"""Exports a trained model as a SavedModel that needs TensorFlow only.

    python run/export.py --run_dir=runs/phantom_prob_unet --out_dir=runs/saved_model
    python run/export.py --members='runs/unet_*' --out_dir=runs/ensemble
    python run/export.py --saved_model=runs/old_saved_model --out_dir=runs/saved_model

The second command combines U-Nets with different seeds: n samples are n members. The
third writes the SavedModel of an earlier version in the layout of this version. With
--results, the model card shows the scores that run/evaluate.py gave an earlier export.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("members", None, "pattern of the runs of an ensemble, in quotes")
flags.DEFINE_string("saved_model", None, "an earlier export, to write again")
flags.DEFINE_string("out_dir", None, "where to write the SavedModel")
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "which checkpoint")
flags.DEFINE_string(
    "results", None, "an --out_dir of run/evaluate.py, for the model card"
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
    from tf_probunet.export import export

    settings = {"results": flags_.results or None, "overwrite": flags_.overwrite}
    if flags_.saved_model:
        path = export.export_again(flags_.saved_model, flags_.out_dir, **settings)
    else:
        export_it = export.export_run if flags_.run_dir else export.export_ensemble
        path = export_it(
            flags_.run_dir or flags_.members,
            flags_.out_dir,
            checkpoint=flags_.checkpoint,
            **settings,
        )
    print(f"SavedModel: {path}")
