"""Shows the whole path on phantom data: prepare, train, evaluate, export, draw.

    python run/demo.py

Each step is a command of its own, which is printed before it runs. If the
demonstration was stopped, the same command continues it.
"""

import pathlib

from absl import flags

from tf_probunet.commands import cli, compared
from tf_probunet.commands.pieces import Pieces

flags.DEFINE_string("out_dir", "runs/demo", "directory for everything")
flags.DEFINE_string("settings", "phantom.flags", "flag file of the trainings")
flags.DEFINE_integer("steps", None, "training steps; by default those of --settings")
flags.DEFINE_integer("num_train", 4000, "phantom images to train on", lower_bound=1)
flags.DEFINE_integer("num_test", 250, "phantom images to score", lower_bound=1)
MODELS = (
    compared.Candidate("prob_unet", "Probabilistic U-Net", ("--model=prob_unet",)),
    compared.Candidate("unet", "deterministic U-Net", ("--model=unet",)),
)
RELOAD = pathlib.Path(__file__).with_name("demo_reload.py")


def main() -> None:
    from tf_probunet import files
    from tf_probunet.artifacts import results_dir
    from tf_probunet.commands import demo_summary

    values = cli.FLAGS
    kept = {name: values[name].value for name in ("settings", "steps", "num_train")}
    pieces = Pieces(values.out_dir, kept)
    counts = {name: values[name].value for name in ("num_train", "num_test")}
    data = f"--data_dir={compared.phantom(pieces, counts)}"
    words = [f"--flagfile={values.settings}", data]
    if values.steps:
        words.append(f"--steps={values.steps}")
    for model in MODELS:
        compared.training(pieces, model, words)()
        compared.export(pieces, model)
        compared.score(pieces, model, [data, "--split=test"])
    saved = compared.saved_model(pieces, MODELS[0])
    results = pieces.path / "prob_unet_results"
    print("\nreloading the SavedModel where only TensorFlow can be imported")
    with files.without_patterns(saved) as plain:
        pieces.run("reload", RELOAD, plain, results / results_dir.SAMPLES_NAME)
    demo_summary.draw(results, pieces.path / "samples.png")
    names = [model.key for model in MODELS]
    demo_summary.summarise(pieces.path, names, pieces.seconds)
