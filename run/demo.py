"""The whole way on phantom data: prepare, train, evaluate, export, reload, draw.

    make demo

Every step is a command that can be typed by itself; they are printed as they run. A
second run goes on where the first was stopped.
"""

import json
import pathlib
import subprocess
import sys
import time

import _cli
from absl import flags

flags.DEFINE_string("out_dir", "runs/demo", "where everything goes")
flags.DEFINE_string("flagfile_name", "phantom.flags", "settings of the training")
flags.DEFINE_integer("steps", None, "training steps, instead of those of the flag file")
flags.DEFINE_integer("num_train", 2000, "phantom images to train on")

RUN = pathlib.Path(__file__).resolve().parent
MODELS = ("prob_unet", "unet")
# Loads the SavedModel where this package can't be imported, and draws twice.
RELOAD = """
import sys
sys.modules["tf_probunet"] = None
import numpy as np, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
stored = np.load(sys.argv[2])
image = stored["images"][:1]
first, second = (model.sample(image, 16, 7)["labels"].numpy() for _ in range(2))
assert (first == second).all() and first.shape == (1, 16, *image.shape[1:3])
areas = (first > 0).sum((2, 3))[0].tolist()
print(f"reloaded with TensorFlow alone: 16 samples of {areas} pixels")
"""


def command(*words: str) -> None:
    """Prints a command, runs it with this Python and stops the demo if it fails."""
    shown = [f"run/{pathlib.Path(words[0]).name}", *words[1:]]
    print(f"\n$ python {' '.join(shown)}", flush=True)
    call([str(RUN / words[0]), *words[1:]])


def call(words: list[str]) -> None:
    result = subprocess.run([sys.executable, *words], check=False)
    if result.returncode:
        sys.exit(result.returncode)


def run_model(out: pathlib.Path, data: str, model: str) -> dict:
    """Trains, exports and evaluates a model; returns its results."""
    settings = [f"--flagfile={_cli.FLAGS.flagfile_name}", f"--data_dir={data}"]
    if _cli.FLAGS.steps:
        settings.append(f"--steps={_cli.FLAGS.steps}")
    run_dir, saved = out / model, out / f"{model}_saved_model"
    command("train.py", *settings, f"--run_dir={run_dir}", f"--model={model}")
    command("export.py", f"--run_dir={run_dir}", f"--out_dir={saved}", "--overwrite")
    command(
        "evaluate.py",
        f"--saved_model={saved}",
        f"--data_dir={data}",
        "--split=test",
        "--num_samples=1,4,8,16",
        f"--out_dir={out / model}_results",
        "--overwrite",
    )
    return json.loads((out / f"{model}_results" / "results.json").read_text())


def draw(results: pathlib.Path, path: pathlib.Path) -> None:
    """Draws the samples that the evaluation kept."""
    import numpy as np

    from tf_probunet import files
    from tf_probunet.figures import sample_grid, style

    with np.load(results / "samples.npz") as stored:
        figure = sample_grid.draw(
            images=stored["images"][:8],
            graders=stored["graders"][:8],
            samples=stored["samples"][:8, :8],
        )
    files.write_bytes(path, style.to_png(figure))


def summarise(out: pathlib.Path, results: dict, seconds: float) -> None:
    """Writes summary.json and prints the table."""
    from tf_probunet import files

    own = results["prob_unet"]
    ged16 = {model: results[model]["ged"]["16"]["mean"] for model in MODELS}
    for name in ("always_empty", "majority"):
        ged16[name] = own["baselines"][name]["ged"]["16"]["mean"]
    ged16["floor"] = own["floor"]["16"]["mean"]
    saved = out / "prob_unet_saved_model"
    summary = {"ged16": ged16, "seconds": seconds, "saved_model": str(saved)}
    files.write_json(out / "summary.json", summary)
    names = {
        "prob_unet": "Probabilistic U-Net",
        "unet": "deterministic U-Net",
        "always_empty": "always empty",
        "majority": "majority of the graders",
        "floor": "floor: the true distribution itself",
    }
    print("\nsquared energy distance, 16 samples (less is better)")
    for key, value in sorted(ged16.items(), key=lambda item: -item[1]):
        print(f"  {names[key]:36s} {value:.3f}")
    print(f"\n{seconds / 60:.1f} minutes; everything is in {out}:")
    print("  samples.png              pictures of the samples")
    print("  prob_unet_saved_model/   SavedModel; its assets/README.md is the card")
    print("  prob_unet_results/       all numbers")
    print(f"  prob_unet/               checkpoints; tensorboard --logdir={out}")


def main() -> None:
    start = time.monotonic()
    out = pathlib.Path(_cli.FLAGS.out_dir)
    data = str(out / "phantom")
    command(
        "prepare_phantom.py", f"--out_dir={data}", f"--num_train={_cli.FLAGS.num_train}"
    )
    results = {model: run_model(out, data, model) for model in MODELS}
    print()
    kept = out / "prob_unet_results" / "samples.npz"
    call(["-c", RELOAD, str(out / "prob_unet_saved_model"), str(kept)])
    draw(out / "prob_unet_results", out / "samples.png")
    summarise(out, results, round(time.monotonic() - start, 1))


if __name__ == "__main__":
    _cli.start(main)
