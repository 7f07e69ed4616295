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
