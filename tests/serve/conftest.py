"""SavedModels with a closed form, and files to upload."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import pretrained, saved_model


@pytest.fixture(scope="session")
def ct_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on Hounsfield units; its images have multiples of 8 pixels."""
    path = tmp_path_factory.mktemp("ct") / "ct_model"
    return saved_model.load(save_threshold_model(path))


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on 8-bit pictures; without latents."""
    path = tmp_path_factory.mktemp("picture") / "picture_model"
    return saved_model.load(
        save_threshold_model(path, intensity="uint8", with_latents=False)
    )


@pytest.fixture(scope="session")
def shipped_model() -> saved_model.LoadedModel:
    """Of crops of 64x64 pixels; chooses stratified sets by what they show."""
    return saved_model.load(pretrained.model_path())


@pytest.fixture(scope="session")
def scan() -> np.ndarray:
    """Hounsfield units that rise from one side to the other, [16, 16] float32."""
    return np.tile(np.linspace(-1000, 400, 16, dtype=np.float32), (16, 1))


@pytest.fixture(scope="session")
def upload(scan: np.ndarray) -> bytes:
    """The same as an NPY file."""
    buffer = io.BytesIO()
    np.save(buffer, scan)
    return buffer.getvalue()
