"""Tests of what must be set before TensorFlow is imported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types

import pytest

from tf_probunet import lane

_HAS_TF_KERAS = importlib.util.find_spec("tf_keras") is not None
_SETTINGS = (
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_LEGACY_KERAS",
    "ONEDNN_MAX_CPU_ISA",
)


def _python(code: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs code in a Python that has none of the settings of this one."""
    environment = {k: v for k, v in os.environ.items() if k not in _SETTINGS}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def no_settings(monkeypatch):
    """As if nothing was set; undone after the test."""
    for name in _SETTINGS:
        monkeypatch.setenv(name, "")
        del os.environ[name]


def test_tensorflow_is_imported_without_a_word():
    code = (
        "import tf_probunet, tensorflow as tf\n"
        "assert tf.reduce_sum(tf.ones([3])) == 3\n"
        "import tensorflow_probability"
    )
    done = _python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_the_notices_are_kept_away(capfd):
    with lane._without_notices():
        os.write(2, b"I0000 00:00:17 1 port.cc:153] oneDNN is on\nE0000 bad\nother\n")
    assert capfd.readouterr().err == "E0000 bad\nother\n"


def test_what_is_written_before_an_error_is_shown(capfd):
    with pytest.raises(ImportError, match="broken"):
        with lane._without_notices():
            os.write(2, b"a reason\n")
            raise ImportError("broken")
    assert capfd.readouterr().err == "a reason\n"


@pytest.mark.parametrize("installed", [True, False])
def test_legacy_keras_is_asked_for_where_it_is_installed(
    no_settings, monkeypatch, installed
):
    spec = types.SimpleNamespace() if installed else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    lane.prepare()
    assert os.environ.get("TF_USE_LEGACY_KERAS") == ("1" if installed else None)


def test_settings_of_the_user_win(no_settings, monkeypatch):
    for name in _SETTINGS:
        monkeypatch.setenv(name, "0")
    lane.prepare()
    assert {os.environ[name] for name in _SETTINGS} == {"0"}


@pytest.mark.parametrize("has_amx, limit", [(True, None), (False, "AVX512_CORE_FP16")])
def test_amx_is_used_only_where_the_system_has_it(
    no_settings, monkeypatch, has_amx, limit
):
    monkeypatch.setattr(lane, "_system_has_amx", lambda: has_amx)
    lane.prepare()
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == limit


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_amx_is_what_linux_lists():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        lines = [line for line in info if line.startswith("flags")]
    if not lines:
        pytest.skip("no x86 processor")
    assert lane._system_has_amx() == ("amx_tile" in lines[0].split())


@pytest.mark.skipif(not _HAS_TF_KERAS, reason="needs Keras 3, as in the current lane")
def test_keras_3_is_refused_with_what_to_do():
    code = (
        "import tensorflow as tf\n"
        "tf.keras.Model\n"
        "import tf_probunet.evaluation.metrics.ged\n"  # Has nothing to do with Keras.
        "import tf_probunet.models.base"
    )
    done = _python(code, TF_CPP_MIN_LOG_LEVEL="3")
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("ImportError: tf.keras is Keras 3.")
    assert "import tf_probunet before tensorflow" in error


def test_tensorflow_may_come_first_while_its_keras_is_not_used():
    code = "import tensorflow, tf_probunet.models.prob_unet"
    done = _python(code)
    assert done.returncode == 0, done.stderr


def test_keras_3_without_tf_keras_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    keras = types.SimpleNamespace(__version__="3.15.1")
    with pytest.raises(ImportError, match="Keras 3.15.1, expected .* pip install tf_k"):
        lane.require_keras_2(keras)
