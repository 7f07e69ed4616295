"""Exports the sampling path of a model with latents as an ONNX file.

    python run/export_onnx.py --run_dir=runs/phantom_prob_unet --out_file=model.onnx
    python run/export_onnx.py --saved_model=data/pretrained/lidc_cpu --out_file=m.onnx

Give either a run or a SavedModel. The file is written only if ONNX Runtime gives what
the model gives. Needs pip install 'tf_probunet[onnx]'.
"""

import pathlib

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("run_dir", None, "a run of run/train.py")
flags.DEFINE_string("saved_model", None, "a SavedModel of run/export.py")
flags.DEFINE_string("out_file", None, "where to write the .onnx file")
flags.DEFINE_integer(
    "image_size", 0, "height and width of the images; 0 for the evaluation's"
)
flags.DEFINE_enum("checkpoint", "best", ["best", "last"], "of the run")
flags.DEFINE_bool("overwrite", False, "replace the file if it exists")
REQUIRED = ["out_file"]


def main() -> None:
    from tf_probunet.export import onnx

    flags_ = cli.FLAGS
    difference = onnx.export_onnx(
        flags_.run_dir,
        flags_.out_file,
        saved_model=flags_.saved_model,
        image_size=flags_.image_size,
        checkpoint=flags_.checkpoint,
        overwrite=flags_.overwrite,
    )
    size = pathlib.Path(flags_.out_file).stat().st_size / 2**20
    print(
        f"ONNX: {flags_.out_file}, {size:.2f} MiB; ONNX Runtime differs from the model "
        f"by {difference:.1e} at most"
    )
