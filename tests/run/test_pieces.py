"""Pieces of work: each is done once, and a stopped one again."""

from __future__ import annotations

import json
import pathlib

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Counts its calls, and fails as long as there is a file that says so.
_SCRIPT = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
with open(path / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[2:]) + "\\n")
sys.exit(130 if (path / "stop").exists() else 0)
"""


@pytest.fixture
def module(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(_ROOT / "run"))
    import _pieces

    (tmp_path / "work.py").write_text(_SCRIPT)
    monkeypatch.setattr(_pieces, "RUN", tmp_path)
    return _pieces


def test_a_piece_is_done_once(module, tmp_path):
    pieces = module.Pieces(tmp_path / "out", {"steps": 3})
    seconds = pieces.run("train", "work.py", tmp_path, "a", "b")
    assert 0 < seconds < 60
    again = module.Pieces(tmp_path / "out", {"steps": 3})
    assert again.run("train", "work.py", tmp_path, "a", "b") == seconds
    assert again.run("export", "work.py", tmp_path, "c") > 0
    assert (tmp_path / "calls").read_text() == "a b\nc\n"


def test_a_piece_that_was_stopped_is_done_again_and_its_time_counts(module, tmp_path):
    (tmp_path / "stop").touch()
    pieces = module.Pieces(tmp_path / "out", {})
    with pytest.raises(SystemExit) as caught:
        pieces.run("train", "work.py", tmp_path)
    assert caught.value.code == 130
    note = json.loads((tmp_path / "out" / "done" / "train.json").read_text())
    assert note["seconds"] > 0 and not note["done"]
    (tmp_path / "stop").unlink()
    assert pieces.run("train", "work.py", tmp_path) > note["seconds"]
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_other_settings_need_another_directory(module, tmp_path):
    module.Pieces(tmp_path / "out", {"steps": 3, "num_members": 2})
    with pytest.raises(ValueError, match="with steps 3, not 4; choose another"):
        module.Pieces(tmp_path / "out", {"steps": 4, "num_members": 2})


def test_results_are_remembered(module, tmp_path):
    pieces = module.Pieces(tmp_path / "out", {})
    assert pieces.remember("time", lambda: {"seconds": 1.5}) == {"seconds": 1.5}
    assert pieces.remember("time", lambda: {"seconds": 2.5}) == {"seconds": 1.5}
