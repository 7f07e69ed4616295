"""Turns your own images with several masks each into records.

    python run/prepare_folder.py --input_dir=my_images --out_dir=runs/mine --preview=16
    python run/prepare_folder.py --manifest=my_images.csv --out_dir=runs/mine

The command recognises how the files are arranged and says what it took. Masks may be
binary, hold the labels 0, 1, 2, ..., or have values and colours that the table
--classes=classes.csv explains:

    name,value,color
    background,0,#000000
    disc,1,#00ff00
    cup,2,#0000ff

docs/your_data.md goes on from here to a trained model.
"""

from absl import flags

from tf_probunet.commands import cli, prepare_flags
from tf_probunet.preparation.folder.config import FolderConfig

flags.DEFINE_string("input_dir", None, "the folder with images and masks")
flags.DEFINE_string(
    "manifest",
    None,
    "CSV list, with a row for each image (image,group,split,mask_1,mask_2,...) or each "
    "mask (image,mask,grader). Its paths are relative to --input_dir, or to itself",
)
flags.DEFINE_string("classes", None, "CSV table of classes: name,value,color")
flags.DEFINE_string("split_file", None, "JSON file that lists the groups of each split")
prepare_flags.define()
cli.define_config_flags(FolderConfig)
REQUIRED = prepare_flags.REQUIRED


def main() -> None:
    """Prepares the data and prints what was recognised, and the report."""
    values = cli.FLAGS
    if values.input_dir is None and values.manifest is None:
        raise ValueError("expected --input_dir or --manifest; see --help")
    config = cli.config_from_flags(FolderConfig)
    from tf_probunet.preparation import runner
    from tf_probunet.preparation.folder import prepare as folder

    report = folder.prepare(
        values.input_dir,
        values.out_dir,
        config,
        manifest_path=values.manifest,
        classes_path=values.classes,
        split_file=values.split_file,
        **prepare_flags.settings(),
        say=lambda line: print(line, flush=True),
    )
    print(runner.report_summary(report), end="")
