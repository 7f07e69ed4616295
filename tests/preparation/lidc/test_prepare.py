import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import PIL.Image
import pydicom
import pytest
import tensorflow as tf
from helpers.dicom_writer import (
    ct_message,
    nodule,
    region,
    sop_uid,
    square,
    write_series,
)

from tf_probunet.dataset import records
from tf_probunet.preparation import processes, runner
from tf_probunet.preparation.lidc import prepare as lidc
from tf_probunet.preparation.lidc import scans, series

ROOT = pathlib.Path(__file__).resolve().parents[3]
NAMES = [f"LIDC-IDRI-{number:04d}" for number in range(1, 8)]


def write_scan(folder, patient, number, empty=False):
    """A scan of three slices with one lesion on the second, by two graders."""
    series_uid = f"1.2.{number}"
    rows, columns = np.indices((60, 64))
    pixels = [rows * 3 + columns + 100 * k + number for k in range(3)]
    write_series(folder, pixels, patient=patient, series_uid=series_uid)
    lesions = [
        nodule("a", region(sop_uid(1, series_uid), -98, square(20, 24, size)))
        for size in (8, 5)
    ]
    readings = [[], [], [], []] if empty else [lesions[:1], [], lesions[1:], []]
    (folder / "annotations.xml").write_text(ct_message(readings, series_uid))


@pytest.fixture(scope="module")
def dicom_dir(tmp_path_factory):
    root = tmp_path_factory.mktemp("dicom")
    for number, patient in enumerate(NAMES):
        write_scan(root / f"s{number}", patient, number)
    write_scan(root / "second", NAMES[0], 50)  # a patient with two scans
    write_scan(root / "healthy", "LIDC-IDRI-0099", 51, empty=True)
    return root


@pytest.fixture(scope="module")
def prepared(dicom_dir, tmp_path_factory):
    out_dir = tmp_path_factory.mktemp("prepared")
    report = lidc.prepare(dicom_dir, out_dir, num_workers=1, num_preview=4)
    return out_dir, report


def read(out_dir):
    """All examples by key: (split, group, image, labels)."""
    info = records.read_info(out_dir)
    found = {}
    for split in info.splits:
        for serialized in tf.data.TFRecordDataset(info.shard_paths(split)):
            fields = records.parse(serialized, info.spec)
            found[fields["key"].numpy().decode()] = (
                split,
                fields["group"].numpy().decode(),
                records.decode_image(fields["image"], info.spec).numpy(),
                records.decode_all_labels(fields["labels"], info.spec).numpy(),
            )
    return found


def shards(out_dir):
    names = ["*.tfrecord", "dataset_info.json", "report.json", "splits.json"]
    return {p.name: p.read_bytes() for name in names for p in out_dir.glob(name)}


def test_records_hold_hounsfield_units_and_four_masks(prepared):
    out_dir, _ = prepared
    spec = records.read_info(out_dir).spec
    assert (spec.image_shape, spec.intensity) == ((180, 180, 1), "hu")
    assert spec.preparation["spacing_mm"] == 0.5
    examples = read(out_dir)
    assert len(examples) == 8
    (key,) = [k for k in examples if k.startswith(NAMES[3])]
    split, group, image, labels = examples[key]
    assert group == NAMES[3]
    # Box rows 20..27, columns 24..31: the crop begins at row -66 and column -62.
    assert (image[:66] == -1024).all() and (image[126:] == -1024).all()
    rows, columns = np.indices((60, 64))
    np.testing.assert_array_equal(
        image[66:126, 62:126, 0], rows * 3 + columns + 100 + 3
    )
    assert labels.sum(axis=(1, 2)).tolist() == [64, 0, 25, 0]
    assert labels[0, 86:94, 86:94].all()


def test_no_patient_is_in_two_splits(prepared):
    out_dir, _ = prepared
    splits = json.loads((out_dir / "splits.json").read_text())
    # Eight patients, one of them without a lesion.
    assert {split: len(names) for split, names in splits.items()} == {
        "train": 6,
        "val": 1,
        "test": 1,
    }
    for split, group, _, _ in read(out_dir).values():
        assert group in splits[split]


