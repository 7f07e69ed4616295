"""A run of a tiny model, its SavedModel and its scores, made once for all tests."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
import tensorflow as tf
from helpers import run_dirs

from tf_probunet.config import DataConfig
from tf_probunet.evaluation import evaluate
from tf_probunet.export import export


@pytest.fixture(scope="session")
def run(tmp_path_factory, phantom_dir) -> pathlib.Path:
    """A run whose network sees whole images."""
    path = tmp_path_factory.mktemp("runs") / "run"
    run_dirs.make_run(path, phantom_dir, data=DataConfig(crop_size=16, eval_size=0))
    return path


@pytest.fixture(scope="session")
def saved_model(run) -> pathlib.Path:
    """Its SavedModel."""
    return export.export_run(run, run.parent / "saved_model")


@pytest.fixture(scope="session")
def loaded(saved_model):
    """The loaded SavedModel."""
    return tf.saved_model.load(str(saved_model))


@pytest.fixture(scope="session")
def results(saved_model, phantom_dir) -> pathlib.Path:
    """The results of an evaluation of the SavedModel."""
    out_dir = saved_model.parent / "results"
    evaluate.evaluate(
        evaluate.EvaluationConfig(
            data_dir=str(phantom_dir),
            out_dir=str(out_dir),
            saved_model=str(saved_model),
            num_samples=(1, 4),
            limit=4,
            validation_split="",
        )
    )
    return out_dir


@pytest.fixture
def edited_results(results) -> Callable[..., pathlib.Path]:
    """A function that copies the results with a change."""

    def edited(target: pathlib.Path, edit: Callable[[dict], None]) -> pathlib.Path:
        content = json.loads((results / "results.json").read_text())
        edit(content)
        target.mkdir(exist_ok=True)
        (target / "results.json").write_text(json.dumps(content))
        return target

    return edited
