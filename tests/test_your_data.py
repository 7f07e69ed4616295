"""The six commands of docs/your_data.md, on drawn eyes."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys

import PIL.Image
import pytest
from helpers import documents, folders

from tf_probunet.config import FundusConfig
from tf_probunet.dataset import records
from tf_probunet.preparation import fundus_phantom
from tf_probunet.preparation.folder import tables
from tf_probunet.preparation.folder.classes import read as read_classes
from tf_probunet.preparation.folder.config import LAYOUTS

_TEXT = (documents.ROOT / "docs" / "your_data.md").read_text(encoding="utf-8")
_FIRST, _SIX = (documents.lines(b) for b in documents.blocks(_TEXT, "")[:2])
# Few pictures and steps; nothing else is changed.
_ADDED = {
    "prepare_fundus_phantom": ["--num_patients=6"],
    "train": ["--steps=3", "--kl_warmup_steps=1", "--batch_size=2"],
}


def _run(line: str, place: pathlib.Path) -> str:
    python, script, *words = shlex.split(line)
    name = pathlib.PurePath(script).stem
    assert (python, script) == ("python", f"run/{name}.py")
    done = subprocess.run(
        [sys.executable, str(documents.ROOT / script), *words, *_ADDED.get(name, [])],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(documents.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_six_commands(tmp_path):
    (_first,), printed = _FIRST, {}
    for line in [_first, *_SIX]:
        printed[pathlib.PurePath(line.split()[1]).stem] = _run(line, tmp_path)
    assert len(_SIX) == 6
    runs = tmp_path / "runs"
    assert PIL.Image.open(next((runs / "eyes/images").iterdir())).size == (400, 300)
    info = records.read_info(runs / "mine")
    assert info.spec.class_names == fundus_phantom.CLASS_NAMES
    assert info.spec.image_shape == (96, 128, 3)
    assert 2 <= info.spec.fewest_graders < info.spec.num_graders <= 6
    assert "layout grader_suffixes" in printed["prepare_folder"]
    results = json.loads((runs / "mine_results" / "results.json").read_text("utf-8"))
    assert 0 <= results["ged"]["16"]["mean"] <= 2
    assert list((runs / "mine_figures").iterdir())
    assert (runs / "mine.html").stat().st_size > 10_000


def test_the_first_command_in_short(tmp_path):
    """The same settings, in this process and without a network."""
    config = FundusConfig(num_patients=3)
    fundus_phantom.write(tmp_path / "eyes", config)
    words = dict(w[2:].split("=", 1) for w in shlex.split(_SIX[0]) if "=" in w)
    settings = {name: words[name] for name in ("group_pattern", "resize")}
    report = folders.prepare(
        tmp_path / "eyes",
        tmp_path / "mine",
        settings=settings,
        classes_path=tmp_path / "eyes" / "classes.csv",
    )
    assert report["problems"] == {}
    examples = folders.read(tmp_path / "mine")
    assert len(examples) == 6 and {e.image.shape for e in examples.values()} == {
        (96, 128, 3)
    }
    for key, example in sorted(examples.items())[::3]:
        assert example.group == key[: len("patient_0001")]
        image, drawn = fundus_phantom.draw(key, config)
        assert len(example.labels) == len(drawn)
        for found, labels in zip(example.labels, drawn.values()):
            # Shares of classes survive the resampling.
            for label in range(3):
                share = (labels == label).mean()
                assert abs((found == label).mean() - share) < 0.004
        assert abs(example.image.mean() - image.mean()) < 0.5


def test_the_tables_of_the_page_hold(tmp_path):
    wide, long, classes = documents.blocks(_TEXT, "csv")
    for text, columns in ((wide, 5), (long, 3)):
        (tmp_path / "list.csv").write_text(text)
        names, rows = tables.read(tmp_path / "list.csv", "list")
        assert len(names) == columns and len(rows) == 2
    (tmp_path / "classes.csv").write_text(classes)
    found = read_classes(tmp_path / "classes.csv")
    assert found.names == ("background", "disc", "cup") and found.ignore_label == 255
    for layout in LAYOUTS:
        assert f"| `{layout}` |" in _TEXT
