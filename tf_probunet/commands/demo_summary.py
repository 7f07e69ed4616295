"""The end of run/demo.py: a picture, a table and a list of files."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from tf_probunet import files
from tf_probunet.artifacts import results_dir
from tf_probunet.figures import sample_grid, style

_TITLES = {
    "prob_unet": "Probabilistic U-Net",
    "unet": "deterministic U-Net",
    "always_empty": "always empty",
    "majority": "majority of the graders",
    "floor": "floor: the true distribution",
}
_FILES = """
  samples.png              a picture of samples
  prob_unet_saved_model/   SavedModel; its assets/README.md is the model card
  prob_unet_results/       all scores, also for each image
  prob_unet/               checkpoints and the TensorBoard log
"""


def draw(results: pathlib.Path, path: pathlib.Path) -> None:
    """Draws the samples that the evaluation kept."""
    kept = results_dir.read(results).samples(number=8)
    samples = [maps[:8] for maps in kept.samples]
    figure = sample_grid.draw(images=kept.images, graders=kept.graders, samples=samples)
    files.write_bytes(path, style.to_png(figure))


def summarise(out: pathlib.Path, models: Sequence[str], seconds: float) -> None:
    """Writes summary.json and prints the table."""
    results = {m: results_dir.read(out / f"{m}_results") for m in models}
    ged16 = {
        m: found.required_interval("ged", 16)["mean"] for m, found in results.items()
    }
    own = results["prob_unet"]
    for name in ("always_empty", "majority"):
        ged16[name] = own.required_interval(f"baselines.{name}.ged", 16)["mean"]
    ged16["floor"] = own.required_interval("floor", 16)["mean"]
    summary = {
        "ged16": ged16,
        "seconds": round(seconds, 1),
        "saved_model": str(out / "prob_unet_saved_model"),
    }
    files.write_json(out / "summary.json", summary)
    print("\nsquared energy distance with 16 samples (lower is better)")
    for name, value in sorted(ged16.items(), key=lambda item: -item[1]):
        print(f"  {_TITLES[name]:36s} {value:.3f}")
    print(f"\n{seconds / 60:.1f} minutes of work; everything is in {out}:{_FILES}")
    tensorboard = pathlib.Path(sys.executable).with_name("tensorboard")
    print(f"{tensorboard} --logdir={out} shows the training")
