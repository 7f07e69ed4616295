"""Tests of what the samples say in numbers."""

from __future__ import annotations

from helpers.predictions import made_up_prediction, with_classes

from tf_probunet.predict.summary import presence, summary

_NAMES = ["background", "vessel", "lesion"]


def test_without_a_background_nothing_is_absent(hu_model):
    model, prediction = with_classes(hu_model, ["a", "b", "c"]), made_up_prediction(3)
    assert presence(prediction, model) is None

    class Config:
        seed = 0

    described = summary(prediction, model, Config)
    assert list(described["classes"]) == ["a", "b", "c"]
    total = sum(area["pixels"] for area in described["hypotheses"][0]["areas"].values())
    assert total == 96
