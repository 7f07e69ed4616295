"""A SavedModel of one lane in the other, both ways: `make test-lanes` has both."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from helpers import goldens, lanes

# Largest difference of a probability; the lanes add in another order: 8e-7 was found.
TOLERANCE = 1e-5


def _release(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])


def _other_python() -> pathlib.Path | None:
    """Finds an environment beside the tests whose TensorFlow is another release."""
    own = _release(importlib.metadata.version("tensorflow"))
    for path in sorted(lanes.ROOT.glob(".venv*/lib/*/site-packages/tensorflow-*")):
        _, _, version = path.name.removesuffix(".dist-info").partition("-")
        environment = path.parents[3]
        is_whole = (environment / ".installed").exists()
        if is_whole and path.suffix == ".dist-info" and _release(version) != own:
            return environment / "bin" / "python"
    return None


def _run(python: pathlib.Path | str, *words: object) -> dict[str, np.ndarray]:
    """Runs the helper with a Python; returns the arrays that it wrote."""
    _, directory, *rest = words
    # What this lane has set for its TensorFlow is not for the other's.
    left_out = ("TF_", "ONEDNN_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    command = [python, lanes.__file__, *map(str, words)]
    subprocess.run(command, env=environment, check=True, timeout=600)
    with np.load(rest[0] if rest else directory / "built.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What each lane wrote: {lane: (its Python, directory, samples of its models)}."""
    other = _other_python()
    if other is None:
        pytest.skip("only one lane is installed; `make test-lanes` installs both")
    found = {}
    for name, python in (("own", sys.executable), ("other", other)):
        directory = tmp_path_factory.mktemp(name)
        found[name] = python, directory, _run(python, "write", directory)
    return found


def _assert_close(found, expected, names):
    for name in names:
        difference = np.abs(found[name] - expected[name]).max()
        assert difference < TOLERANCE, f"{name}: {difference}"


def test_same_seed_builds_the_same_model_in_both_lanes(built):
    names = [golden.name for golden in goldens.GOLDENS]
    _assert_close(built["own"][2], built["other"][2], names)


@pytest.mark.parametrize("writer, reader", [("own", "other"), ("other", "own")])
def test_saved_model_of_one_lane_gives_its_samples_in_the_other(
    built, writer, reader, tmp_path
):
    _, directory, expected = built[writer]
    found = _run(built[reader][0], "read", directory, tmp_path / "read.npz")
    _assert_close(found, expected, expected)
    # The samples differ from one another by far more than the lanes do.
    spread = np.abs(np.diff(expected["prob_unet"], axis=1)).max()
    assert spread > 100 * TOLERANCE


def test_shipped_weights_give_the_same_samples_in_both_lanes(built, tmp_path):
    empty = tmp_path / "none"
    empty.mkdir()
    own, other = (
        _run(built[name][0], "read", empty, tmp_path / f"{name}.npz")
        for name in ("own", "other")
    )
    _assert_close(own, other, ["lidc_cpu"])
