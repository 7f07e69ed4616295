import dataclasses
import io
from unittest import mock

import numpy as np
import pydicom
import pytest
from helpers.dicom_writer import DEFAULT_SERIES, DEFAULT_STUDY, write_slice

from tf_probunet import files
from tf_probunet.imaging import dicom
from tf_probunet.imaging.dicom import SliceHeader

# Includes odd and negative values; 6 x 10, so that swapped axes show.
HOUNSFIELD = (np.arange(60).reshape(6, 10) * 37 - 1024).astype(np.int16)


def header(index, z_mm, location=None, **changes):
    values = SliceHeader(
        path=f"series/{index:03d}.dcm",
        patient="p",
        study_uid="1",
        series_uid="1.1",
        sop_uid=f"1.1.{index}",
        z_mm=z_mm,
        slice_location_mm=location,
        instance_number=index,
        shape=(512, 512),
    )
    return dataclasses.replace(values, **changes)


def reasons(problems):
    return [problem.reason for problem in problems]


def test_header_is_read(tmp_path):
    path = write_slice(
        tmp_path / "a", HOUNSFIELD, z_mm=-12.5, uid="1.9", slice_location=12.5
    )
    assert dicom.read_header(path, "x/a") == SliceHeader(
        path="x/a",
        patient="LIDC-IDRI-0001",
        study_uid=DEFAULT_STUDY,
        series_uid=DEFAULT_SERIES,
        sop_uid="1.9",
        z_mm=-12.5,
        slice_location_mm=12.5,
        instance_number=1,
        shape=(6, 10),
    )


def test_header_without_optional_values(tmp_path):
    path = write_slice(
        tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1.9", instance_number=None
    )
    found = dicom.read_header(path, "a")
    assert found.slice_location_mm is None and found.instance_number == 0


def test_other_files_have_no_header(tmp_path):
    xray = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1", modality="DX")
    assert dicom.read_header(xray, "a") is None
    text = tmp_path / "LICENSE"
    text.write_text("Creative Commons\n" * 50)
    assert dicom.read_header(text, "LICENSE") is None
    (tmp_path / "empty.dcm").touch()
    assert dicom.read_header(tmp_path / "empty.dcm", "empty.dcm") is None


@pytest.mark.filterwarnings("ignore")
def test_truncated_headers_are_refused_or_incomplete(tmp_path):
    whole = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1.9").read_bytes()
    expected = dicom.read_header(tmp_path / "a", "cut")
    refused = 0
    for length in range(130, len(whole) - HOUNSFIELD.nbytes, 7):
        (tmp_path / "cut").write_bytes(whole[:length])
        try:
            assert dicom.read_header(tmp_path / "cut", "cut") in (None, expected)
        except ValueError as error:
            assert str(error).startswith("cut: ")
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("syntax", ["explicit", "implicit", "rle"])
@pytest.mark.parametrize(
    "storage",
    [
        {"signed": True, "intercept": -1024},  # GE
        {"signed": False, "intercept": -1024},  # Siemens
        {"signed": False, "intercept": -1000, "hounsfield": HOUNSFIELD + 24},  # Philips
        {"signed": True, "intercept": 0},
        {"signed": True, "intercept": -1024, "slope": 0.5},
    ],
)
def test_pixels_in_hounsfield_units(tmp_path, syntax, storage):
    storage = dict(storage)
    expected = storage.pop("hounsfield", HOUNSFIELD)
    path = write_slice(
        tmp_path / "a",
        expected,
        z_mm=1,
        uid="1",
        syntax=syntax,
        spacing_mm=(0.7, 0.8),
        **storage,
    )
    image, spacing_mm = dicom.read_pixels(path, "a")
    assert image.dtype == np.int16
    np.testing.assert_array_equal(image, expected)
    assert spacing_mm == (0.7, 0.8)


def test_values_are_clipped(tmp_path):
    # -3024 is GE's padding: -2000 stored, intercept -1024.
    values = np.array([[-3024, -1025, -1024, 3071]])
    path = write_slice(tmp_path / "a", values, z_mm=1, uid="1")
    image, _ = dicom.read_pixels(path, "a")
    assert image.tolist() == [[-1024, -1024, -1024, 3071]]
    path = write_slice(
        tmp_path / "b", [[65535, 0]], z_mm=1, uid="1", signed=False, intercept=0
    )
    image, _ = dicom.read_pixels(path, "b")
    assert image.tolist() == [[32767, 0]]


