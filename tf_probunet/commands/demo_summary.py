"""The end of run/demo.py: a picture, a table and a list of files."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from tf_probunet import files
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


def draw(kept: pathlib.Path, path: pathlib.Path) -> None:
    """Draws the samples that the evaluation kept."""
    with np.load(kept) as stored:
        figure = sample_grid.draw(
            images=stored["images"][:8],
            graders=stored["graders"][:8],
            samples=stored["samples"][:8, :8],
        )
    files.write_bytes(path, style.to_png(figure))


def summarise(out: pathlib.Path, models: Sequence[str], seconds: float) -> None:
    """Writes summary.json and prints the table."""
    results = {
        model: files.read_json(out / f"{model}_results" / "results.json", "results")
        for model in models
    }
    own = results["prob_unet"]
    ged16 = {model: results[model]["ged"]["16"]["mean"] for model in models}
    for name in ("always_empty", "majority"):
        ged16[name] = own["baselines"][name]["ged"]["16"]["mean"]
    ged16["floor"] = own["floor"]["16"]["mean"]
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
