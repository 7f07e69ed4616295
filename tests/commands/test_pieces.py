"""Pieces of work: each is done once, and a stopped one again."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import tf_probunet
from tf_probunet.artifacts import pretrained
from tf_probunet.commands.pieces import Pieces

# Counts its calls, and fails as long as there is a file that says so.
_SCRIPT = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
with open(path / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[2:]) + "\\n")
sys.exit(130 if (path / "stop").exists() else 0)
"""
# Ends when the other one runs as well, and says how many threads it may have.
_MEETING = """
import os, pathlib, sys, time
path, mine, other = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
(path / mine).touch()
until = time.monotonic() + 60
while not (path / other).exists():
    if time.monotonic() > until:
        sys.exit("the other one did not come")
    time.sleep(0.01)
print("threads", os.environ["TF_NUM_INTRAOP_THREADS"])
"""


@pytest.fixture
def work(tmp_path):
    """A script that notes each call."""
    path = tmp_path / "work.py"
    path.write_text(_SCRIPT)
    return path


def test_a_piece_is_done_once(work, tmp_path):
    pieces = Pieces(tmp_path / "out", {"steps": 3})
    seconds = pieces.run("train", work, tmp_path, "a", "b")
    assert 0 < seconds < 60
    again = Pieces(tmp_path / "out", {"steps": 3})
    assert again.run("train", work, tmp_path, "a", "b") == seconds
    exported = again.run("export", work, tmp_path, "c")
    assert exported > 0 and again.seconds == seconds + exported
    assert (tmp_path / "calls").read_text() == "a b\nc\n"


def test_a_piece_that_was_stopped_is_done_again_and_its_time_counts(work, tmp_path):
    (tmp_path / "stop").touch()
    pieces = Pieces(tmp_path / "out", {})
    with pytest.raises(SystemExit) as caught:
        pieces.run("train", work, tmp_path)
    assert caught.value.code == 130
    note = json.loads((tmp_path / "out" / "done" / "train.json").read_text())
    assert note["seconds"] > 0 and not note["done"]
    (tmp_path / "stop").unlink()
    assert pieces.run("train", work, tmp_path) > note["seconds"]
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_a_piece_with_other_flags_needs_another_directory(work, tmp_path):
    flag_file = tmp_path / "some.flags"
    flag_file.write_text("--steps=4\n")
    words = ("train", work, tmp_path, f"--flagfile={flag_file}", "--beta=1")
    Pieces(tmp_path / "out", {}).run(*words)
    Pieces(tmp_path / "out", {}).run(*words)
    with pytest.raises(ValueError, match="--beta=1 instead of --beta=2; choose anoth"):
        Pieces(tmp_path / "out", {}).run(*words[:-1], "--beta=2")
    flag_file.write_text("--steps=8\n")
    with pytest.raises(ValueError, match="train was .* --steps=4 instead of --steps=8"):
        Pieces(tmp_path / "out", {}).run(*words)


def test_other_settings_need_another_directory(tmp_path):
    Pieces(tmp_path / "out", {"steps": 3, "num_members": 2})
    with pytest.raises(ValueError, match="with steps 3, not 4; choose another"):
        Pieces(tmp_path / "out", {"steps": 4, "num_members": 2})


def test_results_are_remembered(tmp_path):
    pieces = Pieces(tmp_path / "out", {})
    assert pieces.remember("time", lambda: {"seconds": 1.5}) == {"seconds": 1.5}
    assert pieces.remember("time", lambda: {"seconds": 2.5}) == {"seconds": 1.5}


def test_pieces_side_by_side_run_at_the_same_time(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    (tmp_path / "meet.py").write_text(_MEETING)
    pieces = Pieces(tmp_path / "out", {}, jobs=2)

    def task(mine, other):
        seconds = pieces.run(mine, tmp_path / "meet.py", tmp_path, mine, other)
        return mine, seconds

    done = pieces.side_by_side([lambda: task("a", "b"), lambda: task("b", "a")])
    assert [name for name, _ in done] == ["a", "b"]
    printed = capsys.readouterr().out
    assert "a: done in " in printed and "threads" not in printed
    for name in "ab":
        log = tmp_path / "out" / "logs" / f"{name}.log"
        assert log.read_text() == "threads 3\n"


def test_after_a_failure_no_more_pieces_are_begun(work, tmp_path, capsys):
    (tmp_path / "stop").touch()
    pieces = Pieces(tmp_path / "out", {})
    tasks = [lambda: pieces.run("one", work, tmp_path, "a")]
    tasks.append(lambda: pieces.run("two", work, tmp_path, "b"))
    with pytest.raises(SystemExit) as caught:
        pieces.side_by_side(tasks)
    assert caught.value.code == 130
    assert (tmp_path / "calls").read_text() == "a\n"


def test_two_commands_on_one_directory_are_kept_apart(tmp_path):
    Pieces(tmp_path / "out", {})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(Pieces, tmp_path / "out", {})
        with pytest.raises(ValueError, match=f"{tmp_path / 'out'}: in use since"):
            other.result()


@pytest.mark.parametrize("is_installed", [False, True])
def test_a_piece_runs_this_package(is_installed, tmp_path, monkeypatch, capfd):
    # Another package of the same name is nearer, and this one is not on the path.
    (tmp_path / "tf_probunet").mkdir()
    (tmp_path / "tf_probunet" / "__init__.py").write_text("raise SystemExit('other')")
    root = pathlib.Path(tf_probunet.__file__).resolve().parents[1]
    if is_installed:
        monkeypatch.setattr(pretrained, "checkout", lambda: None)
        monkeypatch.setenv("PYTHONPATH", str(root))
    else:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Pieces(tmp_path / "out", {}).run("help", "prepare_phantom", "--help")
    script = os.path.relpath(root / "run" / "prepare_phantom.py")
    typed = "-m tf_probunet prepare_phantom" if is_installed else script
    printed = capfd.readouterr().out
    assert f"$ python {typed} --help\nWrites phantom" in printed


# As a command with pieces of work, one of which waits for its end.
_WAITING = """
import pathlib, sys
from tf_probunet.commands import cli, pieces
path = pathlib.Path(sys.argv.pop(1))
def main():
    work = pieces.Pieces(path / "out", {}, 2)
    wait = lambda: work.run("wait", path / "wait.py", path)
    work.side_by_side([wait]) if JOBS else wait()
cli.start(main)
"""
_WAIT = """
import pathlib, signal, sys, time
path = pathlib.Path(sys.argv[1])
def stop(number, frame):
    (path / "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
(path / "started").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_signal_is_handed_on_to_the_pieces(side_by_side, tmp_path):
    (tmp_path / "wait.py").write_text(_WAIT)
    script = _WAITING.replace("JOBS", str(side_by_side))
    words = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "started").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate()
    assert process.returncode == 143, stderr
    assert "stopped by SIGTERM" in stderr
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "out" / ".lock").exists()
