import dataclasses

import numpy as np
import pytest
from helpers.dicom_writer import (
    ct_message,
    nodule,
    non_nodule,
    region,
    sop_uid,
    square,
    write_series,
    write_slice,
)

from tf_probunet.preparation.lidc import series as lidc_series
from tf_probunet.preparation.runner import Unit

SHAPE = (200, 220)
NUM_SLICES = 6
FIRST_Z = -100.0


def z_of(index):
    return FIRST_Z + 2 * index


def slices():
    """Values that tell the slice, and the row and column of each pixel."""
    rows, columns = np.indices(SHAPE)
    return [(rows + columns + 10 * k - 900).astype(np.int16) for k in range(NUM_SLICES)]


def outline(index, top=90, left=100, size=8, **changes):
    """A square lesion on a slice, with right UID and position unless changed."""
    values = {"uid": sop_uid(index), "z_mm": f"{z_of(index):.6f}", **changes}
    values.setdefault("points", square(top, left, size))
    return region(**values)


def process(folder, readings, **series):
    """Writes a scan, finds it and processes it."""
    write_series(folder, slices(), first_z_mm=FIRST_Z, **series)
    return process_written(folder, readings)


def process_written(folder, readings):
    (folder / "069.xml").write_text(ct_message(readings))
    found = lidc_series.source(folder)
    (item,) = found.items
    assert found.problems == []
    return lidc_series.process_scan(Unit(item.name, ("train", item.task)))


def reasons(result, expected=False):
    return [p.reason for p in result.problems if p.expected == expected]


def keys(result):
    return [example.key.partition("_n")[2] for _, example in result.examples]


def areas(result):
    return [e.labels.sum(axis=(1, 2)).tolist() for _, e in result.examples]


def test_one_lesion_on_two_slices(tmp_path):
    result = process(
        tmp_path,
        [
            [nodule("a", outline(2), outline(3))],
            [nodule("b", outline(2, size=6))],
            [],
            [],
        ],
    )
    assert result.problems == []
    assert keys(result) == ["00_z-96.00", "00_z-94.00"]
    assert areas(result) == [[64, 36, 0, 0], [64, 0, 0, 0]]
    split, example = result.examples[0]
    assert split == "train" and example.group == "LIDC-IDRI-0001"
    assert example.key.startswith("LIDC-IDRI-0001_")
    assert example.spacing_mm == (0.5, 0.5)
    # The pixels are 0.5 mm already: rows 90..97 and columns 100..107 in the middle.
    np.testing.assert_array_equal(example.image[..., 0], slices()[2][4:184, 14:194])
    np.testing.assert_array_equal(np.argwhere(example.labels[0])[0], [86, 86])
    assert result.counts == {
        "scans": 1,
        "scans with lesions": 1,
        "scans with images": 1,
        "lesions": 1,
        "annotations of lesions": 2,
        "lesions with several annotations of one grader": 0,
        "images marked by 2 of 4 graders": 1,
        "images marked by 1 of 4 graders": 1,
        "lesions given as a single point (under 3 mm), dropped": 0,
        "non-nodules, dropped": 0,
        "single-point regions of lesions given as outlines, dropped": 0,
    }


def test_two_lesions_on_one_slice_are_two_images(tmp_path):
    result = process(
        tmp_path,
        [
            [nodule("a", outline(2)), nodule("b", outline(2, top=40))],
            [nodule("c", outline(2, size=6))],
            [],
            [],
        ],
    )
    assert keys(result) == ["00_z-96.00", "01_z-96.00"]
    # The other lesion is not marked on the image, even where it is in the crop.
    assert areas(result) == [[64, 0, 0, 0], [64, 36, 0, 0]]


def test_single_points_and_non_nodules_are_counted(tmp_path):
    point = outline(1, points=[(5, 5)])
    result = process(
        tmp_path,
        [
            [nodule("small", point), nodule("large", point, outline(2))],
            [non_nodule(sop_uid(0), z_of(0))] * 2,
            [],
            [],
        ],
    )
    assert keys(result) == ["00_z-96.00"]
    assert reasons(result) == []
    assert reasons(result, expected=True) == [
        "lesions given as a single point (under 3 mm)",
        "non-nodules",
        "single-point regions of lesions given as outlines",
    ]
    assert all(problem.where == "069.xml" for problem in result.problems)
    assert result.counts["non-nodules, dropped"] == 2
    assert result.counts["lesions given as a single point (under 3 mm), dropped"] == 1


