"""Data sets and SavedModels that several tests evaluate."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import datasets, saved_models
from helpers.evaluations import DOUBTFUL, SIZE, SURE, alternate, lesion

from tf_probunet.dataset import records
from tf_probunet.dataset.cityscapes_labels import (
    MODE_PROBABILITIES,
    TRAIN_CLASS_NAMES,
    switch_table,
)
from tf_probunet.evaluation import sample_files


@pytest.fixture(scope="session")
def lesions(tmp_path_factory) -> records.DatasetInfo:
    """Test: 2 doubtful and 4 sure lesions of 3 patients; validation: 1 and 1."""
    shades = [DOUBTFUL, SURE, DOUBTFUL, SURE, SURE, SURE]
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=2)
    return datasets.write(
        tmp_path_factory.mktemp("lesions"),
        {
            "test": [lesion(i, shade) for i, shade in enumerate(shades)],
            "val": [lesion(20, DOUBTFUL), lesion(22, SURE)],
        },
        spec,
    )


@pytest.fixture(scope="session")
def alternating(tmp_path_factory, lesions):
    path = tmp_path_factory.mktemp("models") / "alternating"
    return saved_models.save(path, alternate, lesions)


@pytest.fixture(scope="session")
def drawing(tmp_path_factory, phantom_dir):
    """A model of random samples for the phantom."""
    path = tmp_path_factory.mktemp("models") / "drawing"
    return saved_models.save(path, saved_models.levels, records.read_info(phantom_dir))


@pytest.fixture
def streets(tmp_path):
    """Two street scenes of switchable classes with samples of known modes."""
    spec = datasets.spec(
        class_names=TRAIN_CLASS_NAMES,
        num_graders=1,
        ignore_label=255,
    )
    rng = np.random.default_rng(0)
    labels = rng.choice([0, 1, 8, 11, 13, 2, 255], (2, SIZE, SIZE)).astype(np.uint8)
    examples = [datasets.example(i, labels=labels[i][None]) for i in range(2)]
    info = datasets.write(tmp_path / "data", {"test": examples}, spec)
    samples = []
    for i in range(2):
        modes = rng.choice(32, 4, p=MODE_PROBABILITIES)
        maps = np.stack([switch_table(mode)[labels[i]] for mode in modes])
        maps[maps == 255] = 3
        sample_files.write(tmp_path / "samples", f"key-{i:03d}", maps)
        samples.append(maps)
    return info, labels, samples
