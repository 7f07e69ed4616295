"""Writes phantom data: CT-like lesions with an exactly known distribution of masks.

    python run/prepare_phantom.py --out_dir=runs/phantom

The same flags give the same bytes.
"""

from tf_probunet.commands import cli, prepare_flags
from tf_probunet.config import PhantomConfig

prepare_flags.define(num_workers=1, strict=False)
cli.define_config_flags(PhantomConfig)
REQUIRED = prepare_flags.REQUIRED


def main() -> None:
    config = cli.config_from_flags(PhantomConfig)
    from tf_probunet.preparation import phantom, runner

    report = phantom.prepare(
        config,
        cli.FLAGS.out_dir,
        **prepare_flags.settings(),
    )
    print(runner.report_summary(report), end="")
