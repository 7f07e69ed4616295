"""Damaged SavedModels, checkpoints and lists of checkpoints."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from helpers import datasets, fuzzing
from helpers.mutations import mutate, mutate_json
from helpers.run_dirs import make_run
from helpers.saved_models import levels, save

from tf_probunet.artifacts import checksums, saved_model
from tf_probunet.training import ensemble
from tf_probunet.training.run_dir import RunDir

MEMORY_GIB = 6  # TensorFlow's threads.
CHECKSUM_TRIES = 150
ASSET_TRIES = 60
GRAPH_TRIES = 100
CHECKPOINT_TRIES = 12
LIST_TRIES = 60

# Loads damaged graphs one after another; a line says how each ended.
_LOADER = """
import json, pathlib, random, sys
from helpers.mutations import mutate, mutate_in_place
from tf_probunet.artifacts import saved_model
path, first, behind = pathlib.Path(sys.argv[1]), *map(int, sys.argv[3:])
graph = path / "saved_model.pb"
whole = pathlib.Path(sys.argv[2]).read_bytes()
for index in range(first, behind):
    # Most changes of the length end all further reading.
    change = mutate_in_place if index % 5 else mutate
    graph.write_bytes(change(whole, random.Random(f"graph {index}")))
    try:
        saved_model.load(path)
        answer = "loaded"
    except (ValueError, OSError) as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> pathlib.Path:
    """A SavedModel with its checksums."""
    folder = tmp_path_factory.mktemp("model")
    info = datasets.write(folder / "data", {"test": [datasets.example(0)]})
    path = save(folder / "saved", levels, info)
    checksums.write(path)
    return path


@pytest.fixture
def model_dir(tmp_path, exported) -> pathlib.Path:
    """A copy that a test may damage."""
    return pathlib.Path(shutil.copytree(exported, tmp_path / "saved"))


def _valid_model(model: saved_model.LoadedModel) -> None:
    assert model.has("sample") and model.size_divisor >= 1
    assert all(isinstance(name, str) for name in model.class_names)
    assert model.spacing_mm is None or model.spacing_mm > 0


def test_damaged_models_are_found_by_their_checksums(fuzz, model_dir):
    paths = sorted(p for p in model_dir.rglob("*") if p.is_file())
    for rng in fuzz.rngs(CHECKSUM_TRIES):
        path = rng.choice(paths)
        whole = path.read_bytes()
        damaged = mutate(whole, rng)
        if damaged == whole:
            continue
        path.write_bytes(damaged)
        answer = fuzz.check(
            lambda: checksums.check(model_dir),
            lambda _: None,
            [path.name, "saved"],
        )
        path.write_bytes(whole)
        # The list itself may be written in another way.
        assert isinstance(answer, ValueError) or path.name == "checksums.json", path
    checksums.check(model_dir)


def test_missing_files_are_found(fuzz, model_dir):
    (model_dir / "variables" / "variables.index").unlink()
    error = fuzz.check(lambda: saved_model.load(model_dir), _valid_model, ["variables"])
    assert "damaged SavedModel" in str(error)


@pytest.mark.parametrize("name", ["config.json", "dataset.json", "metadata.json"])
def test_damaged_descriptions(fuzz, model_dir, name, monkeypatch):
    (model_dir / checksums.NAME).unlink()
    module = saved_model.tf.saved_model.load(str(model_dir))
    # The descriptions are the matter here, and loading takes its time.
    monkeypatch.setattr(saved_model.tf.saved_model, "load", lambda _: module)
    path = model_dir / "assets" / name
    seed = json.loads(path.read_text())
    for rng in fuzz.rngs(ASSET_TRIES):
        value = mutate_json(seed, rng)
        path.write_text(json.dumps(value))
        fuzz.check(lambda: saved_model.load(model_dir), _valid_model, [name])


def test_damaged_graphs_without_checksums(fuzz, model_dir, exported):
    (model_dir / checksums.NAME).unlink()
    count, answers = fuzzing.number_of_tries(GRAPH_TRIES), []
    while len(answers) < count:
        # In a process of its own: TensorFlow may end it.
        words = [str(model_dir), str(exported / "saved_model.pb")]
        words += [str(len(answers)), str(count)]
        done = subprocess.run(
            [sys.executable, "-c", _LOADER, *words],
            cwd=pathlib.Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        answers += [json.loads(line) for line in done.stdout.splitlines()]
        # A signal is TensorFlow's own end; an exit with a traceback would be ours.
        assert done.returncode <= 0, done.stderr[-2000:]
        if done.returncode:
            answers.append("TensorFlow ended the process")
    fuzz.tried += len(answers)
    for answer in answers:
        if answer.startswith(("ValueError:", "FileNotFoundError:")):
            assert "saved" in answer and len(answer.splitlines()) == 1, answer
        else:
            assert answer in ("loaded", "TensorFlow ended the process"), answer
    assert any(answer.startswith("ValueError") for answer in answers)


@pytest.mark.parametrize("kind", [KeyError, TypeError, RecursionError, AssertionError])
def test_what_a_damaged_graph_raises_is_said_in_one_line(
    fuzz, model_dir, monkeypatch, kind
):
    def load(_):
        raise kind("first line\nsecond line")

    monkeypatch.setattr(saved_model.tf.saved_model, "load", load)
    error = fuzz.check(lambda: saved_model.load(model_dir), _valid_model, ["saved"])
    assert "first line" in str(error)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> pathlib.Path:
    """A run with a best checkpoint."""
    folder = tmp_path_factory.mktemp("run")
    datasets.write(
        folder / "data",
        {"train": [datasets.example(0)], "val": [datasets.example(1)]},
    )
    make_run(folder / "run", folder / "data", num_classes=4)
    return folder / "run"


def test_damaged_checkpoints(fuzz, tmp_path, trained):
    run = pathlib.Path(shutil.copytree(trained, tmp_path / "run"))
    paths = sorted(p for p in (run / "best").iterdir() if p.name != "checkpoint")
    for rng in fuzz.rngs(CHECKPOINT_TRIES):
        path = rng.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(mutate(whole, rng))
        fuzz.check(
            lambda: RunDir(run).load_model(), lambda m: m.trainable_variables, ["run"]
        )
        path.write_bytes(whole)


def test_damaged_lists_of_checkpoints(fuzz, tmp_path, trained):
    run = tmp_path / "run"
    shutil.copytree(trained / "best", run / "checkpoints")
    path = run / "checkpoints" / "checkpoint"
    whole = path.read_bytes()
    for rng in fuzz.rngs(LIST_TRIES):
        path.write_bytes(mutate(whole, rng))
        fuzz.check(
            lambda: ensemble.last_step(RunDir(run)),
            lambda step: isinstance(step, int),
            ["checkpoint"],
        )
