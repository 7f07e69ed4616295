"""The settings of conversions: they are what the converters take, with limits."""

import dataclasses
import inspect

import pytest

from tf_probunet.export import onnx, tflite
from tf_probunet.export.config import ConversionConfig, TFLiteConfig


@pytest.mark.parametrize(
    "config, function",
    [(ConversionConfig, onnx.export_onnx), (TFLiteConfig, tflite.export_tflite)],
)
def test_settings_are_the_arguments_of_the_converter(config, function):
    names = {field.name for field in dataclasses.fields(config)}
    assert names == set(inspect.signature(function).parameters)


def test_a_size_and_a_checkpoint_have_limits():
    with pytest.raises(ValueError, match="image_size is -16, expected at least 0"):
        ConversionConfig(image_size=-16)
    with pytest.raises(ValueError, match="checkpoint is 'first', expected one of"):
        TFLiteConfig(checkpoint="first")
