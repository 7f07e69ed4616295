"""SavedModels with a closed form, saved once for all tests of the prediction."""

from __future__ import annotations

import pathlib

import pytest
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import saved_model
from tf_probunet.predict import picture


@pytest.fixture
def quick_pictures(monkeypatch):
    """Leaves the pictures to their own tests, and to that of the command."""
    monkeypatch.setattr(picture, "render", lambda *_: b"")


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


@pytest.fixture(scope="session")
def frame_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on PNG slices of LIDC: of frames of 32 the network sees the middle 16."""
    return _load(
        tmp_path_factory.mktemp("frame") / "model",
        intensity="uint8",
        eval_size=16,
        scored_size=32,
        name="lidc_png_slices",
        source_format="png_slices",
    )


@pytest.fixture(scope="session")
def street_model(tmp_path_factory: pytest.TempPathFactory) -> saved_model.LoadedModel:
    """Trained on whole street scenes, reduced to 16x32 pixels."""
    return _load(
        tmp_path_factory.mktemp("street") / "model",
        intensity="uint8",
        eval_size=0,
        name="cityscapes",
        channels=3,
        camera_frame=(16, 32),
    )


def _load(path: pathlib.Path, **settings) -> saved_model.LoadedModel:
    return saved_model.load(save_threshold_model(path, **settings))