def test_report_counts(prepared):
    out_dir, report = prepared
    assert report == json.loads((out_dir / "report.json").read_text())
    assert report["counts"]["scans"] == 9
    assert report["counts"]["scans with lesions"] == 8
    assert report["counts"]["lesions"] == 8
    assert report["counts"]["images marked by 2 of 4 graders"] == 8
    assert sum(split["examples"] for split in report["splits"].values()) == 8
    assert report["counts"]["scans with images"] == 8
    assert report["problems"] == {
        "without a single image": [{"where": "LIDC-IDRI-0099", "detail": ""}]
    }
    text = (out_dir / "report.txt").read_text()
    assert "lesions: 8" in text


def test_preview_shows_four_images(prepared):
    sheet = np.asarray(PIL.Image.open(prepared[0] / "preview.png"))
    assert sheet.shape == (2 * (2 * 180 + 14), 2 * 2 * 180, 3)
    assert len(np.unique(sheet.reshape(-1, 3), axis=0)) > 10


def test_workers_do_not_change_a_byte(dicom_dir, prepared, tmp_path):
    lidc.prepare(dicom_dir, tmp_path, num_workers=2)
    assert shards(tmp_path) == shards(prepared[0])


def test_interrupted_run_goes_on_and_ends_alike(
    dicom_dir, prepared, tmp_path, monkeypatch
):
    original = series.process_scan
    calls = []

    def interrupted(unit):
        calls.append(unit.name)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(unit)

    monkeypatch.setattr(series, "process_scan", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lidc.prepare(dicom_dir, tmp_path, num_workers=1)
    assert not (tmp_path / "dataset_info.json").exists()
    lidc.prepare(dicom_dir, tmp_path, num_workers=1)
    # Nine scans: four before the interruption, the fifth again, four more.
    assert len(calls) == 10 and calls[4] == calls[5]
    assert shards(tmp_path) == shards(prepared[0])


def test_workers_do_without_tensorflow(dicom_dir, prepared, tmp_path):
    item = series.source(dicom_dir).items[0]
    unit = runner.Unit(item.name, ("train", item.task), item.inputs)
    spec = records.read_info(prepared[0]).spec
    others = ("cityscapes", "lidc.pickles", "lidc.pngs", "phantom")
    with processes.pool(1) as pool:
        pool.submit(scans._read_files, [(dicom_dir, "s0/000000.dcm")]).result()
        part = pool.submit(
            runner._process_unit, unit, series.process_scan, spec, tmp_path
        ).result()
        for name in others:
            pool.submit(
                eval, f"__import__('tf_probunet.preparation.{name}') and None"
            ).result()
        loaded = pool.submit(eval, "set(__import__('sys').modules)").result()
    assert len(part["examples"]) == 1
    assert "tf_probunet.preparation.phantom" in loaded
    assert "tensorflow" not in loaded


def write_png(path, area, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.zeros(size * size, np.uint8)
    values[:area] = 255
    PIL.Image.fromarray(values.reshape(size, size)).save(path, compress_level=0)


def write_input(source_format, root, area):
    """Writes patients p1 to p3; the mask of p1's second grader is `area` pixels."""
    entries = {}
    for number, (patient, split) in enumerate(
        [("p1", "train"), ("p2", "val"), ("p3", "test")]
    ):
        areas = (5, area if patient == "p1" else 3, 0, 0)
        if source_format == "dicom":
            write_scan(root / patient, patient, number)
            path = root / patient / "annotations.xml"
            moved = path.read_text().replace("<xCoord>23", f"<xCoord>{23 + areas[1]}")
            path.write_text(moved)
        elif source_format == "png_slices":
            folder = root / patient / "nodule-0"
            write_png(folder / "images" / "slice-0.png", 77, 128)
            for grader, number_marked in enumerate(areas):
                path = folder / f"mask-{grader}" / "slice-0.png"
                write_png(path, number_marked, 128)
        elif source_format == "crops":
            write_png(root / split / "images" / patient / "z1.png", 77, 180)
            for grader, number_marked in enumerate(areas):
                path = root / split / "gt" / patient / f"z1_l{grader}.png"
                write_png(path, number_marked, 180)
        else:
            masks = np.zeros((4, 128 * 128))
            for mask, number_marked in zip(masks, areas):
                mask[:number_marked] = 1
            image = np.full((128, 128), 0.5)
            masks = list(masks.reshape(4, 128, 128))
            entries[patient] = {"image": image, "masks": masks, "series_uid": patient}
    if entries:
        root.write_bytes(pickle.dumps(entries))


@pytest.mark.parametrize("source_format", ["dicom", "png_slices", "crops", "pickle"])
def test_resumed_run_uses_no_part_of_files_that_changed(
    tmp_path, monkeypatch, source_format
):
    root = tmp_path / "in"
    settings = {"source_format": source_format, "num_workers": 1}
    write_input(source_format, root, area=4)
    original, processed = runner._process_unit, []

    def interrupted(unit, *rest):
        if len(processed) == 2:
            raise KeyboardInterrupt
        processed.append(unit.name)
        return original(unit, *rest)

    monkeypatch.setattr(runner, "_process_unit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lidc.prepare(root, tmp_path / "out", **settings)
    monkeypatch.setattr(runner, "_process_unit", original)
    # Only annotations change, and no file changes its size.
    write_input(source_format, root, area=9)
    lidc.prepare(root, tmp_path / "out", **settings)
    lidc.prepare(root, tmp_path / "fresh", **settings)
    assert shards(tmp_path / "out") == shards(tmp_path / "fresh")


def write_philips_scan(folder, patient, number):
    """A scan whose SliceLocation is another than its position on all three slices."""
    write_scan(folder, patient, number)
    for path in folder.glob("*.dcm"):
        dataset = pydicom.dcmread(path)
        dataset.SliceLocation = dataset.SliceLocation - 700
        dataset.save_as(path)


def test_scans_that_lose_all_slices_are_reported_and_may_be_kept(tmp_path):
    write_scan(tmp_path / "in" / "a", NAMES[0], 0)
    write_philips_scan(tmp_path / "in" / "b", NAMES[1], 1)
    # The rule is part of the recipe: no fault of the files.
    report = lidc.prepare(tmp_path / "in", tmp_path / "out", num_workers=1, strict=True)
    counts, problems = report["counts"], report["problems"]
    assert counts["scans with lesions"] == 2 and counts["scans with images"] == 1
    assert counts["scans that lost all slices by the SliceLocation rule"] == 1
    assert counts["slices dropped by the SliceLocation rule"] == 3
    assert counts["outlines dropped by the SliceLocation rule"] == 2
    (lost,) = problems["scan that lost all slices by the SliceLocation rule"]
    assert lost["where"].startswith(NAMES[1])
    assert lost["detail"].startswith("3 slices, 2 outlines; --keep_slice_location_mis")
    (patient,) = problems["without a single image"]
    assert patient["where"] == NAMES[1]
    assert (
        "  scans that lost all slices by the SliceLocation rule: 1\n"
        in runner.report_summary(report)
    )
    kept = lidc.prepare(
        tmp_path / "in",
        tmp_path / "kept",
        num_workers=1,
        strict=True,
        keep_slice_location_mismatch=True,
    )
    assert kept["counts"]["scans with images"] == 2
    assert kept["counts"]["slices kept against the SliceLocation rule"] == 3
    assert list(kept["problems"]) == ["SliceLocation differs from the position, kept"]
    # Another data set: neither its parts nor the whole stands for the other.
    assert kept["preparation"]["slice_location_mismatch"] == "kept"
    with pytest.raises(ValueError, match="made with other settings"):
        lidc.prepare(
            tmp_path / "in",
            tmp_path / "out",
            num_workers=1,
            keep_slice_location_mismatch=True,
        )


def test_annotation_files_may_lie_elsewhere(tmp_path):
    for number in range(2):
        write_scan(tmp_path / "in" / f"s{number}", NAMES[number], number)
    expected = lidc.prepare(tmp_path / "in", tmp_path / "a", num_workers=1)
    (tmp_path / "xml").mkdir()
    for number in range(2):
        path = tmp_path / "in" / f"s{number}" / "annotations.xml"
        path.rename(tmp_path / "xml" / f"{number}.xml")
    with pytest.raises(
        ValueError,
        match=r"in: 2 CT series, but none with its annotation file \(0 in .*--xml_dir",
    ):
        lidc.prepare(tmp_path / "in", tmp_path / "b", num_workers=1)
    found = lidc.prepare(
        tmp_path / "in", tmp_path / "b", num_workers=1, xml_dir=tmp_path / "xml"
    )
    assert found["splits"] == expected["splits"]
    first, second = shards(tmp_path / "a"), shards(tmp_path / "b")
    names = [name for name in first if name.endswith(".tfrecord")]
    assert names and all(first[name] == second[name] for name in names)


def test_flags_of_dicom_are_refused_with_other_formats(tmp_path):
    with pytest.raises(ValueError, match="go with --format=dicom, got --format=crops"):
        lidc.prepare(
            tmp_path, tmp_path / "out", source_format="crops", xml_dir=tmp_path
        )


def test_output_directory_is_checked_before_anything_is_read(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("headers are being read")

    monkeypatch.setattr(series, "find_scans", fail)
    (tmp_path / "file").write_text("x")
    for out_dir in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(NotADirectoryError, match="file"):
            lidc.prepare(tmp_path, out_dir)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "dataset_info.json").write_text("{}")
    with pytest.raises(ValueError, match="holds a data set that can't be read"):
        lidc.prepare(tmp_path, tmp_path / "other")
    with pytest.raises(AssertionError, match="headers are being read"):
        lidc.prepare(tmp_path, tmp_path / "out")


def test_split_file_decides(dicom_dir, tmp_path):
    split_file = tmp_path / "given.json"
    given = {"train": NAMES[2:4], "test": [NAMES[0], "LIDC-IDRI-0777"]}
    split_file.write_text(json.dumps(given))
    report = lidc.prepare(
        dicom_dir, tmp_path / "out", num_workers=1, split_file=split_file
    )
    placed = {group: split for split, group, _, _ in read(tmp_path / "out").values()}
    assert placed == {NAMES[2]: "train", NAMES[3]: "train", NAMES[0]: "test"}
    left_out = [p["where"] for p in report["problems"]["not in the split file"]]
    assert left_out == [NAMES[1], *NAMES[4:], "LIDC-IDRI-0099"]
    (absent,) = report["problems"]["in the split file, but not in the data"]
    assert absent["detail"] == "1, the first: LIDC-IDRI-0777"
    # What was used can be given again.
    again = tmp_path / "again"
    lidc.prepare(
        dicom_dir, again, num_workers=1, split_file=tmp_path / "out" / "splits.json"
    )
    first, second = shards(tmp_path / "out"), shards(again)
    records_of = [n for n in first if n.endswith(".tfrecord")]
    assert records_of and all(first[n] == second[n] for n in records_of)


def test_patient_in_two_splits_is_an_error(dicom_dir, tmp_path):
    split_file = tmp_path / "given.json"
    split_file.write_text(json.dumps({"train": NAMES[:2], "val": NAMES[1:]}))
    with pytest.raises(ValueError, match="'LIDC-IDRI-0002' is in two splits"):
        lidc.prepare(dicom_dir, tmp_path / "out", split_file=split_file)


def test_one_bad_scan_is_skipped_unless_strict(tmp_path):
    for number in range(2):
        write_scan(tmp_path / "in" / f"s{number}", NAMES[number], number)
    path = tmp_path / "in" / "s1" / "annotations.xml"
    path.write_text(path.read_text().replace("<xCoord>", "<xCoord>x"))
    report = lidc.prepare(tmp_path / "in", tmp_path / "out", num_workers=1)
    assert report["splits"]["train"]["examples"] == 1
    (problem,) = report["problems"]["skipped"]
    assert problem["where"].startswith(NAMES[1])
    assert "annotations.xml: nodule 'a' has xCoord 'x" in problem["detail"]
    with pytest.raises(ValueError, match="has xCoord 'x"):
        lidc.prepare(tmp_path / "in", tmp_path / "b", num_workers=1, strict=True)


def test_what_the_recipe_drops_is_no_error_in_a_strict_run(tmp_path):
    write_scan(tmp_path / "in", NAMES[0], 0)
    path = tmp_path / "in" / "annotations.xml"
    point = nodule("small", region(sop_uid(1, "1.2.0"), -98, [(5, 5)]))
    text = path.read_text().replace("<readingSession>", f"<readingSession>{point}", 1)
    path.write_text(text)
    report = lidc.prepare(tmp_path / "in", tmp_path / "out", num_workers=1, strict=True)
    assert list(report["problems"]) == ["lesions given as a single point (under 3 mm)"]


def test_nothing_left_is_an_error(tmp_path):
    write_scan(tmp_path / "in", NAMES[0], 0, empty=True)
    with pytest.raises(ValueError, match="no example came out of 1 units"):
        lidc.prepare(tmp_path / "in", tmp_path / "out", num_workers=1)


def test_unknown_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match="format 'nifti', expected dicom, png_slices"):
        lidc.prepare(tmp_path, tmp_path / "out", source_format="nifti")


def test_crops_keep_their_split_unless_a_split_file_is_given(tmp_path):
    for split, patient in (("train", "p1"), ("val", "p2"), ("test", "p3")):
        for name, folder in [
            ("z1_c0", "images"),
            *((f"z1_c0_l{k}", "gt") for k in range(4)),
        ]:
            path = tmp_path / "in" / split / folder / patient / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(np.eye(180, dtype=np.uint8) * 255).save(path)
    lidc.prepare(
        tmp_path / "in", tmp_path / "out", source_format="crops", num_workers=1
    )
    found = read(tmp_path / "out")
    assert {v[1]: v[0] for v in found.values()} == {
        "p1": "train",
        "p2": "val",
        "p3": "test",
    }
    _, _, image, labels = found["p1_z1_c0"]
    np.testing.assert_array_equal(image[..., 0], np.eye(180) * 255)
    np.testing.assert_array_equal(labels, np.broadcast_to(np.eye(180), (4, 180, 180)))
    split_file = tmp_path / "given.json"
    split_file.write_text(json.dumps({"train": ["p3"], "val": ["p1", "p2"]}))
    lidc.prepare(
        tmp_path / "in",
        tmp_path / "other",
        source_format="crops",
        num_workers=1,
        split_file=split_file,
    )
    assert {v[1]: v[0] for v in read(tmp_path / "other").values()} == {
        "p1": "val",
        "p2": "val",
        "p3": "train",
    }


def test_crops_of_a_patient_in_two_splits_are_an_error(tmp_path):
    for split in ("train", "val"):
        path = tmp_path / "in" / split / "images" / "p1" / f"{split}.png"
        path.parent.mkdir(parents=True)
        PIL.Image.fromarray(np.eye(180, dtype=np.uint8)).save(path)
    with pytest.raises(ValueError, match="in: 'p1' is in two splits, 'train' and"):
        lidc.prepare(tmp_path / "in", tmp_path / "out", source_format="crops")


def command(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "run" / "prepare_lidc.py", *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )


def test_command_prepares(dicom_dir, prepared, tmp_path):
    done = command(
        f"--dicom_dir={dicom_dir}", f"--out_dir={tmp_path}", "--num_workers=1"
    )
    assert done.returncode == 0, done.stderr
    assert "images of" in done.stdout and "lesions: 8" in done.stdout
    assert shards(tmp_path) == shards(prepared[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out_dir=x"], "expected either --dicom_dir or --input_dir"),
        (["--dicom_dir=a", "--input_dir=b", "--out_dir=x"], "expected either"),
        (["--dicom_dir=a", "--format=crops", "--out_dir=x"], "goes with --input_dir"),
        (["--dicom_dir=a"], "--out_dir is required"),
    ],
)
def test_command_refuses_with_one_line(arguments, message):
    done = command(*arguments)
    assert done.returncode == 1
    assert message in done.stderr and done.stderr.count("\n") == 1
