"""The public names of the package, and that importing it is quick."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import tf_probunet as pu
from tf_probunet import metrics
from tf_probunet.models import registry


def test_importing_loads_neither_tensorflow_nor_matplotlib():
    code = (
        "import sys, tf_probunet as pu; dir(pu); pu.energy_distance; pu.evaluate; "
        "pu.plot_samples; "
        "sys.exit(bool({'tensorflow', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", pu.__all__)
def test_each_public_name_is_there_and_documented(name):
    value = getattr(pu, name)
    assert value.__name__ == name or name.startswith("switched_")
    assert inspect.getdoc(value)
    assert name in dir(pu)


def test_all_metrics_and_all_models_are_public():
    models = {entry.class_name for entry in registry.MODELS.values()}
    assert {*metrics.__all__} | models <= set(pu.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'tf_probunet' has no attribute 'lod'"):
        pu.lod  # noqa: B018
