"""Exports a trained model as a SavedModel that needs TensorFlow only.

    python run/export.py --run_dir=runs/phantom_prob_unet --out_dir=runs/saved_model
"""

import _cli
from absl import flags

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("out_dir", None, "where to write the SavedModel")
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "which checkpoint")
flags.DEFINE_bool("overwrite", False, "replace what lies in --out_dir")


def main() -> None:
    from tf_probunet import export

    path = export.export_run(
        _cli.FLAGS.run_dir,
        _cli.FLAGS.out_dir,
        checkpoint=_cli.FLAGS.checkpoint,
        overwrite=_cli.FLAGS.overwrite,
    )
    print(f"SavedModel: {path}")


if __name__ == "__main__":
    _cli.start(main, required=["run_dir", "out_dir"])
