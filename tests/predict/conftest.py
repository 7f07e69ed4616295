"""SavedModels with a closed form, saved once for all tests of the prediction."""

from __future__ import annotations

import pathlib

import pytest
from helpers.threshold_model import save_threshold_model

from tf_probunet import saved_model


@pytest.fixture(scope="session")
def hu_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on Hounsfield units, without a known pixel size."""
    return _load(tmp_path_factory.mktemp("hu") / "model")


@pytest.fixture(scope="session")
def mm_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on Hounsfield units at 0.5 mm."""
    return _load(tmp_path_factory.mktemp("mm") / "model", spacing_mm=0.5)


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on 8-bit pictures; it has 3 samples and no latents."""
    return _load(
        tmp_path_factory.mktemp("picture") / "model",
        intensity="uint8",
        with_latents=False,
        max_samples=3,
    )


def _load(path: pathlib.Path, **settings) -> saved_model.LoadedModel:
    return saved_model.load(save_threshold_model(path, **settings))
