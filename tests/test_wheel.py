"""The wheel: what is in it, and the command `tf_probunet` in a fresh environment."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import numpy as np
import PIL.Image
import pytest

import tf_probunet

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FLAG_FILES = {path.name for path in _ROOT.glob("*.flags")}
# Whatever an earlier build, a test or the user has left in the checkout.
_NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv*", "runs", "build", "dist", "*.egg-info", "__pycache__", ".*cache")
)


def _run(*words: object, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    # Neither this checkout nor the user's settings are visible.
    hidden = ("PYTHONPATH", "TF_PROBUNET_TRACEBACK")
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if k not in hidden},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel of a copy of this checkout, built with what is installed here."""
    work = tmp_path_factory.mktemp("wheel")
    shutil.copytree(_ROOT, work / "checkout", ignore=_NOT_COPIED)
    done = _run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--wheel-dir=.", "./checkout"),
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    (path,) = work.glob("tf_probunet-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> pathlib.Path:
    """An environment with the wheel, which borrows all other packages from here."""
    path = tmp_path_factory.mktemp("environment")
    done = _run(sys.executable, "-m", "venv", "--without-pip", path, cwd=path)
    assert done.returncode == 0, done.stderr
    python = path / "bin" / "python"
    done = _run(
        *(sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet"),
        *("--no-deps", "--no-index", wheel),
        cwd=path,
    )
    assert done.returncode == 0, done.stderr
    (packages,) = path.glob("lib/python*/site-packages")
    # Python does not read the .pth files there, and so not one of this checkout.
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)))
    return path


@pytest.fixture
def empty(tmp_path) -> pathlib.Path:
    path = tmp_path / "empty"
    path.mkdir()
    return path


def _below(directory: str) -> set[str]:
    """Returns the files of a directory of the checkout, relative to it."""
    return {
        str(path.relative_to(_ROOT / directory))
        for path in (_ROOT / directory).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_everything_is_in_the_wheel_and_nothing_else(wheel):
    expected = {f"tf_probunet/{name}" for name in _below("tf_probunet")}
    expected |= {f"tf_probunet/pretrained/{name}" for name in _below("data/pretrained")}
    expected |= {f"tf_probunet/flag_files/{name}" for name in _FLAG_FILES}
    assert {"tf_probunet/flag_files/lidc.flags", "tf_probunet/__main__.py"} <= expected
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_the_command_is_installed(environment, empty):
    command, python = environment / "bin" / "tf_probunet", environment / "bin/python"
    for words in ([command], [python, "-m", "tf_probunet"]):
        done = _run(*words, "--version", cwd=empty)
        assert (done.stdout, done.stderr) == (f"{tf_probunet.__version__}\n", "")
    where = "import tf_probunet; print(tf_probunet.__file__)"
    done = _run(python, "-c", where, cwd=empty)
    assert pathlib.Path(done.stdout.strip()).is_relative_to(environment)


def test_help_has_the_same_flags_and_the_name_of_the_command(environment, empty):
    command = environment / "bin" / "tf_probunet"
    installed = _run(command, "train", "--flagfile=phantom.flags", "--help", cwd=empty)
    script = _run(sys.executable, _ROOT / "run" / "train.py", "--help", cwd=empty)
    assert installed.returncode == script.returncode == 0, installed.stderr
    assert "\ntf_probunet train --flagfile=phantom.flags\n" in installed.stdout
    assert installed.stdout == script.stdout.replace(
        "python run/train.py", "tf_probunet train"
    )


def test_predicts_from_an_empty_directory(environment, empty):
    rows, cols = np.mgrid[:128, :128]
    inside = (rows - 64) ** 2 + (cols - 64) ** 2 < 8**2
    pixels = np.where(inside, 153, 26).astype(np.uint8)
    pixels[0, :2] = 0, 255
    PIL.Image.fromarray(pixels).save(empty / "disc.png")
    words = ["--input=disc.png", "--out_dir=out", "--num_samples=4"]
    command = environment / "bin" / "tf_probunet"
    done = _run(command, "predict", *words, cwd=empty)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["results: out"]), (
        done.stderr
    )
    paths = sorted((empty / "out" / "disc").glob("sample_*.png"))
    assert len(paths) == 4
    marked = np.stack([np.array(PIL.Image.open(path)) for path in paths])
    assert marked[:, inside].mean() > 0.2 > 0.02 > marked[:, ~inside].mean()


def test_flag_files_are_found_from_an_empty_directory(environment, empty):
    command = environment / "bin" / "tf_probunet"
    done = _run(command, "train", "--flagfile=phantom.flags", cwd=empty)
    # It has read the name of the data from the flag file.
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: runs/phantom: "), line
    assert "tf_probunet prepare-phantom --out_dir=runs/phantom" in line
    assert list(empty.iterdir()) == []
