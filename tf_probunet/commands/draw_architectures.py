"""Draws the architectures of all models, as in docs/models.md.

python run/draw_architectures.py
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("out_dir", "docs/images", "where to write the SVG files")


def main() -> None:
    from tf_probunet.figures import architectures

    for path in architectures.save_all(cli.FLAGS.out_dir):
        print(path)
