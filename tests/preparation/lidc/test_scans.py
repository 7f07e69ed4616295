import os

import numpy as np
import pytest
from helpers.dicom_writer import ct_message, write_series, write_slice, xray_message

from tf_probunet.preparation.lidc import scans

PIXELS = [np.zeros((4, 4))] * 3
EMPTY = [[], [], [], []]


def reasons(found):
    return [(problem.reason, problem.where) for problem in found.problems]


def test_series_are_found_by_header_in_any_layout(tmp_path):
    # Two scans of one patient and one of another, all files in one heap of folders.
    for number, (patient, series) in enumerate(
        [
            ("LIDC-IDRI-0002", "1.1"),
            ("LIDC-IDRI-0002", "1.2"),
            ("LIDC-IDRI-0001", "2.1"),
        ]
    ):
        source = tmp_path / "written"
        paths = write_series(
            source, PIXELS, patient=patient, series_uid=series, study_uid=series[0]
        )
        for index, path in enumerate(paths):
            target = tmp_path / "in" / f"folder{index}" / f"{number}-no-extension"
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        (tmp_path / "in" / f"some{number}.XML").write_text(ct_message(EMPTY, series))
    (tmp_path / "in" / "LICENSE").write_text("text")
    found = scans.find_scans(tmp_path / "in")
    assert [(s.patient, s.series_uid, s.annotation_file) for s in found.scans] == [
        ("LIDC-IDRI-0001", "2.1", "some2.XML"),
        ("LIDC-IDRI-0002", "1.1", "some0.XML"),
        ("LIDC-IDRI-0002", "1.2", "some1.XML"),
    ]
    assert [len(scan.headers) for scan in found.scans] == [3, 3, 3]
    assert found.scans[0].headers[1].path == "folder1/2-no-extension"
    assert found.patients == ["LIDC-IDRI-0001", "LIDC-IDRI-0002"]
    assert found.problems == []
    assert found.counts == {
        "CT files": 9,
        "CT annotation files": 3,
        "CT series": 3,
        "other files, ignored": 1,
    }


def test_xray_annotations_are_ignored_without_complaint(tmp_path):
    write_series(tmp_path, PIXELS)
    (tmp_path / "068.xml").write_text(xray_message())
    (tmp_path / "069.xml").write_text(ct_message(EMPTY))
    write_slice(tmp_path / "x.dcm", PIXELS[0], z_mm=0, uid="7", modality="DX")
    found = scans.find_scans(tmp_path)
    assert found.problems == []
    assert [scan.annotation_file for scan in found.scans] == ["069.xml"]
    assert found.counts["X-ray annotation files, ignored"] == 1
    assert found.counts["other files, ignored"] == 1


def test_annotations_are_matched_by_study_if_need_be(tmp_path):
    write_series(tmp_path / "a", PIXELS, series_uid="1.1", study_uid="1")
    (tmp_path / "a.xml").write_text(ct_message(EMPTY, "9.9", study_uid="1"))
    found = scans.find_scans(tmp_path)
    assert [scan.annotation_file for scan in found.scans] == ["a.xml"]


def test_study_of_two_series_matches_nothing(tmp_path):
    write_series(tmp_path / "a", PIXELS, series_uid="1.1", study_uid="1")
    write_series(tmp_path / "b", PIXELS, series_uid="1.2", study_uid="1")
    (tmp_path / "a.xml").write_text(ct_message(EMPTY, "9.9", study_uid="1"))
    found = scans.find_scans(tmp_path)
    assert found.scans == []
    assert reasons(found) == [
        ("annotation file without its CT series", "a.xml"),
        ("CT series without an annotation file", "a"),
        ("CT series without an annotation file", "b"),
    ]
    assert found.patients == ["LIDC-IDRI-0001"]  # still part of the split


def test_second_annotation_file_is_reported(tmp_path):
    write_series(tmp_path, PIXELS)
    for name in ("b.xml", "a.xml"):
        (tmp_path / name).write_text(ct_message(EMPTY))
    found = scans.find_scans(tmp_path)
    assert [scan.annotation_file for scan in found.scans] == ["a.xml"]
    assert reasons(found) == [("second annotation file of a series", "b.xml")]


