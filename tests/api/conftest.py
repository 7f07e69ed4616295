"""What the tests of the public functions share."""

from __future__ import annotations

import numpy as np
import pytest

import tf_probunet as pu


@pytest.fixture(scope="session")
def lidc() -> pu.Predictor:
    """The model that comes with the repository."""
    return pu.load("lidc_cpu")


@pytest.fixture(scope="session")
def lesion() -> np.ndarray:
    """A bright disc in the middle of a dark frame, [128, 128] uint8."""
    rows, columns = np.mgrid[:128, :128]
    return np.where(np.hypot(rows - 64, columns - 64) < 6, 150, 30).astype(np.uint8)
