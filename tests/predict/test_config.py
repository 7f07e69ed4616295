"""Tests of what is refused before anything is read."""

from __future__ import annotations

import pytest

from tf_probunet.predict.config import SHIPPED_MODEL, PredictConfig, model_path


def test_the_shipped_model_is_the_default(tmp_path):
    message = "lidc_cpu: the model that comes with the repository is not there"
    with pytest.raises(FileNotFoundError, match=message):
        model_path(None, tmp_path)
    (tmp_path / SHIPPED_MODEL).mkdir(parents=True)
    assert model_path(None, tmp_path) == tmp_path / "data" / "pretrained" / "lidc_cpu"
    assert str(model_path("runs/other", tmp_path)) == "runs/other"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_samples": 0}, "num_samples is 0, expected at least 1"),
        ({"group_iou": 1.5}, "group_iou is 1.5, expected at most 1"),
        ({"seed": 2**31}, "seed is 2147483648, expected below 2147483648"),
        ({"output_format": "jpeg"}, "output_format is 'jpeg', expected one of auto"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        PredictConfig(**settings)
