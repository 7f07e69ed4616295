"""Turns Cityscapes into records of 256x512 with the 19 training classes.

python run/prepare_cityscapes.py --cityscapes_dir=cityscapes --out_dir=runs/cityscapes
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("cityscapes_dir", None, "folder with leftImg8bit and gtFine")
flags.DEFINE_string("out_dir", None, "where to write the data set")
flags.DEFINE_integer("num_workers", 0, "processes; 0 for one per core", lower_bound=0)
flags.DEFINE_bool("strict", False, "stop at the first file that cannot be used")
flags.DEFINE_bool("overwrite", False, "replace a data set of other settings")
cli.define_preview_flag()
REQUIRED = ["cityscapes_dir", "out_dir"]


def main() -> None:
    """Prepares the data and prints the report."""
    from tf_probunet.preparation import cityscapes, runner

    report = cityscapes.prepare(
        cli.FLAGS.cityscapes_dir,
        cli.FLAGS.out_dir,
        num_workers=cli.FLAGS.num_workers,
        strict=cli.FLAGS.strict,
        overwrite=cli.FLAGS.overwrite,
        num_preview=cli.FLAGS.preview,
    )
    print(runner.report_summary(report), end="")
    print("\n".join(cityscapes.count_notes(report["splits"])))
