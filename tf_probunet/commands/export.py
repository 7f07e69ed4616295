"""Exports a trained model as a SavedModel that needs TensorFlow only.

    python run/export.py --run_dir=runs/phantom_prob_unet --out_dir=runs/saved_model
    python run/export.py --members='runs/unet_*' --out_dir=runs/ensemble

The second command combines U-Nets with different seeds: n samples are n members. With
--results, the model card shows the scores that run/evaluate.py gave an earlier export.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("members", None, "pattern of the runs of an ensemble, in quotes")
flags.DEFINE_string("out_dir", None, "where to write the SavedModel")
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "which checkpoint")
flags.DEFINE_string(
    "results", None, "an --out_dir of run/evaluate.py, for the model card"
)
flags.DEFINE_bool("overwrite", False, "replace the SavedModel in --out_dir")
REQUIRED = ["out_dir"]


def main() -> None:
    flags_ = cli.FLAGS
    if bool(flags_.run_dir) == bool(flags_.members):
        raise ValueError("expected either --run_dir or --members; see --help")
    from tf_probunet.export import export

    export_it = export.export_run if flags_.run_dir else export.export_ensemble
    path = export_it(
        flags_.run_dir or flags_.members,
        flags_.out_dir,
        checkpoint=flags_.checkpoint,
        results=flags_.results or None,
        overwrite=flags_.overwrite,
    )
    print(f"SavedModel: {path}")
