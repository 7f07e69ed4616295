"""Locks: one owner at a time, who is named, and whose death sets free."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tf_probunet import locks

_HOLD = """
import sys, time
from tf_probunet import locks
with locks.inside(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """A process that holds the directory `shared`."""
    words = [sys.executable, "-c", _HOLD, str(tmp_path / "shared")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def _write_lock(directory, **changes):
    owner = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "started": "another time",
        "since": "2026-01-02 03:04:05",
        "command": "train.py --steps=3",
    }
    directory.mkdir()
    (directory / locks.NAME).write_text(json.dumps({**owner, **changes}))
    return directory


def test_a_second_command_is_refused_and_told_who_holds_the_directory(other, tmp_path):
    message = (
        rf"^{re.escape(str(tmp_path / 'shared'))}: in use since [-0-9]+ [:0-9]+ by "
        rf"process {other.pid} on {re.escape(socket.gethostname())} \(.*shared\); "
        "wait for its end, or stop it$"
    )
    with pytest.raises(locks.InUseError, match=message):
        with locks.inside(tmp_path / "shared"):
            pass
    assert (tmp_path / "shared" / locks.NAME).exists()


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_killed_owner_is_taken_over_from(other, tmp_path, is_waited_for):
    other.send_signal(signal.SIGKILL)
    # Until somebody has waited for it, the system still lists it.
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    if is_waited_for:
        other.wait()
    assert (tmp_path / "shared" / locks.NAME).exists()
    with locks.inside(tmp_path / "shared"):
        owner = json.loads((tmp_path / "shared" / locks.NAME).read_text())
        assert owner["process"] == os.getpid()
    assert not (tmp_path / "shared" / locks.NAME).exists()


def test_a_process_with_the_owners_number_but_another_start_is_not_the_owner(tmp_path):
    with locks.inside(_write_lock(tmp_path / "a")):
        pass
    assert list((tmp_path / "a").iterdir()) == []


def test_an_owner_that_died_before_it_wrote_is_taken_over_from(tmp_path):
    (tmp_path / locks.NAME).touch()
    with locks.inside(tmp_path):
        pass


def test_a_link_in_place_of_a_lock_is_named(tmp_path):
    (tmp_path / locks.NAME).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError) as caught:
        with locks.inside(tmp_path):
            pass
    assert str(caught.value.filename) == str(tmp_path / locks.NAME)
    assert not (tmp_path / "nowhere").exists()


def test_an_owner_on_another_host_is_not_taken_over_from(tmp_path):
    directory = _write_lock(tmp_path / "a", host="elsewhere", process=7)
    message = (
        rf"by process 7 on elsewhere \(train.py --steps=3\), which can't be checked "
        rf"from .*; if it has ended, remove {re.escape(str(directory / locks.NAME))}$"
    )
    with pytest.raises(locks.InUseError, match=message):
        with locks.inside(directory):
            pass
    assert (directory / locks.NAME).exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"process": "x"}', "[" * 3000])
def test_a_lock_that_cannot_be_read_is_left_alone(text, tmp_path):
    (tmp_path / locks.NAME).write_text(text)
    with pytest.raises(locks.InUseError, match="in use by another command; if there"):
        with locks.inside(tmp_path):
            pass
    assert (tmp_path / locks.NAME).read_text() == text


def test_without_flock_the_file_alone_keeps_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_flock", lambda handle: None)
    with locks.inside(tmp_path / "new"):
        pass
    directory = _write_lock(tmp_path / "a")  # Its owner is dead.
    with pytest.raises(locks.InUseError, match="if it has ended, remove"):
        with locks.inside(directory):
            pass


def test_a_lock_is_gone_after_an_error_and_so_is_a_directory_made_for_it(tmp_path):
    with pytest.raises(KeyError):
        with locks.inside(tmp_path / "a" / "b"):
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_stays(tmp_path):
    with locks.inside(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").touch()
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_the_owner_may_hold_it_once_more_but_no_other_thread(tmp_path):
    found = []

    def try_it():
        try:
            with locks.inside(tmp_path):
                found.append("held")
        except locks.InUseError:
            found.append("refused")

    with locks.inside(tmp_path):
        with locks.inside(tmp_path):
            pass
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    try_it()
    assert found == ["refused", "held"]


def test_a_lock_beside_a_directory_lets_it_be_replaced(tmp_path):
    with locks.beside(tmp_path / "model"):
        assert [p.name for p in tmp_path.iterdir()] == [".model.lock"]
        with pytest.raises(locks.InUseError, match=f"{tmp_path / 'model'}: in use"):
            _in_thread(lambda: locks.beside(tmp_path / "model").__enter__())
    assert list(tmp_path.iterdir()) == []


def test_only_one_of_many_takes_over_from_a_dead_owner(tmp_path):
    _write_lock(tmp_path / "a")
    words = [sys.executable, "-c", _HOLD, str(tmp_path / "a")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(words, **pipes) for _ in range(4)]
    try:
        refused = 0
        while refused < 3:
            refused = sum(process.poll() is not None for process in processes)
        owner = json.loads((tmp_path / "a" / locks.NAME).read_text())["process"]
        (alive,) = (process for process in processes if process.poll() is None)
        assert owner == alive.pid
        assert alive.stdout.readline() == "held\n"
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _in_thread(call):
    raised = []

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]


def _evaluate(path):
    from tf_probunet.evaluation import evaluate

    paths = {"saved_model": "x", "data_dir": "x", "out_dir": str(path)}
    evaluate.evaluate(evaluate.EvaluationConfig(**paths))


def _predict(path):
    from tf_probunet.imaging.crop_config import CropConfig
    from tf_probunet.predict import config, predict

    predict.predict(
        model_path="x",
        inputs=["x"],
        out_dir=path,
        crop=CropConfig(),
        config=config.PredictConfig(),
    )


def _figures(path):
    from tf_probunet.figures import make

    make.make("all", make.Request(), str(path))


def _phantom(path):
    from tf_probunet.config import PhantomConfig
    from tf_probunet.preparation import phantom

    phantom.prepare(PhantomConfig(), path)


def _street_phantom(path):
    from tf_probunet.preparation import street_phantom

    street_phantom.write(path)


def _lidc(path):
    from tf_probunet.preparation.lidc import prepare as lidc

    lidc.prepare("x", path)


@pytest.mark.parametrize(
    "write", [_evaluate, _predict, _figures, _phantom, _street_phantom, _lidc]
)
def test_whatever_writes_a_directory_holds_it(write, tmp_path):
    with locks.inside(tmp_path):
        with pytest.raises(locks.InUseError, match=f"{tmp_path}: in use since"):
            _in_thread(lambda: write(tmp_path))
        assert os.listdir(tmp_path) == [locks.NAME]


def test_a_tflite_file_is_held(tmp_path):
    from tf_probunet.export import tflite

    with locks.beside(tmp_path / "m.tflite"):
        with pytest.raises(locks.InUseError, match="m.tflite: in use since"):
            _in_thread(lambda: tflite.export_tflite("x", tmp_path / "m.tflite"))
