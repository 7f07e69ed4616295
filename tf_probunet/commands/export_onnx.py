"""Exports the sampling path of a model with latents as an ONNX file.

    python run/export_onnx.py --run_dir=runs/phantom_prob_unet --out_file=model.onnx
    python run/export_onnx.py --saved_model=data/pretrained/lidc_cpu --out_file=m.onnx

Give either a run or a SavedModel. The file is written only if ONNX Runtime gives what
the model gives. Needs pip install 'tf_probunet[onnx]'.
"""

import dataclasses
import pathlib

from tf_probunet.commands import cli
from tf_probunet.export.config import ConversionConfig

cli.define_config_flags(ConversionConfig)
REQUIRED = ["out_file"]


def main() -> None:
    config = cli.config_from_flags(ConversionConfig)
    from tf_probunet.export import onnx

    difference = onnx.export_onnx(**dataclasses.asdict(config))
    size = pathlib.Path(config.out_file).stat().st_size / 2**20
    print(
        f"ONNX: {config.out_file}, {size:.2f} MiB; ONNX Runtime differs from the model "
        f"by {difference:.1e} at most"
    )
