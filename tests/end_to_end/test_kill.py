"""Commands that are killed again and again end with what they end with undisturbed."""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets, processes

pytestmark = pytest.mark.slow

_SEED = 20
_PHANTOM = (
    "--image_size=32 --num_train=600 --num_val=24 --num_test=520 --num_workers=1"
).split()
_TRAINING = (
    "--base_channels=4 --num_scales=2 --convs_per_block=1 --latent_dim=2 "
    "--crop_size=16 --eval_size=16 --elastic_std_px=0.5 --ema_decay=0.9 "
    "--learning_rate=1e-3 --batch_size=4 --steps=60 --log_every=5 "
    "--checkpoint_every=3 --validate_every=10 --validation_images=4 "
    "--validation_samples=2"
).split()

_PREDICTION = ["--num_samples=2", "--overwrite"]


@dataclasses.dataclass
class Command:
    """A command that writes to a directory, undisturbed once, and then killed.

    Attributes:
        script: of run/.
        flags: all but that of the directory.
        target: the flag of the directory.
        expected: the directory of the undisturbed run.
        seconds: that run's.
    """

    script: str
    flags: list[str]
    target: str
    expected: pathlib.Path
    seconds: float = 0.0

    def start(self, directory: pathlib.Path):
        return processes.start(self.script, *self.flags, f"{self.target}={directory}")

    def run_undisturbed(self) -> None:
        start = time.monotonic()
        processes.finish(self.start(self.expected))
        self.seconds = time.monotonic() - start


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The commands, each of which has run undisturbed."""
    base = tmp_path_factory.mktemp("undisturbed")
    data, run, saved = base / "data", base / "run", base / "saved"
    preparation = Command("prepare_phantom.py", _PHANTOM, "--out_dir", data)
    training = Command("train.py", [*_TRAINING, f"--data_dir={data}"], "--run_dir", run)
    evaluation = Command(
        "evaluate.py",
        [f"--saved_model={saved}", f"--data_dir={data}", "--num_samples=1,4"],
        "--out_dir",
        base / "results",
    )
    export = Command(
        "export.py", [f"--run_dir={run}", "--overwrite"], "--out_dir", saved
    )
    rng, images = np.random.default_rng(_SEED), base / "images"
    images.mkdir()
    for i in range(6):
        np.save(images / f"{i}.npy", rng.uniform(-1000, 1000, [32, 32]))
    prediction = Command(
        "predict.py",
        [f"--saved_model={saved}", f"--input={images}", *_PREDICTION],
        "--out_dir",
        base / "predictions",
    )
    found = {
        "prepare": preparation,
        "train": training,
        "export": export,
        "evaluate": evaluation,
        "predict": prediction,
    }
    for command in found.values():
        command.run_undisturbed()
    return found


@dataclasses.dataclass
class Toll:
    """How often a process was killed, and how often while it was writing."""

    kills: int = 0
    torn: int = 0


def _kill_often(
    command: Command,
    directory: pathlib.Path,
    rng: random.Random,
    *,
    kills: int,
    most_files: int,
    is_finished: Callable[[pathlib.Path], bool],
    compare: Callable[[pathlib.Path, pathlib.Path], None],
) -> Toll:
    """Starts a command again and again until it is through, and compares the result.

    Every third time it is killed at any moment, else while it writes one of the next
    few files. If it is through too early, it begins anew elsewhere.
    """
    toll, place = Toll(), directory / "0"
    for i in itertools.count():
        if toll.kills < kills:
            number = rng.randint(0, most_files)
            moment = processes.while_writing(place.parent, number)
            if i % 3 == 2:
                moment = processes.after(rng.uniform(0.05, 0.8) * command.seconds)
            killed = processes.kill(command.start(place), moment)
            toll.kills += killed
            toll.torn += killed and any(processes.unfinished(place.parent))
        elif not is_finished(place):
            processes.finish(command.start(place))
        if is_finished(place):
            compare(place, command.expected)
            if toll.kills >= kills:
                return toll
            place = directory / str(i + 1)


def _is_prepared(directory):
    return (directory / "report.txt").exists() and not (directory / ".parts").exists()


def _is_trained(directory):
    path = tf.train.latest_checkpoint(str(directory / "checkpoints"))
    return path is not None and path.endswith("-60")


def _is_evaluated(directory):
    return (directory / "results.json").exists()


def _is_exported(directory):
    return (directory / "saved_model.pb").exists() and not _leftovers(directory.parent)


def _is_predicted(directory):
    return (directory / "summary.json").exists() and not _leftovers(directory)


def _leftovers(directory):
    """Returns what only a command that is at work, or was killed, has there."""
    return [path.name for path in directory.iterdir() if path.name.startswith(".")]


def _variables(directory):
    """Returns all variables of the last checkpoint in a directory."""
    reader = tf.train.load_checkpoint(str(directory))
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    return {name: reader.get_tensor(name) for name in names}


def _assert_same_variables(directory, expected, *, but=()):
    found, wanted = _variables(directory), _variables(expected)
    assert set(found) == set(wanted)
    for name in sorted(set(wanted) - set(but)):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def _assert_same_run(directory, expected):
    for name in ("checkpoints", "best"):
        _assert_same_variables(directory / name, expected / name)
        files = [
            sorted(p.name for p in (d / name).iterdir()) for d in (directory, expected)
        ]
        assert files[0] == files[1]
    for name in ("config.json", "dataset.json", "best.json"):
        assert (directory / name).read_bytes() == (expected / name).read_bytes()


def _assert_same_results(directory, expected):
    results = []
    for path in (directory, expected):
        results.append(json.loads((path / "results.json").read_text()))
        del results[-1]["command"]  # Which names the directory.
    assert results[0] == results[1]
    for name in ("per_image.npz", "samples.npz"):
        with np.load(directory / name) as found, np.load(expected / name) as wanted:
            assert sorted(found) == sorted(wanted)
            for array in wanted:
                np.testing.assert_array_equal(found[array], wanted[array])


def _assert_same_dataset(directory, expected):
    assert datasets.contents(directory) == datasets.contents(expected)


def _assert_same_export(directory, expected):
    """All but the graph, whose parts TensorFlow orders differently every time."""
    names = [datasets.contents(path).keys() for path in (directory, expected)]
    assert names[0] == names[1]
    for name in ("config.json", "dataset.json", "metadata.json", "README.md"):
        asset = pathlib.Path("assets", name)
        assert (directory / asset).read_bytes() == (expected / asset).read_bytes()
    found, wanted = (
        _variables(path / "variables" / "variables") for path in (directory, expected)
    )
    assert set(found) == set(wanted)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_killed_commands_end_as_if_nothing_had_happened(commands, tmp_path):
    rng, tolls = random.Random(_SEED), {}
    for name, kills, most_files, is_finished, compare in (
        ("prepare", 8, 6, _is_prepared, _assert_same_dataset),
        ("train", 8, 12, _is_trained, _assert_same_run),
        ("export", 6, 4, _is_exported, _assert_same_export),
        ("evaluate", 6, 1, _is_evaluated, _assert_same_results),
        ("predict", 8, 9, _is_predicted, _assert_same_dataset),
    ):
        tolls[name] = _kill_often(
            commands[name],
            tmp_path / name,
            rng,
            kills=kills,
            most_files=most_files,
            is_finished=is_finished,
            compare=compare,
        )
        assert tolls[name].torn >= 1, tolls
    print(f"kills: {tolls}")
    assert sum(toll.kills for toll in tolls.values()) >= 30, tolls


def test_workers_of_a_killed_preparation_end_with_it(commands, tmp_path):
    command = commands["prepare"]
    words = [*_PHANTOM, "--num_workers=2", f"--out_dir={tmp_path}"]
    process = processes.start(command.script, *words, start_new_session=True)
    assert processes.kill(process, processes.while_writing(tmp_path, 3))
    deadline = time.monotonic() + 60
    while processes.members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes.members(process.pid) == []
    processes.finish(command.start(tmp_path))
    _assert_same_dataset(tmp_path, command.expected)


def _wait_for(pattern, directory, process):
    while not list(directory.glob(pattern)) and process.poll() is None:
        time.sleep(0.001)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_training_saves_and_goes_on(commands, tmp_path, number):
    command = commands["train"]
    process = command.start(tmp_path)
    _wait_for("checkpoints/*.index", tmp_path, process)
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert process.returncode == 128 + number, stderr
    assert _leftovers(tmp_path) == []
    step = int(stdout.split("stopped at step ")[1].split()[0])
    assert 3 <= step < 60
    assert tf.train.latest_checkpoint(f"{tmp_path}/checkpoints").endswith(f"-{step}")
    processes.finish(command.start(tmp_path))
    # The run was saved once more often.
    counter = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    _assert_same_variables(
        tmp_path / "checkpoints", command.expected / "checkpoints", but=[counter]
    )
    _assert_same_variables(tmp_path / "best", command.expected / "best", but=[counter])


def test_training_saves_when_its_terminal_is_closed(commands, tmp_path):
    command = commands["train"]
    terminal, inside = pty.openpty()
    # No other reason to save, and no end.
    endless = [f"--{name}=100000" for name in ("steps", "checkpoint_every")]
    endless += ["--validate_every=100000", f"--run_dir={tmp_path}"]
    process = processes.start(
        command.script,
        *command.flags,
        *endless,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(inside)
    shown = b""
    while b"loss" not in shown:  # The progress line, after the first step.
        shown += os.read(terminal, 1024)
    os.close(terminal)
    assert process.wait() == 128 + signal.SIGHUP
    assert tf.train.latest_checkpoint(f"{tmp_path}/checkpoints") is not None
    assert _leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "name, moment",
    [("export", ".out.*/scratch/*"), ("predict", "out/.predict.*/new/*")],
)
def test_terminated_commands_leave_nothing_behind(commands, tmp_path, name, moment):
    process = commands[name].start(tmp_path / "out")
    _wait_for(moment, tmp_path, process)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, stderr
    assert "stopped by SIGTERM\n" in stderr
    assert list(tmp_path.iterdir()) == []


# Runs a command that kills itself instead of renaming for the n-th time, from 0 on.
_KILLED_AT = """
import os, runpy, signal, sys
left, rename = int(sys.argv[1]), os.rename
def rename_or_die(source, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    rename(source, target)
os.rename = rename_or_die
sys.argv[:2] = []
sys.path.insert(0, "run")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_predictions_are_exchanged_all_or_none(commands, tmp_path):
    """Killed in the exchange: the next command, which fails, completes it."""
    command, place = commands["predict"], tmp_path / "place"
    other = dataclasses.replace(command, flags=[*command.flags, "--seed=7"])
    processes.finish(other.start(tmp_path / "old"))
    new = datasets.contents(command.expected)
    assert datasets.contents(tmp_path / "old") != new
    for renames in (0, 3, 8, 13):  # Of 14: 7 old names go, 7 new ones come.
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "old", place)
        words = [f"run/{command.script}", *command.flags, f"--out_dir={place}"]
        words = [sys.executable, "-c", _KILLED_AT, str(renames), *words]
        killed = subprocess.run(words, cwd=processes.ROOT, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert len(_leftovers(place)) == 2  # The new results, and the lock.
        failing = ["--input=missing.npy", f"--out_dir={place}"]
        process = processes.start(command.script, command.flags[0], *failing)
        process.communicate()
        assert process.returncode == 1
        assert datasets.contents(place) == new
