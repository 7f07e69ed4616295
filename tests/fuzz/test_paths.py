"""Names from headers, records and file names lead nowhere but to their directory."""

from __future__ import annotations

import ast
import pathlib

import numpy as np
import pytest
from helpers.dicom_writer import ct_message, nodule, region, square, write_series

import tf_probunet
from tf_probunet import files
from tf_probunet.evaluation import sample_files
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.preparation.lidc import prepare as lidc

PACKAGE = pathlib.Path(tf_probunet.__file__).parent
NAMES = [
    "../../x",
    "/etc/passwd",
    "..",
    ".",
    "a\0b",
    "a/../../b",
    "C:\\x",
    "..\\..\\x",
    "~root",
    "-rf",
    "\n",
    "x" * 64,
]


@pytest.mark.parametrize("key", NAMES)
def test_keys_become_plain_file_names(tmp_path, key):
    inside = tmp_path / "samples"
    samples = np.zeros((2, 3, 3), np.uint8)
    path = sample_files.write(inside, key, samples)
    assert path.parent == inside and path.resolve().parent == inside.resolve()
    assert [p.name for p in tmp_path.iterdir()] == ["samples"]
    found = sample_files.find(inside, NAMES)
    assert list(found) == [key]
    read = sample_files.read(found, key, count=2, size=(3, 3), num_classes=2)
    np.testing.assert_array_equal(read, samples)


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "..", "~x"])
def test_identifiers_of_scans_do_not_name_files(tmp_path, name):
    """A PatientID and UIDs that look like paths, through a whole preparation."""
    scans = tmp_path / "in"
    for number in range(8):  # Enough for three splits.
        series = f"{name}/{number}"
        rng = np.random.default_rng(number)
        slices = rng.integers(-1000, 400, (2, 40, 40))
        write_series(
            scans / str(number),
            slices,
            patient=f"{name}{number}",
            series_uid=series,
            study_uid=series,
        )
        marks = [
            [nodule(name, region(f"{series}.1", -100.0, square(15, 15, 8)))]
            for _ in range(4)
        ]
        text = ct_message(marks, series_uid=series, study_uid=series)
        files.write_text(scans / str(number) / "a.xml", text)
    before = {p for p in tmp_path.rglob("*")}
    report = lidc.prepare(scans, tmp_path / "out", num_workers=1)
    assert sum(split["examples"] for split in report["splits"].values()) == 8
    made = {p for p in tmp_path.rglob("*")} - before
    assert made and all(tmp_path / "out" in (p, *p.parents) for p in made)
    allowed = (".tfrecord", ".json", ".txt")
    assert all(p.suffix in allowed for p in made if p.is_file())


@pytest.mark.parametrize("name", ["..npy", "...npy", "....npy", "a.npy"])
def test_results_are_never_called_like_a_directory_above(tmp_path, name):
    np.save(tmp_path / "x.npy", np.zeros((4, 4), np.uint8))
    (tmp_path / "x.npy").rename(tmp_path / name)
    (image,) = read_inputs([str(tmp_path / name)], CropConfig())
    assert image.name == ("a" if name == "a.npy" else "image")


def test_a_series_in_the_directory_above_is_called_by_its_name(tmp_path, monkeypatch):
    write_series(tmp_path / "scan", [np.zeros((8, 8))])
    (tmp_path / "scan" / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "scan" / "deeper")
    for given in ("..", "../../scan", "../../scan/."):
        (image,) = read_inputs([given], CropConfig())
        assert image.name == "scan"


def _calls(tree: ast.AST) -> set[str]:
    return {
        ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)
    }


def _imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_only_the_restricted_unpickler_knows_pickle():
    packers = {
        "pickle",
        "cPickle",
        "_pickle",
        "dill",
        "cloudpickle",
        "joblib",
        "shelve",
    }
    packers |= {"marshal", "jsonpickle", "yaml"}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        name = path.relative_to(PACKAGE).as_posix()
        imported = _imports(tree) & packers
        if name == "preparation/lidc/pickles.py":
            assert imported == {"pickle"}
            # It reads; it does not write, and not without the restrictions.
            assert not _calls(tree) & {"pickle.load", "pickle.loads", "pickle.dump"}
            assert not _calls(tree) & {"pickle.dumps", "pickle.Pickler"}
        else:
            assert not imported, (name, imported)
        assert "allow_pickle=True" not in text, name
        # NumPy's own readers make room before they check: `arrays` is used instead.
        assert not _calls(tree) & {"np.load", "np.fromfile", "eval", "exec"}, name
        assert "read_pickle" not in text and "weights_only" not in text, name


def test_xml_is_read_by_defusedxml_only():
    parsers = {"parse", "fromstring", "iterparse", "XML"}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "xml"
            ):
                assert {alias.name for alias in node.names} <= {"Element", "ParseError"}
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
                assert not names & {"xml", "lxml", "minidom"}, path
        if _calls(tree) & {f"ElementTree.{name}" for name in parsers}:
            assert "from defusedxml import ElementTree" in path.read_text()
