"""Segments your own images (DICOM, NIfTI, PNG, TIFF, JPEG, NumPy).

    python run/predict.py --input=slice.png --out_dir=runs/prediction
    python run/predict.py --input=scan/ --slice=40 --center=210,300 --out_dir=runs/out

    python run/predict.py --input=scan/ --center=40,210,300 --out_dir=runs/out

The last one follows the lesion at slice 40, row 210 and column 300 through the slices
and gives volumes. The default model is a pretrained one for crops of chest CT around a
lesion. --input can be given several times. See docs/predict.md.
"""

from absl import flags

from tf_probunet import files
from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import NO_LESION, LesionConfig, PredictConfig

flags.DEFINE_string(
    "saved_model",
    None,
    f"a SavedModel of run/export.py; by default the pretrained {pretrained.DEFAULT}",
)
flags.DEFINE_multi_string("input", None, "a file, a DICOM series, a folder of pictures")
flags.DEFINE_string(
    "out_dir", None, "directory to write to; each image gets a directory in it"
)
cli.define_config_flags(PredictConfig)
cli.define_config_flags(CropConfig)
cli.define_config_flags(LesionConfig)
REQUIRED = ["input", "out_dir"]


def main() -> None:
    crop = cli.config_from_flags(CropConfig)
    config = cli.config_from_flags(PredictConfig)
    rules = cli.config_from_flags(LesionConfig)
    path = cli.FLAGS.saved_model or pretrained.model_path()
    if crop.follows or rules.chooses:
        _predict_lesions(path, crop, config, rules)
        return
    cli.refuse_flags(cli.config_flag_names(LesionConfig), NO_LESION)
    from tf_probunet.predict.predict import predict

    result = predict(
        model_path=path,
        inputs=cli.FLAGS.input,
        out_dir=cli.FLAGS.out_dir,
        crop=crop,
        config=config,
    )
    for image in result["images"]:
        found = [
            f"{h['probability']:.0%}{' nothing' if h['is_empty'] else ''}"
            for h in image["hypotheses"]
        ]
        line = (
            f"{image['image']}: {len(found)} hypotheses ({', '.join(found)}) for "
            f"{image['explained']:.0%} of the diversity of {image['num_samples']} "
            "samples"
        )
        if image["presence_probability"] is not None:
            present = f"{image['presence_probability']:.0%}"
            line += f", something is marked in {present} of the samples"
        print(line)
    for note in sorted({n for image in result["images"] for n in image["notes"]}):
        print(f"note: {note}")
    for note in result["notes"]:
        print(f"note: {note}")
    print(f"results: {cli.FLAGS.out_dir}")


def _predict_lesions(
    path: files.Path, crop: CropConfig, config: PredictConfig, rules: LesionConfig
) -> None:
    from tf_probunet.predict.predict_lesions import predict_lesions

    result = predict_lesions(
        model_path=path,
        inputs=cli.FLAGS.input,
        out_dir=cli.FLAGS.out_dir,
        crop=crop,
        config=config,
        rules=rules,
    )
    for lesion in result["lesions"]:
        first, last = lesion["slices"]
        sizes = [
            f"{lesion[name]['median']:.{places}f} {unit} "
            "({:.{places}f} to {:.{places}f})".format(
                *lesion[name]["intervals"]["90"], places=places
            )
            for name, unit, places in (
                ("volume_mm3", "mm3", 0),
                ("diameter_mm", "mm", 1),
            )
        ]
        print(
            f"{lesion['lesion']}: slices {first} to {last}, {', '.join(sizes)}, "
            f"present in {lesion['presence_probability']:.0%} of the samples"
        )
    for note in sorted({n for lesion in result["lesions"] for n in lesion["notes"]}):
        print(f"note: {note}")
    for note in result["notes"]:
        print(f"note: {note}")
    print(f"results: {cli.FLAGS.out_dir}")