def test_hole(tmp_path):
    hole = outline(2, points=square(93, 103, 2), inclusion="FALSE")
    result = process(tmp_path, [[nodule("a", hole, outline(2))], [], [], []])
    assert areas(result) == [[64 - 16, 0, 0, 0]]


def test_unknown_uid_is_found_by_position(tmp_path):
    lesion = nodule("a", outline(3, uid="9.9", z_mm="-94.02"))
    result = process(tmp_path, [[lesion], [], [], []])
    assert keys(result) == ["00_z-94.00"] and result.problems == []
    assert result.counts["outlines found by position, not by SOPInstanceUID"] == 1


def test_uid_wins_over_position_and_is_reported(tmp_path):
    lesion = nodule("a", outline(3, z_mm=z_of(1)))
    result = process(tmp_path, [[], [lesion], [], []])
    assert keys(result) == ["00_z-94.00"]
    (problem,) = result.problems
    assert problem.reason == "outline's position contradicts its slice"
    assert problem.where == "069.xml, reading 2, a"
    assert problem.detail.startswith("z -98 mm, but its imageSOP_UID is that of 000003")


def test_outline_on_no_slice_is_dropped(tmp_path):
    lesion = nodule("a", outline(2), outline(3, uid="9.9", z_mm="-93.0"))
    result = process(tmp_path, [[lesion], [], [], []])
    assert keys(result) == ["00_z-96.00"]
    assert reasons(result) == ["outline on a slice that is not there"]


def test_outline_on_a_dropped_slice_is_dropped(tmp_path):
    write_series(tmp_path, slices(), first_z_mm=FIRST_Z)
    write_slice(
        tmp_path / "000003.dcm",
        slices()[3],
        z_mm=z_of(3),
        uid=sop_uid(3),
        slice_location=1234.0,
    )
    lesion = nodule("a", outline(2), outline(3))
    result = process_written(tmp_path, [[lesion], [], [], []])
    assert keys(result) == ["00_z-96.00"]
    # By the recipe; and a slice that was dropped is not missing from the download.
    assert reasons(result) == []
    assert reasons(result, expected=True) == [
        "SliceLocation differs from the position",
        "outline on a dropped slice",
    ]
    assert result.counts["slices dropped by the SliceLocation rule"] == 1
    assert result.counts["outlines dropped by the SliceLocation rule"] == 1


def test_sign_of_slice_location_does_not_matter(tmp_path):
    folder = tmp_path
    for index, values in enumerate(slices()):
        write_slice(
            folder / f"{index:06d}.dcm",
            values,
            z_mm=z_of(index),
            uid=sop_uid(index),
            slice_location=-z_of(index),
        )
    lesion = nodule("a", outline(2, z_mm=-z_of(2)))  # the outlines' sign may follow
    result = process_written(folder, [[lesion], [], [], []])
    assert keys(result) == ["00_z-96.00"] and result.problems == []


def test_duplicate_file_changes_nothing(tmp_path):
    lesion = nodule("a", outline(2))
    expected = process(tmp_path, [[lesion], [], [], []])
    (tmp_path / "zz.dcm").write_bytes((tmp_path / "000002.dcm").read_bytes())
    result = process_written(tmp_path, [[lesion], [], [], []])
    assert reasons(result) == ["duplicate file"]
    assert keys(result) == keys(expected)
    np.testing.assert_array_equal(
        result.examples[0][1].image, expected.examples[0][1].image
    )


def test_graders_on_two_slices_of_one_position_share_an_image(tmp_path):
    write_slice(
        tmp_path / "other.dcm",
        slices()[2] + 500,
        z_mm=z_of(2),
        uid="7.7",
        slice_location=z_of(2),
        instance_number=99,
    )
    result = process(
        tmp_path,
        [
            [nodule("a", outline(2))],
            [nodule("b", outline(2, uid="7.7", size=6))],
            [],
            [],
        ],
    )
    assert reasons(result) == ["second slice at the same position"]
    assert areas(result) == [[64, 36, 0, 0]]


