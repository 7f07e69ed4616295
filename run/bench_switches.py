"""Trains f_comb alone on the switched task, to see what finds the five switches.

python run/bench_switches.py

There is no U-Net: the features of a pixel name its class, with some noise. Each row is
a training with other weights of the loss and another deviation of the latents.
"""

import _start  # noqa: F401  (the checkout's own package)
from absl import flags

from tf_probunet.commands import cli


def main() -> int:
    """Prints a row for each training."""
    import _switches  # Imports TensorFlow, which --help does not need.

    print("energy   modes  stddev  GED16  floor     KL  largest ratio")
    for row in _switches.ROWS:
        found = _switches.train(row, cli.FLAGS.steps, cli.FLAGS.seed)
        print(
            f"{row.energy:6g}  {row.modes:6g}  {row.stddev:6g}  {found['ged']:5.3f}"
            f"  {found['floor']:5.3f}  {found['kl']:5.3f}  {found['ratio']:13.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    flags.DEFINE_integer("steps", 1500, "training steps", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "seed of everything random")
    cli.start(main)
