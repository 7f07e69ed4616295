"""Exports the sampling path of a model with latents as a TensorFlow Lite file.

    python run/export_tflite.py --run_dir=runs/phantom_prob_unet --out_file=m.tflite
    python run/export_tflite.py --saved_model=runs/saved_model --out_file=m.tflite

Give either a run or a SavedModel.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("saved_model", None, "a SavedModel of run/export.py")
flags.DEFINE_string("out_file", None, "where to write the .tflite file")
flags.DEFINE_integer(
    "image_size", 0, "height and width of the images; 0 for those of the evaluation"
)
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "which checkpoint of the run")
flags.DEFINE_bool("float16", False, "store weights in 16 bits, which halves the file")
flags.DEFINE_bool("overwrite", False, "replace the file if it exists")
REQUIRED = ["out_file"]


def main() -> None:
    from tf_probunet.export import tflite

    flags_ = cli.FLAGS
    path = tflite.export_tflite(
        flags_.run_dir,
        flags_.out_file,
        saved_model=flags_.saved_model,
        image_size=flags_.image_size,
        checkpoint=flags_.checkpoint,
        float16=flags_.float16,
        overwrite=flags_.overwrite,
    )
    print(f"TensorFlow Lite: {path}, {path.stat().st_size / 2**20:.2f} MiB")
