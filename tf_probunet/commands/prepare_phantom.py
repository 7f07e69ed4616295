"""Writes phantom data: CT-like lesions with an exactly known distribution of masks.

    python run/prepare_phantom.py --out_dir=runs/phantom

The same flags give the same bytes.
"""

from absl import flags

from tf_probunet.commands import cli
from tf_probunet.config import PhantomConfig

flags.DEFINE_string("out_dir", None, "where to write the data set")
flags.DEFINE_integer("num_workers", 1, "processes; 0 for one per core", lower_bound=0)
flags.DEFINE_bool("overwrite", False, "replace a data set of other settings")
cli.define_preview_flag()
cli.define_config_flags(PhantomConfig)
REQUIRED = ["out_dir"]


def main() -> None:
    config = cli.config_from_flags(PhantomConfig)
    from tf_probunet.preparation import phantom, runner

    report = phantom.prepare(
        config,
        cli.FLAGS.out_dir,
        num_workers=cli.FLAGS.num_workers,
        overwrite=cli.FLAGS.overwrite,
        num_preview=cli.FLAGS.preview,
    )
    print(runner.report_summary(report), end="")
