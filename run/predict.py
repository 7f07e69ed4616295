"""Segments your own images: DICOM, NIfTI, PNG, TIFF or NumPy in, hypotheses out.

    python run/predict.py --saved_model=runs/saved_model --input=scan/ --slice=40 \
        --center=210,300 --out_dir=runs/prediction

--input can be given several times. See docs/predict.md.
"""

import _cli
from absl import flags

from tf_probunet.predict.config import CropConfig, PredictConfig

flags.DEFINE_string("saved_model", None, "a SavedModel of run/export.py")
flags.DEFINE_multi_string("input", None, "a file, a DICOM series, a folder of pictures")
flags.DEFINE_string("out_dir", None, "gets a directory for each image")
_cli.define_config_flags(PredictConfig)
_cli.define_config_flags(CropConfig)


def main() -> None:
    crop = _cli.config_from_flags(CropConfig)
    config = _cli.config_from_flags(PredictConfig)
    from tf_probunet.predict.predict import predict

    result = predict(
        model_path=_cli.FLAGS.saved_model,
        inputs=_cli.FLAGS.input,
        out_dir=_cli.FLAGS.out_dir,
        crop=crop,
        config=config,
    )
    for image in result["images"]:
        shares = ", ".join(f"{share:.0%}" for share in image["shares"])
        line = f"{image['image']}: {image['distinct_hypotheses']} hypotheses ({shares})"
        if image["presence_probability"] is not None:
            present = f"{image['presence_probability']:.0%}"
            line += f", something is marked in {present} of the samples"
        print(line)
    for note in sorted({n for image in result["images"] for n in image["notes"]}):
        print(f"note: {note}")
    for note in result["notes"]:
        print(f"note: {note}")
    print(f"results: {_cli.FLAGS.out_dir}")


if __name__ == "__main__":
    _cli.start(main, required=["saved_model", "input", "out_dir"])
