"""The README's commands, run in their order with tiny data and few steps."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np
import PIL.Image
import pydicom
import pytest
from helpers import documents
from helpers.dicom_writer import (
    ct_message,
    nodule,
    region,
    sop_uid,
    square,
    write_series,
)

_ROOT = documents.ROOT
_README = (_ROOT / "README.md").read_text(encoding="utf-8")
_LINES = [
    line
    for block in documents.blocks(_README, "", "bash", "sh", "console")
    for line in documents.lines(block)
]
_TINY = (
    "--base_channels=4 --num_scales=4 --convs_per_block=1 --steps=2 --batch_size=2 "
    "--kl_warmup_steps=1 --validate_every=2 --validation_images=1"
)
# What each command gets on top, so that it takes seconds.
_ADDED = {
    "train": _TINY,
    "prepare_lidc": "--split_file=splits.json",
    "compare_settings": f"--seeds=0 --common='{_TINY}'",
}
# Programs that are not commands of this package, and what is run in their place.
_INSTEAD = {
    "make demo": ["run/demo.py", "--steps=2", "--num_train=20", "--num_test=4"],
    "make test": ["-m", "pytest", "-q", str(_ROOT / "tests" / "test_seeds.py")],
    ".venv/bin/tensorboard --logdir=runs": [
        *("-m", "tensorboard.main", "--inspect", "--logdir=runs")
    ],
}


def _words(line: str) -> list[str]:
    """Returns what is typed behind `python` for a command of the README."""
    plain = shlex.join(shlex.split(line, comments=True))
    if plain in _INSTEAD:
        return _INSTEAD[plain]
    python, script, *words = shlex.split(plain)
    name = pathlib.PurePath(script).stem
    assert (python, script) == ("python", f"run/{name}.py"), f"how to run {line!r}?"
    words += shlex.split(_ADDED.get(name, ""))
    return [script, *(word.replace("=/data/", "=data/") for word in words)]


def _run(words: list[str], cwd: pathlib.Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _write_lidc(folder: pathlib.Path) -> dict[str, list[str]]:
    """Writes scans of three patients with a lesion each; returns their split."""
    split = {}
    for number, name in enumerate(("train", "val", "test")):
        patient, series = f"LIDC-IDRI-{number:04d}", f"1.2.{number}"
        rng = np.random.default_rng(number)
        slices = rng.integers(-900, -700, [5, 192, 192])
        slices[1:4, 90:106, 90:106] = 50
        write_series(folder / patient, list(slices), series_uid=series, patient=patient)
        outlines = [
            region(sop_uid(k, series), -100 + 2 * k, square(90, 90, 16))
            for k in range(1, 4)
        ]
        readings = [[nodule("a", *outlines)]] * 3 + [[]]
        (folder / patient / "a.xml").write_text(ct_message(readings, series))
        split[name] = [patient]
    return split


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> pathlib.Path:
    """A directory as a newcomer's checkout, with the data the README speaks of."""
    path = tmp_path_factory.mktemp("readme")
    (path / "run").symlink_to(_ROOT / "run")
    (path / "splits.json").write_text(
        json.dumps(_write_lidc(path / "data" / "LIDC-IDRI"))
    )
    _run(
        [
            "run/prepare_street_phantom.py",
            "--out_dir=data/cityscapes",
            "--images_per_city=1",
        ],
        path,
    )
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 60, [128, 128]).astype(np.uint8)
    pixels[56:72, 56:72] = 200
    PIL.Image.fromarray(pixels).save(path / "slice.png")
    hounsfield = rng.integers(-900, -700, [320, 400])
    hounsfield[200:220, 290:310] = 50
    for file in write_series(path / "series", [hounsfield] * 41):
        dataset = pydicom.dcmread(file)
        dataset.FrameOfReferenceUID = "1.2.3"  # DICOM segmentations need it.
        dataset.save_as(file)
    shutil.copy(file, path / "slice.dcm")
    return path


@pytest.mark.slow
def test_the_commands_of_the_readme_in_their_order(place):
    assert len(_LINES) > 10
    for line in _LINES:
        if "runs/other_results" in line:  # Another model's, on the same data.
            shutil.copytree(place / "runs/lidc_results", place / "runs/other_results")
        printed = _run(_words(line), place)
        assert printed.strip(), line
    # The last ones of each kind have left what they promise.
    assert (place / "explorer.html").stat().st_size > 10_000
    results = json.loads((place / "runs/lidc_results/results.json").read_text("utf-8"))
    assert set(results["ged"]) == {"1", "4", "8", "16"}
    assert (place / "runs/lidc_settings/table.md").read_text("utf-8").count("\n") == 5


@pytest.mark.slow
def test_the_python_of_the_readme(place):
    if not (place / "runs" / "demo").exists():
        _run(_INSTEAD["make demo"], place)
    image = "import numpy as np\nimage = np.full([48, 48], 0.5, np.float32)\n"
    (block,) = documents.blocks(_README, "python")
    printed = _run(["-c", f"{image}{block}\nprint(np.shape(samples))\n"], place)
    assert printed.splitlines()[-1] == "(16, 48, 48)"


def test_every_line_of_the_readme_can_be_run_here():
    for line in _LINES:
        assert _words(line)[0], line
