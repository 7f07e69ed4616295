"""Draws pictures of the back of the eye with several graders, as a folder of PNGs.

python run/prepare_fundus_phantom.py --out_dir=runs/fundus
python run/prepare_folder.py --input_dir=runs/fundus --out_dir=runs/fundus_records
"""

from absl import flags

from tf_probunet.commands import cli
from tf_probunet.config import FundusConfig

flags.DEFINE_string("out_dir", None, "directory for images, masks and classes.csv")
cli.define_config_flags(FundusConfig)
REQUIRED = ["out_dir"]


def main() -> None:
    """Writes the pictures and prints their number."""
    config = cli.config_from_flags(FundusConfig)
    from tf_probunet.preparation import fundus_phantom

    images, masks = fundus_phantom.write(cli.FLAGS.out_dir, config)
    print(f"{images} images with {masks} masks in {cli.FLAGS.out_dir}")
