"""The end of the demonstration: a SavedModel without this package, in silence."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import demo_reload


def test_areas_of_samples_and_no_notices(tmp_path):
    rows, columns = np.mgrid[:128, :128]
    near = np.hypot(rows - 64, columns - 64) < 7
    images = np.where(near, 0.6, 0.1)[None, ..., None].astype(np.float32)
    np.savez(tmp_path / "samples.npz", images=images)
    environment = {k: v for k, v in os.environ.items() if k[:3] not in ("TF_", "PYT")}
    done = subprocess.run(
        [sys.executable, demo_reload.__file__, pretrained.model_path(), "samples.npz"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    start, areas = done.stdout.split(": ")
    assert start == "16 samples of one image, in pixels"
    areas = [int(area) for area in areas.split(", ")]
    assert len(areas) == 16 and 20 < np.median(areas) < 500 < 64 * 64


def test_the_package_cannot_be_imported(monkeypatch):
    for name in list(sys.modules):  # Restored at the end.
        if name.partition(".")[0] == "tf_probunet":
            monkeypatch.setitem(sys.modules, name, sys.modules[name])
    demo_reload._forbid_package()
    with pytest.raises(ImportError):
        import tf_probunet.metrics  # noqa: F401
