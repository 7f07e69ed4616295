"""Draws the architectures of all models, as in docs/models.md.

python run/draw_architectures.py
"""

import _cli
from absl import flags

flags.DEFINE_string("out_dir", "docs/images", "where to write the SVG files")


def main() -> None:
    from tf_probunet.figures import architectures

    for path in architectures.save_all(_cli.FLAGS.out_dir):
        print(path)


if __name__ == "__main__":
    _cli.start(main)
