"""Clusters of two real processes on loopback, against one process."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from helpers import clusters, runs

from tf_probunet.dataset import records
from tf_probunet.training import logs, validation
from tf_probunet.training.run_dir import RunDir

DETERMINISTIC = {
    "model": "unet",
    "ema_decay": 0.5,
    "gradient_clip_norm": 50.0,
}


def _alone(data_dir, run_dir, **flags):
    command = clusters.train_command(data_dir, run_dir=run_dir, **flags)
    subprocess.run(command, check=True, capture_output=True)


def _assert_same(run_dir, other):
    mine, theirs = logs.read_scalars(run_dir), logs.read_scalars(other)
    assert set(mine) == set(theirs)
    for tag, points in mine.items():
        if "second" in tag:  # How fast it was.
            continue
        assert set(points) == set(theirs[tag])
        for step, value in points.items():
            assert value == pytest.approx(theirs[tag][step], rel=1e-4), (tag, step)
    weights, other_weights = runs.weights(run_dir), runs.weights(other)
    assert set(weights) == set(other_weights)
    for name, value in weights.items():
        np.testing.assert_allclose(value, other_weights[name], atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def alone(phantom_dir, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("alone")
    _alone(phantom_dir, run_dir, **DETERMINISTIC)
    return run_dir


def test_two_processes_make_the_steps_of_one(alone, phantom_dir, tmp_path):
    """Graders and augmentation depend on the position in the stream, not the worker."""
    workers = clusters.start_workers(phantom_dir, tmp_path, **DETERMINISTIC)
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    _assert_same(alone, tmp_path)
    assert "validation loss" in outputs[0] and "validation loss" not in outputs[1]
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["loss"] == pytest.approx(
        json.loads((alone / "best.json").read_text())["loss"], rel=1e-4
    )


@pytest.mark.slow
def test_latents_differ_between_workers_but_the_loss_is_alike(phantom_dir, tmp_path):
    flags = {"steps": 40, "validate_every": 40, "checkpoint_every": 40, "beta": 1}
    flags.update(initializer="he_normal", base_channels=8, learning_rate=1e-2)
    _alone(phantom_dir, tmp_path / "alone", **flags)
    workers = clusters.start_workers(phantom_dir, tmp_path / "pair", **flags)
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    alone = logs.read_scalars(tmp_path / "alone")["training/loss"]
    pair = logs.read_scalars(tmp_path / "pair")["training/loss"]
    assert set(alone) == set(pair) == set(range(1, 41))
    one = np.array([alone[step] for step in sorted(alone)])
    two = np.array([pair[step] for step in sorted(pair)])
    assert (one != two).any()  # Other latents: the losses can't be the very same.
    # The batches are the same, so that the losses move together, step by step.
    assert one[-10:].mean() < 0.5 * one[:2].mean()
    assert np.corrcoef(one, two)[0, 1] > 0.9
    assert two.mean() == pytest.approx(one.mean(), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["chief", "other"])
def test_a_dead_worker_ends_the_other_and_the_pair_resumes(
    victim, alone, phantom_dir, tmp_path
):
    workers = clusters.start_workers(phantom_dir, tmp_path, **DETERMINISTIC)
    _wait_for(tmp_path / "checkpoints" / "checkpoint", workers)
    workers[victim].kill()
    outputs = clusters.finish(workers, timeout=120)
    assert workers[victim].returncode == -signal.SIGKILL
    assert workers[1 - victim].returncode != 0
    assert "another worker is gone; start all of them again" in outputs[1 - victim]
    again = clusters.start_workers(phantom_dir, tmp_path, **DETERMINISTIC)
    outputs = clusters.finish(again)
    assert [worker.returncode for worker in again] == [0, 0], outputs
    weights, expected = runs.weights(tmp_path), runs.weights(alone)
    for name, value in expected.items():
        np.testing.assert_allclose(value, weights[name], atol=2e-5, err_msg=name)


@pytest.mark.slow
def test_a_cluster_may_have_one_worker(alone, phantom_dir, tmp_path):
    (worker,) = clusters.start_workers(phantom_dir, tmp_path, count=1, **DETERMINISTIC)
    outputs = clusters.finish([worker])
    assert worker.returncode == 0, outputs
    _assert_same(alone, tmp_path)


@pytest.mark.slow
def test_two_processes_tune_the_foreground(phantom_dir, tmp_path):
    """Only the chief validates: the kept checkpoint scores what it noted."""
    flags = {**DETERMINISTIC, "tune_foreground": True}
    workers = clusters.start_workers(phantom_dir, tmp_path, **flags)
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    directory = RunDir(tmp_path)
    model, config = directory.load_model("best"), directory.config()
    info = records.read_info(phantom_dir)
    score = validation.Validator(model, info, config).energy_distance()["ged"]
    best = directory.best_score()
    assert score == pytest.approx(best["ged"], abs=1e-6)
    with model.foreground_shifted(-best["foreground_shift"]):
        unshifted = validation.Validator(model, info, config).energy_distance()["ged"]
    assert unshifted >= score - 1e-6


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_and_saves_all(phantom_dir, tmp_path):
    flags = {**DETERMINISTIC, "steps": 5000, "validate_every": 5000, "log_every": 10}
    flags["checkpoint_every"] = 5
    workers = clusters.start_workers(phantom_dir, tmp_path, **flags)
    _wait_for(tmp_path / "checkpoints" / "checkpoint", workers)
    workers[1].send_signal(signal.SIGTERM)
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [143, 143], outputs
    step = int(outputs[0].split("stopped at step ")[1].split()[0])
    assert f"stopped at step {step} of 5000 and saved" in outputs[1]
    assert (tmp_path / "checkpoints" / f"ckpt-{step}.index").exists()


@pytest.mark.slow
def test_an_absent_worker_is_named_and_waiting_can_be_ended(phantom_dir, tmp_path):
    workers = clusters.start_workers(phantom_dir, tmp_path, **DETERMINISTIC)
    workers[1].kill()
    line = ""
    while not line.startswith("waiting for "):
        line = workers[0].stdout.readline()
        assert line, "the worker ended without a word"
    assert line.startswith("waiting for worker 1 (127.0.0.1:")
    workers[0].send_signal(signal.SIGINT)
    outputs = clusters.finish(workers, timeout=30)
    assert workers[0].returncode == 130, outputs
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_workers_with_other_flags_are_refused(phantom_dir, tmp_path):
    workers = clusters.start_workers(
        phantom_dir, tmp_path, each=[{"seed": 0}, {"seed": 1}], **DETERMINISTIC
    )
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [1, 1], outputs
    for output in outputs:
        assert "error: the workers have different flags or data" in output


@pytest.mark.slow
def test_workers_with_other_run_directories_are_refused(alone, phantom_dir, tmp_path):
    steps = {**DETERMINISTIC, "steps": 6}
    each = [{"run_dir": alone}, {"run_dir": tmp_path}]
    workers = clusters.start_workers(phantom_dir, alone, each=each, **steps)
    outputs = clusters.finish(workers)
    assert [worker.returncode for worker in workers] == [1, 1], outputs
    assert "found checkpoints of the steps [6, 0], expected the same" in outputs[1]


def _wait_for(path, workers, seconds=180):
    """Waits for a file that the workers write."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} was not written"
        assert all(worker.poll() is None for worker in workers), "a worker ended"
        time.sleep(0.05)
