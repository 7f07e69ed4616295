"""Draws made-up street scenes in the raw layout of Cityscapes.

python run/prepare_street_phantom.py --out_dir=runs/street
python run/prepare_cityscapes.py --cityscapes_dir=runs/street --out_dir=runs/records
"""

import _cli
from absl import flags

flags.DEFINE_string("out_dir", None, "where to write leftImg8bit and gtFine")
flags.DEFINE_integer("images_per_city", 8, "scenes per city", lower_bound=1)
flags.DEFINE_enum("size", "512x256", ["512x256", "2048x1024"], "width x height")
flags.DEFINE_integer("seed", 0, "another seed gives other scenes")


def main() -> None:
    """Writes the scenes and says how many."""
    from tf_probunet.preparation import street_phantom

    width, height = map(int, _cli.FLAGS.size.split("x"))
    number = street_phantom.write(
        _cli.FLAGS.out_dir,
        images_per_city=_cli.FLAGS.images_per_city,
        height=height,
        width=width,
        seed=_cli.FLAGS.seed,
    )
    print(f"{number} scenes of {_cli.FLAGS.size} in {_cli.FLAGS.out_dir}")


if __name__ == "__main__":
    _cli.start(main, required=["out_dir"])
