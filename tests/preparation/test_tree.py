"""Tests of tf_probunet.preparation.tree."""

from __future__ import annotations

import os
import socket

import pytest

from tf_probunet.preparation import tree


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def reasons(problems):
    return [(problem.reason, problem.where, problem.expected) for problem in problems]


def test_links_are_followed(tmp_path):
    write(tmp_path / "elsewhere", "a/1", "2")
    write(tmp_path / "root", "b/3")
    (tmp_path / "root" / "patient").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "file").symlink_to(tmp_path / "elsewhere" / "2")
    expected = ["b/3", "file", "patient/2", "patient/a/1"]
    assert tree.list_files(tmp_path / "root") == (expected, [])


def test_loops_end_and_each_directory_is_read_once(tmp_path):
    write(tmp_path, "b/c/1")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "c" / "up").symlink_to(tmp_path)
    names, problems = tree.list_files(tmp_path)
    assert names == ["b/c/1"]  # and not a/c/1
    assert reasons(problems) == [
        ("directory that is read already", "a", True),
        ("directory that is read already", "b/c/up", True),
    ]


def test_directory_without_permission_is_reported(tmp_path, monkeypatch):
    write(tmp_path, "a/1", "b/2")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    names, problems = tree.list_files(tmp_path)
    assert names == ["a/1"]
    assert [str(p) for p in problems] == ["b: unreadable directory (Permission denied)"]
    assert not problems[0].expected


def test_what_is_no_regular_file_is_reported(tmp_path, monkeypatch):
    write(tmp_path, "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "broken.dcm").symlink_to("nowhere")
    (tmp_path / "self").symlink_to("self")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        names, problems = tree.list_files(tmp_path)
    assert names == ["a.png"]
    assert [str(p) for p in problems] == [
        "broken.dcm: unreadable link (No such file or directory)",
        "pipe.png: not a regular file (a named pipe, which is not read)",
        "s: not a regular file (a socket, which is not read)",
        "self: unreadable link (Too many levels of symbolic links)",
    ]
    assert not any(problem.expected for problem in problems)


def test_names_that_are_not_utf8_are_reported_as_they_can_be_read(tmp_path):
    write(tmp_path, "a/1")
    os.makedirs(os.fsencode(tmp_path) + b"/M\xfcller/b")
    names, problems = tree.list_files(tmp_path)
    assert names == ["a/1"]
    (problem,) = problems
    assert problem.where == "M\\xfcller" and problem.reason == "name that is not UTF-8"


def test_depth_is_limited(tmp_path):
    write(tmp_path, "1", "a/2", "a/b/3")
    assert tree.list_files(tmp_path, max_depth=2) == (["1", "a/2"], [])


def test_directory_is_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        tree.check_directory(tmp_path / "nowhere")
    (tmp_path / "lidc.zip").write_text("x")
    with pytest.raises(ValueError, match=r"lidc.zip: a file, .*unpack an archive"):
        tree.check_directory(tmp_path / "lidc.zip")
