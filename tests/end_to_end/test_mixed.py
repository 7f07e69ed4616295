"""Images of several sizes, classes and numbers of graders, from training to figures."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import datasets, runs, tiny
from helpers.evaluations import run

import tf_probunet as pu
from tf_probunet.artifacts import results_dir
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.export import export
from tf_probunet.figures import make

pytestmark = pytest.mark.slow

_NAMES = ("background", "disc", "cup")
_SIZES = ((24, 30), (21, 40), (33, 26))


def _eye(index: int) -> records.Example:
    """A bright disc with a cup, as one to four graders draw it."""
    rng = np.random.default_rng(index)
    height, width = _SIZES[index % 3]
    rows, cols = np.mgrid[:height, :width]
    distance = np.hypot(rows - height / 2, cols - width / 2)
    labels = [
        1 * (distance < rng.uniform(7, 9)) + (distance < rng.uniform(3, 5))
        for _ in range(1 + index % 4)
    ]
    image = 80 + 20 * labels[0] + rng.normal(0, 4, (height, width))
    return datasets.example(
        index,
        image=image.clip(0, 255).astype(np.uint8)[..., None],
        labels=np.stack(labels).astype(np.uint8),
    )


def test_from_records_to_figures(tmp_path):
    parts = {"train": range(12), "val": range(12, 16), "test": range(16, 24)}
    info = datasets.write(
        tmp_path / "data",
        {split: [_eye(i) for i in indices] for split, indices in parts.items()},
        datasets.mixed_spec(class_names=_NAMES),
    )
    config = tiny.run(
        crop_size=(16, 20), eval_size=0, graders_per_image=0, energy_weight=10.0
    )
    outcome = runs.train(config, info.data_dir, tmp_path / "run")
    assert np.isfinite(outcome.best["ged"])
    model = export.export_run(tmp_path / "run", tmp_path / "model")
    results = run(
        tmp_path / "results",
        info.data_dir,
        saved_model=str(model),
        num_samples=(2, 4),
        save_samples=8,
    )
    assert list(results["by_class"]) == ["disc", "cup"]
    assert (results["data"]["fewest_graders"], results["data"]["graders"]) == (1, 4)
    # The samples in the files are those that a user gets.
    kept = results_dir.read(tmp_path / "results").samples()
    assert {image.shape[:2] for image in kept.images} == set(_SIZES)
    examples = input_pipeline.evaluation_examples(info, "test", config.data, size=0)
    stored = {e["key"].decode(): e for e in examples.as_numpy_iterator()}
    predictor = pu.load(tmp_path / "model")
    for key, image, graders, samples in zip(*kept):
        np.testing.assert_array_equal(graders, stored[key]["labels"])
        drawn = predictor.sample(image, num_samples=4)
        assert drawn.shape == samples.shape == (4, *image.shape[:2])
    request = make.Request(results=[results_dir.read(tmp_path / "results")])
    assert make.make("all", request, str(tmp_path / "figures"))
