r"""Writes an HTML page to explore the latent space of one image offline.

    python run/explore.py --input=slice.png --out=explorer.html
    python run/explore.py --input=scan/ --center=40,210,300 --out=explorer.html
    python run/explore.py --saved_model=runs/saved_model --data_dir=runs/phantom \
        --split=test --key=test-00003 --out=explorer.html

The default model is a pretrained one for crops of chest CT around a lesion. --input
reads your own image as run/predict.py does. See docs/explorer.md.
"""

import pathlib

from absl import flags

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import NO_LESION, LesionConfig

flags.DEFINE_string(
    "saved_model",
    None,
    "a SavedModel of run/export.py (prob_unet); by default the pretrained "
    f"{pretrained.DEFAULT}",
)
flags.DEFINE_string("data_dir", None, "a prepared data set; instead of --input")
flags.DEFINE_string("split", "test", "split of the data set")
flags.DEFINE_string("key", None, "key of the image in the split; by default the first")
flags.DEFINE_string("input", None, "an image of your own")
flags.DEFINE_string("out", "explorer.html", "HTML file to write")
flags.DEFINE_integer("num_samples", 16, "number of samples on the page", lower_bound=1)
flags.DEFINE_integer("seed", 0, "seed of the samples")
cli.define_config_flags(CropConfig)
cli.define_config_flags(LesionConfig)


def main() -> None:
    values = cli.FLAGS
    crop = cli.config_from_flags(CropConfig)
    rules = cli.config_from_flags(LesionConfig)
    if not values.data_dir:
        cli.refuse_flags(["split", "key"], "no --data_dir")
    if not values.input:
        for config in (CropConfig, LesionConfig):
            cli.refuse_flags(cli.config_flag_names(config), "no --input")
    elif not (crop.follows or rules.chooses):
        cli.refuse_flags(cli.config_flag_names(LesionConfig), NO_LESION)
    model = values.saved_model or pretrained.model_path()
    from tf_probunet.explorer.explore import explore

    shown = explore(
        model_path=model,
        out=values.out,
        data_dir=values.data_dir,
        split=values.split,
        key=values.key,
        input_path=values.input,
        crop=crop,
        rules=rules,
        num_samples=values.num_samples,
        seed=values.seed,
    )
    for note in shown.notes:
        print(f"note: {note}")
    size = pathlib.Path(values.out).stat().st_size
    print(f"page: {values.out} ({size / 2**20:.1f} MB)")