def test_outline_without_inside_is_an_empty_mask(tmp_path):
    thin = outline(2, points=[(100, 90), (101, 90), (101, 91), (100, 91)])
    result = process(tmp_path, [[nodule("a", thin)], [nodule("b", outline(2))], [], []])
    assert areas(result) == [[0, 64, 0, 0]]
    assert reasons(result, expected=True) == ["outline without a pixel inside"]
    only_thin = process(tmp_path / "second", [[nodule("a", thin)], [], [], []])
    assert only_thin.examples == [] and only_thin.counts["lesions"] == 0


def test_outline_that_leaves_the_slice_is_dropped(tmp_path):
    far = outline(2, points=square(90, 300, 4))
    result = process(
        tmp_path, [[nodule("a", far, outline(3))], [nodule("b", outline(3))], [], []]
    )
    assert keys(result) == ["00_z-94.00"]
    assert reasons(result) == ["outline outside of the slice"]


def test_two_annotations_of_one_grader_are_united(tmp_path):
    result = process(
        tmp_path,
        [
            [
                nodule("a1", outline(2, size=3)),
                nodule("a2", outline(2, top=96, size=2)),
            ],
            [nodule("b", outline(2))],
            [],
            [],
        ],
    )
    assert keys(result) == ["00_z-96.00"]
    assert areas(result) == [[9 + 4, 64, 0, 0]]
    assert result.counts["lesions with several annotations of one grader"] == 1


@pytest.mark.parametrize(
    "series",
    [
        {"signed": False, "syntax": "implicit"},
        {"signed": False, "intercept": -1000, "syntax": "rle"},
        {"slice_location": None},
    ],
)
def test_vendors_give_the_same_image(tmp_path, series):
    lesion = nodule("a", outline(2))
    expected = process(tmp_path / "a", [[lesion], [], [], []])
    found = process(tmp_path / "b", [[lesion], [], [], []], **series)
    assert found.problems == []
    np.testing.assert_array_equal(
        found.examples[0][1].image, expected.examples[0][1].image
    )


def test_resampled_lesion_keeps_its_size(tmp_path):
    # 8 x 8 pixels of 0.75 mm are 12 x 12 of 0.5 mm; bilinear halves lie on edges.
    result = process(
        tmp_path, [[nodule("a", outline(2))], [], [], []], spacing_mm=(0.75, 0.75)
    )
    (found,) = areas(result)
    rows, columns = np.nonzero(result.examples[0][1].labels[0])
    assert rows.max() - rows.min() == columns.max() - columns.min() == 11
    # Bilinear interpolation rounds off the four corners.
    assert 144 - 4 <= found[0] <= 144


@pytest.mark.filterwarnings("ignore")
def test_damaged_slice_costs_its_images_only(tmp_path):
    write_series(tmp_path, slices(), first_z_mm=FIRST_Z)
    path = tmp_path / "000002.dcm"
    path.write_bytes(path.read_bytes()[:-1000])
    lesion = nodule("a", outline(2), outline(3))
    result = process_written(tmp_path, [[lesion], [], [], []])
    assert keys(result) == ["00_z-94.00"]
    assert reasons(result) == ["unreadable slice"]
    assert result.problems[0].where == "000002.dcm"


@pytest.mark.parametrize("number", [0, 3, 5])
def test_four_readings_are_expected(tmp_path, number):
    message = f"069.xml: {number} reading sessions, expected 4"
    with pytest.raises(ValueError, match=message):
        process(tmp_path, [[]] * number)


def test_scan_ids_tell_scans_of_a_patient_apart(tmp_path):
    write_series(tmp_path / "a", slices()[:1])
    (tmp_path / "a.xml").write_text(ct_message([[]] * 4))
    (item,) = lidc_series.source(tmp_path).items
    other = dataclasses.replace(item.task.scan, series_uid="1.2.3")
    assert lidc_series.scan_id(other) != item.name
    assert lidc_series.scan_id(item.task.scan) == item.name
