"""Turns Cityscapes into records of 256x512 with the 19 training classes.

python run/prepare_cityscapes.py --cityscapes_dir=cityscapes --out_dir=runs/cityscapes
"""

from absl import flags

from tf_probunet.commands import cli, prepare_flags

flags.DEFINE_string("cityscapes_dir", None, "folder with leftImg8bit and gtFine")
prepare_flags.define()
REQUIRED = ["cityscapes_dir", "out_dir"]


def main() -> None:
    """Prepares the data and prints the report."""
    from tf_probunet.preparation import cityscapes, runner

    report = cityscapes.prepare(
        cli.FLAGS.cityscapes_dir,
        cli.FLAGS.out_dir,
        **prepare_flags.settings(),
    )
    print(runner.report_summary(report), end="")
    print("\n".join(cityscapes.count_notes(report["splits"])))
