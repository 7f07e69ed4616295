"""Tests of what is refused before anything is read."""

from __future__ import annotations

import pytest

from tf_probunet.predict.config import PredictConfig


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_samples": 0}, "num_samples is 0, expected at least 1"),
        ({"hypotheses": 0}, "hypotheses is 0, expected at least 1"),
        ({"sampling": "sobol"}, "sampling is 'sobol', expected one of independent"),
        ({"seed": 2**31}, "seed is 2147483648, expected below 2147483648"),
        ({"output_format": "jpeg"}, "output_format is 'jpeg', expected one of auto"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        PredictConfig(**settings)
