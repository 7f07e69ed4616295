"""Tests of the checksums of a SavedModel's files."""

from __future__ import annotations

import pytest

from tf_probunet.artifacts import checksums


@pytest.fixture
def path(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.json").write_text("{}")
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    checksums.write(tmp_path)
    return tmp_path


def test_files_that_were_not_touched_pass(path):
    checksums.check(path)
    (path / "notes.txt").write_text("mine")  # Others may be added.
    checksums.check(path)


def test_changed_and_missing_files_are_named(path):
    (path / "assets" / "a.json").write_text("[]")
    with pytest.raises(ValueError, match=r"assets/a\.json: damaged SavedModel"):
        checksums.check(path)
    (path / "assets" / "a.json").unlink()
    with pytest.raises(ValueError, match=r"assets/a\.json: damaged SavedModel"):
        checksums.check(path)


def test_older_exports_have_none(path):
    (path / checksums.NAME).unlink()
    (path / "saved_model.pb").write_bytes(b"other")
    checksums.check(path)


def test_the_fingerprint_is_of_names_and_contents(path):
    before = checksums.fingerprint(path)
    assert len(before) == 16 and before == checksums.fingerprint(str(path))
    (path / "saved_model.pb").rename(path / "renamed.pb")
    renamed = checksums.fingerprint(path)
    (path / "renamed.pb").write_bytes(b"other")
    assert len({before, renamed, checksums.fingerprint(path)}) == 3
