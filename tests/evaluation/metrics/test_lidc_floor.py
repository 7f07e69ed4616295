from __future__ import annotations

import io
import os
import pathlib
import tarfile

import numpy as np
import pytest
from PIL import Image

from tf_probunet.evaluation.metrics import ambiguity, baselines, ged

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = pathlib.Path(
    os.environ.get("TF_PROBUNET_REAL_DATA", ROOT.parent / "shared/data")
)


def read_graders() -> np.ndarray:
    """The validation patients' masks, [N, 4, 128, 128]."""
    patients = set((DATA / "lidc_slices.val_patients.txt").read_text().split())
    graders = {}
    with tarfile.open(DATA / "lidc_slices.tar.xz", "r|xz") as archive:
        for member in archive:
            parts = pathlib.PurePosixPath(member.name).parts
            if len(parts) == 5 and parts[1] in patients and "mask" in parts[3]:
                mask = np.asarray(
                    Image.open(io.BytesIO(archive.extractfile(member).read()))
                )
                key = (parts[1], parts[2], parts[4])
                graders.setdefault(key, {})[parts[3]] = mask > 127
    return np.array([[g[f"mask-{k}"] for k in range(4)] for g in graders.values()])


@pytest.mark.slow
@pytest.mark.real_data
def test_floor_and_baselines_on_lidc():
    if not (DATA / "lidc_slices.tar.xz").exists():
        pytest.skip(f"no lidc_slices.tar.xz in {DATA}")
    graders = read_graders()
    assert len(graders) == 2231
    floor = ged.grader_floor(graders, (1, 4, 8, 16, 100)).mean(0)
    np.testing.assert_allclose(floor, [0.658, 0.263, 0.197, 0.164, 0.137], atol=5e-4)
    assert ambiguity.is_ambiguous(graders).mean() == pytest.approx(0.701, abs=5e-4)
    scores = {
        function: ged.energy_terms(function(graders, 16), graders).energy_distance
        for function in (baselines.always_empty, baselines.majority)
    }
    assert scores[baselines.always_empty].mean() == pytest.approx(0.849, abs=5e-4)
    assert scores[baselines.majority].mean() == pytest.approx(0.271, abs=5e-4)
