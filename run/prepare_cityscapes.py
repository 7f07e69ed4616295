"""Writes Cityscapes as records of 256x512 with the 19 training classes.

python run/prepare_cityscapes.py --cityscapes_dir=cityscapes --out_dir=data/records
"""

import _cli
from absl import flags

flags.DEFINE_string("cityscapes_dir", None, "folder with leftImg8bit and gtFine")
flags.DEFINE_string("out_dir", None, "where to write the data set")
flags.DEFINE_integer("num_workers", 0, "processes; 0 for one per core", lower_bound=0)
flags.DEFINE_bool("strict", False, "stop at the first file that can't be used")
flags.DEFINE_bool("overwrite", False, "replace a data set of other settings")


def main() -> None:
    """Prepares the data and prints the report."""
    from tf_probunet.preparation import cityscapes, runner

    report = cityscapes.prepare(
        _cli.FLAGS.cityscapes_dir,
        _cli.FLAGS.out_dir,
        num_workers=_cli.FLAGS.num_workers,
        strict=_cli.FLAGS.strict,
        overwrite=_cli.FLAGS.overwrite,
    )
    print(runner.report_summary(report), end="")
    print("\n".join(cityscapes.count_notes(report["splits"])))


if __name__ == "__main__":
    _cli.start(main, required=["cityscapes_dir", "out_dir"])
