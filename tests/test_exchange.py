"""Results are exchanged together, whatever happens in the middle."""

from __future__ import annotations

import os

import pytest

from tf_probunet import exchange


class Killed(BaseException):
    """Stands for the death of the process: nothing cleans up behind it."""


@pytest.fixture
def results(tmp_path):
    """A directory with old results of a and b, an overview, and a bystander."""
    for name in ("a", "b", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels").write_text("old")
    (tmp_path / "summary").write_text("old")
    return tmp_path


def _write_new(results):
    with exchange.staged(results, "predict", last="summary") as staging:
        for name in ("a", "b"):
            (staging.new / name).mkdir()
            (staging.new / name / "labels").write_text("new")
        (staging.new / "summary").write_text("new")
        (staging.scratch / "draft").write_text("x")


def _contents(results):
    paths = sorted(p for p in results.rglob("*") if p.is_file())
    return {str(p.relative_to(results)): p.read_text() for p in paths}


def _all(age):
    return {
        "a/labels": age,
        "b/labels": age,
        "other/labels": "old",
        "summary": age,
    }


def test_all_names_are_exchanged_and_nothing_else(results):
    _write_new(results)
    assert _contents(results) == _all("new")
    assert len(list(results.iterdir())) == 4


def test_after_an_error_all_is_as_before(results):
    with pytest.raises(KeyError):
        with exchange.staged(results, "predict") as staging:
            (staging.new / "a").mkdir()
            raise KeyError
    assert _contents(results) == _all("old")
    assert len(list(results.iterdir())) == 4


@pytest.mark.parametrize("renames", range(7))
def test_killed_in_the_exchange_it_is_completed_by_the_next(
    results, renames, monkeypatch
):
    rename, left = os.rename, renames

    def rename_a_few(source, target):
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(exchange.os, "rename", rename_a_few)
        if renames < 6:
            with pytest.raises(Killed):
                _write_new(results)
            # A reader is never shown the old overview over new results.
            torn = {k: v for k, v in _contents(results).items() if k[0] != "."}
            assert torn == _all("old") or "summary" not in torn
        else:
            _write_new(results)
    exchange.recover(results, "predict")
    assert _contents(results) == _all("new")
    assert len(list(results.iterdir())) == 4


def test_a_signal_in_the_exchange_does_not_stop_it(results, monkeypatch):
    rename, calls = os.rename, []

    def interrupted(source, target):
        calls.append(source)
        if len(calls) == 3:
            raise SystemExit(143)
        rename(source, target)

    monkeypatch.setattr(exchange.os, "rename", interrupted)
    with pytest.raises(SystemExit):
        _write_new(results)
    assert _contents(results) == _all("new")
    assert len(list(results.iterdir())) == 4


def test_killed_before_the_exchange_it_leaves_what_the_next_removes(results):
    stale = results / ".predict.ab_12xyz"
    (stale / "new" / "a").mkdir(parents=True)
    exchange.recover(results, "predict")
    assert not stale.exists()
    assert _contents(results) == _all("old")


def test_what_is_no_staging_directory_stays(results):
    for name in (".predict.settings", ".predict.abc", ".other.abcdefgh"):
        (results / name).mkdir()
        (results / name / "mine").touch()
    (results / ".predict.afileabc").touch()
    before = sorted(results.rglob("*"))
    exchange.recover(results, "predict")
    assert sorted(results.rglob("*")) == before
    exchange.recover(results, "predict", by_name=True)
    assert not (results / ".predict.settings").exists()
    assert (results / ".predict.abc" / "mine").exists()


def test_a_journal_can_not_reach_out_of_the_directory(results):
    stale = results / ".predict.ab_12xyz"
    stale.mkdir()
    (stale / "journal.json").write_text('{"names": ["../x"]}')
    with pytest.raises(ValueError, match=r"journal.json: has the name '../x'"):
        exchange.recover(results, "predict")
