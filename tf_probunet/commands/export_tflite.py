"""Exports the sampling path of a model with latents as a TensorFlow Lite file.

    python run/export_tflite.py --run_dir=runs/phantom_prob_unet --out_file=m.tflite
    python run/export_tflite.py --saved_model=runs/saved_model --out_file=m.tflite

Give either a run or a SavedModel.
"""

import dataclasses

from tf_probunet.commands import cli
from tf_probunet.export.config import TFLiteConfig

cli.define_config_flags(TFLiteConfig)
REQUIRED = ["out_file"]


def main() -> None:
    config = cli.config_from_flags(TFLiteConfig)
    from tf_probunet.export import tflite

    path = tflite.export_tflite(**dataclasses.asdict(config))
    print(f"TensorFlow Lite: {path}, {path.stat().st_size / 2**20:.2f} MiB")