@pytest.mark.filterwarnings("ignore")
def test_unreadable_pixels_name_the_file(tmp_path):
    whole = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1").read_bytes()
    (tmp_path / "a").write_bytes(whole[:-40])
    with pytest.raises(ValueError, match="^s/a: cannot read the CT slice"):
        dicom.read_pixels(tmp_path / "a", "s/a")
    path = write_slice(tmp_path / "b", HOUNSFIELD, z_mm=1, uid="1", spacing_mm=(0, 0.7))
    with pytest.raises(ValueError, match=r"b: PixelSpacing \(0.0, 0.7\), expected"):
        dicom.read_pixels(path, "b")


@pytest.mark.filterwarnings("ignore")
def test_unknown_compression_is_refused(tmp_path):
    whole = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1").read_bytes()
    # A made-up transfer syntax of the same length as explicit little endian.
    damaged = whole.replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.9\0")
    assert damaged != whole
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(ValueError, match="^a: cannot read the CT slice"):
        dicom.read_pixels(tmp_path / "a", "a")


def test_stack_is_sorted_by_position():
    stack, problems = dicom.stack_slices(
        [header(1, -3.0), header(2, -5.0), header(3, -4.0)]
    )
    assert [h.z_mm for h in stack.slices] == [-5, -4, -3]
    assert stack.position_by_uid == {"1.1.2": 0, "1.1.3": 1, "1.1.1": 2}
    assert problems == []


def test_slice_location_rule():
    stack, problems = dicom.stack_slices(
        [
            header(1, -10.0, -10.0),
            header(2, -11.0, 11.0),  # the sign alone differs: kept
            header(3, -12.0, None),  # no SliceLocation: kept
            header(4, -13.0, -13.004),  # rounding: kept
            header(5, -14.0, 1414.0),
            header(6, -15.0, -15.5),
        ]
    )
    assert [h.sop_uid for h in stack.slices] == ["1.1.4", "1.1.3", "1.1.2", "1.1.1"]
    assert stack.dropped_uids == {"1.1.5", "1.1.6"}
    assert reasons(problems) == ["SliceLocation differs from the position"] * 2
    assert [p.where for p in problems] == ["series/005.dcm", "series/006.dcm"]
    assert "|SliceLocation| 1414, expected" in problems[0].detail


def test_duplicate_files_count_once():
    copy = header(1, 1.0, path="series/copy.dcm")
    stack, problems = dicom.stack_slices([copy, header(1, 1.0), header(2, 2.0)])
    assert [h.path for h in stack.slices] == ["series/001.dcm", "series/002.dcm"]
    assert [(p.reason, p.where) for p in problems] == [
        ("duplicate file", "series/copy.dcm")
    ]


def test_second_slice_at_a_position_leads_to_the_first():
    stack, problems = dicom.stack_slices(
        [header(9, 1.0), header(1, 1.0), header(2, 2.0)]
    )
    assert [h.sop_uid for h in stack.slices] == ["1.1.1", "1.1.2"]
    assert stack.position_by_uid == {"1.1.1": 0, "1.1.9": 0, "1.1.2": 1}
    assert reasons(problems) == ["second slice at the same position"]


def test_missing_slices_are_reported_once():
    positions = [0, 1, 2, 5, 6, 7, 9, 10]  # 3, 4 and 8 are missing
    stack, problems = dicom.stack_slices(
        [header(i, float(z)) for i, z in enumerate(positions)]
    )
    assert len(stack.slices) == 8
    (problem,) = problems
    assert problem.reason == "slices missing" and problem.where == "series"
    assert problem.detail == "2 gaps of about 3 slices in all among 8, 1 mm apart"


def test_many_missing_slices_are_counted_by_the_slice_distance():
    # Every eighth slice and a few neighbours: most steps are 8 mm, slices 1 mm apart.
    positions = [*range(0, 120, 8), 1, 50, 122]
    headers = [header(z, float(z), path=f"s/{z:03d}") for z in positions]
    (problem,) = dicom.stack_slices(headers)[1]
    gaps, missing = 16, 123 - len(positions)
    assert problem.detail == (
        f"{gaps} gaps of about {missing} slices in all among 18, 1 mm apart"
    )
    # Also where the files are numbered anew: some steps are no multiple of 8.
    again = [
        dataclasses.replace(h, instance_number=number)
        for number, h in enumerate(sorted(headers, key=lambda h: h.z_mm))
    ]
    assert f"{missing} slices" in dicom.stack_slices(again)[1][0].detail


def test_missing_slices_are_counted_by_number_where_no_two_are_neighbours():
    headers = [header(z, 2.5 * z) for z in (0, 5, 12, 21, 26, 35)]
    (problem,) = dicom.stack_slices(headers)[1]
    assert problem.detail == "5 gaps of about 30 slices in all among 6, 2.5 mm apart"


