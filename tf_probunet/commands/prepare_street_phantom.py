"""Draws artificial street scenes in the raw layout of Cityscapes.

python run/prepare_street_phantom.py --out_dir=runs/street
python run/prepare_cityscapes.py --cityscapes_dir=runs/street --out_dir=runs/records
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("out_dir", None, "directory for leftImg8bit and gtFine")
flags.DEFINE_integer("images_per_city", 8, "scenes per city", lower_bound=1)
flags.DEFINE_enum("size", "512x256", ["512x256", "2048x1024"], "width x height")
flags.DEFINE_integer("seed", 0, "seed of the scenes")
REQUIRED = ["out_dir"]


def main() -> None:
    """Writes the scenes and prints their number."""
    from tf_probunet.preparation import street_phantom

    width, height = map(int, cli.FLAGS.size.split("x"))
    number = street_phantom.write(
        cli.FLAGS.out_dir,
        images_per_city=cli.FLAGS.images_per_city,
        height=height,
        width=width,
        seed=cli.FLAGS.seed,
    )
    print(f"{number} scenes of {cli.FLAGS.size} in {cli.FLAGS.out_dir}")
