r"""Draws the curves of trainings from their TensorBoard logs, as PNG and SVG.

    python run/draw_curves.py --run_dirs=runs/a,runs/b --names="beta 1,beta 10" \
        --out_dir=runs/figures --floor=0.165
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_list("run_dirs", None, "run directories of run/train.py")
flags.DEFINE_list("names", [], "names of the runs; by default those of the directories")
flags.DEFINE_string("out_dir", None, "directory to write to")
flags.DEFINE_string("stem", "training_curves", "name of the files, without suffix")
flags.DEFINE_float("floor", None, "draw this energy distance of a perfect model")
REQUIRED = ["run_dirs", "out_dir"]


def main() -> None:
    values = cli.FLAGS
    run_dirs = values["run_dirs"].value
    names = values["names"].value or run_dirs
    if len(set(names)) != len(run_dirs):
        raise ValueError(f"names are {names}, expected one for each of {run_dirs}")
    from tf_probunet.figures import style, training_curves
    from tf_probunet.training import logs

    runs = {name: logs.read_scalars(path) for name, path in zip(names, run_dirs)}
    figure = training_curves.draw(runs, values.floor)
    for path in style.save(figure, values.out_dir, values.stem):
        print(path)