@pytest.mark.parametrize("stride", [0, 1, 2, 1000])
def test_numbers_may_have_any_stride(stride):
    headers = [
        header(z, 2.5 * z, instance_number=stride * z) for z in (0, 1, 2, 3, 5, 6)
    ]
    (problem,) = dicom.stack_slices(headers)[1]
    assert problem.detail == "1 gaps of about 1 slices in all among 6, 2.5 mm apart"
    assert dicom.stack_slices(headers[:4])[1] == []


def test_slices_dropped_by_the_rule_are_not_missing():
    headers = [header(i, float(i), i + 100.0 if i == 3 else None) for i in range(6)]
    stack, problems = dicom.stack_slices(headers)
    assert reasons(problems) == ["SliceLocation differs from the position"]
    assert len(stack.slices) == 5 and problems[0].expected
    stack, problems = dicom.stack_slices(headers, keep_mismatch=True)
    assert reasons(problems) == ["SliceLocation differs from the position, kept"]
    assert len(stack.slices) == 6 and stack.dropped_uids == frozenset()


def test_four_kilobytes_are_read_of_a_header(tmp_path, monkeypatch):
    path = write_slice(tmp_path / "a", np.zeros((64, 64)), z_mm=1, uid="1.9")
    expected = dicom.read_header(path, "a")
    amounts = []

    class Counting(io.FileIO):
        def read(self, size=-1):
            data = super().read(size)
            amounts.append(len(data))
            return data

        def readinto(self, buffer):
            number = super().readinto(buffer)
            amounts.append(number)
            return number

    monkeypatch.setattr(files.io, "FileIO", Counting)
    assert dicom.read_header(path, "a") == expected
    assert amounts == [4096]


@pytest.mark.parametrize("syntax", ["explicit", "implicit"])
@pytest.mark.parametrize("length", [3000, 3500, 3600, 3700, 5000, 100_000])
def test_header_behind_long_tags_is_the_same(tmp_path, length, syntax):
    path = write_slice(
        tmp_path / "a", HOUNSFIELD, z_mm=-1, uid="1.9", slice_location=1, syntax=syntax
    )
    expected = dicom.read_header(path, "a")
    dataset = pydicom.dcmread(path)
    dataset.add_new(0x00080008, "CS", ["ORIGINAL", "PRIMARY"])
    dataset.add_new(0x00104000, "LT", "x" * min(length, 10_000))
    if length > 10_000:
        dataset.add_new(0x00110010, "LO", "MAKER")
        dataset.add_new(0x00111001, "OB", b"x" * length)
    dataset.save_as(path)
    assert dicom.read_header(path, "a") == expected


def test_header_is_whole_wherever_four_kilobytes_end(tmp_path):
    path = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=-1, uid="1.9")
    expected = dicom.read_header(path, "a")
    for size in range(100, 1200, 2):
        with mock.patch.object(dicom, "_FIRST_BYTES", size):
            assert dicom.read_header(path, "a") == expected


@pytest.mark.parametrize("syntax", ["explicit", "implicit", "rle"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slice_location": -12.5},
        {"instance_number": None},
        {"patient": "LIDC-IDRI-0099 "},
        {"z_mm": -1e-3},
    ],
)
def test_plain_headers_are_read_without_a_data_set(tmp_path, syntax, changes):
    values = {"z_mm": 12.5, "uid": "1.9", "syntax": syntax, **changes}
    path = write_slice(tmp_path / "a", HOUNSFIELD, **values)
    found = dicom._plain_header(path.read_bytes()[:4096], "a")
    assert found is not None and found == dicom._any_header(path, "a")


@pytest.mark.parametrize(
    "changes",
    [
        {"modality": "DX"},
        {"patient": "a\\b"},
        {"patient": ""},
    ],
)
def test_other_headers_are_left_to_pydicom(tmp_path, changes):
    path = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1.9", **changes)
    assert dicom._plain_header(path.read_bytes()[:4096], "a") is None


def test_whole_and_broken_numbers_of_the_scale_give_the_same(tmp_path):
    path = write_slice(tmp_path / "a", HOUNSFIELD, z_mm=1, uid="1.9")
    image, _ = dicom.read_pixels(path, "a")
    dataset = pydicom.dcmread(path)
    dataset.RescaleIntercept = "-1023.9999"
    dataset.save_as(path)
    np.testing.assert_array_equal(dicom.read_pixels(path, "a")[0], image)
    dataset.RescaleSlope, dataset.RescaleIntercept = "30000", "-1024"
    dataset.save_as(path)
    expected = ((HOUNSFIELD + 1024).astype(np.int64) * 30000 - 1024).clip(None, 32767)
    np.testing.assert_array_equal(dicom.read_pixels(path, "a")[0], expected)