def test_series_of_two_patients_is_refused(tmp_path):
    write_series(tmp_path / "a", PIXELS)
    write_slice(tmp_path / "b", PIXELS[0], z_mm=9, uid="7", patient="LIDC-IDRI-0002")
    (tmp_path / "a.xml").write_text(ct_message(EMPTY))
    found = scans.find_scans(tmp_path)
    assert found.scans == []
    assert found.problems[0].reason == "series of several patients"


def test_damaged_files_are_reported_with_their_name(tmp_path):
    write_series(tmp_path, PIXELS)
    (tmp_path / "069.xml").write_text(ct_message(EMPTY))
    (tmp_path / "bad.xml").write_text("<LidcReadMessage>")
    (tmp_path / "evil.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    found = scans.find_scans(tmp_path)
    assert len(found.scans) == 1
    assert reasons(found) == [
        ("unreadable file", "bad.xml"),
        ("unreadable file", "evil.xml"),
    ]


def test_processes_find_the_same(tmp_path, monkeypatch):
    write_series(tmp_path / "in", PIXELS)
    (tmp_path / "in" / "a.xml").write_text(ct_message(EMPTY))
    expected = scans.find_scans(tmp_path / "in")
    monkeypatch.setattr(scans, "_FILES_PER_TASK", 2)
    assert scans.find_scans(tmp_path / "in", num_workers=2) == expected


def test_input_must_hold_ct(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        scans.find_scans(tmp_path / "nowhere")
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match="expected DICOM files of CT scans, found"):
        scans.find_scans(tmp_path)


def test_linked_patients_are_found(tmp_path):
    write_series(tmp_path / "disk2", PIXELS)
    (tmp_path / "disk2" / "069.xml").write_text(ct_message(EMPTY))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "LIDC-IDRI-0001").symlink_to(tmp_path / "disk2")
    found = scans.find_scans(tmp_path / "in")
    (scan,) = found.scans
    assert scan.annotation_file == "LIDC-IDRI-0001/069.xml"
    assert len(scan.headers) == 3 and found.problems == []


def test_files_that_are_not_what_their_name_says_are_reported(tmp_path):
    write_series(tmp_path, PIXELS)
    (tmp_path / "069.xml").write_text(ct_message(EMPTY))
    (tmp_path / "a.dcm").write_bytes(b"")
    (tmp_path / "b.DCM").write_bytes(b"garbage" * 100)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 526000\n"
    (tmp_path / "c.dcm").write_text(pointer)
    os.mkfifo(tmp_path / "d.dcm")
    os.mkfifo(tmp_path / "e.xml")
    found = scans.find_scans(tmp_path)
    assert [str(problem) for problem in found.problems] == [
        "d.dcm: not a regular file (a named pipe, which is not read)",
        "e.xml: not a regular file (a named pipe, which is not read)",
        "a.dcm: unreadable file (an empty file, expected DICOM)",
        "b.DCM: unreadable file (expected DICOM, found something else)",
        "c.dcm: unreadable file (a pointer of Git LFS, expected DICOM; fetch the file "
        "with git lfs pull)",
    ]
    assert "other files, ignored" not in found.counts


def test_reasons_are_told_when_no_slice_can_be_read(tmp_path):
    for name in ("a.dcm", "b.dcm"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(
        ValueError,
        match=r"found none among 2 files; 2 problems: 2 x unreadable "
        r"file, the first a.dcm \(an empty file, expected DICOM\)$",
    ):
        scans.find_scans(tmp_path)


def test_annotations_alone_are_told(tmp_path):
    (tmp_path / "a.xml").write_text(ct_message(EMPTY))
    with pytest.raises(
        ValueError, match=r"found none among 1 files, only 1 annotation files \(XML\)$"
    ):
        scans.find_scans(tmp_path)


def test_one_process_shows_how_far_it_is(tmp_path, capsys):
    write_series(tmp_path, PIXELS)
    scans.find_scans(tmp_path, num_workers=1)
    assert "reading headers: 3/3" in capsys.readouterr().err
