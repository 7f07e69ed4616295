"""Settings for the two lanes of TensorFlow releases, which docs/lanes.md explains.

This module does not import TensorFlow, because the settings must be made before that.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import os
import platform
import sys
import types
from collections.abc import Iterator, Sequence

# arch_prctl(ARCH_GET_XCOMP_SUPP) of Linux on x86-64, and the bit of AMX's registers.
_ARCH_PRCTL, _GET_SUPPORTED, _TILES = 158, 0x1021, 1 << 18
# TensorFlow 2.16 and later print this before they read TF_CPP_MIN_LOG_LEVEL.
_NOTICES = (b"I0000 ", b"WARNING: All log messages before absl::InitializeLog()")


def prepare() -> None:
    """Sets the variables that TensorFlow reads; keeps those the user has set."""
    # 3 hides the start-up messages about missing CUDA libraries; 2 does not.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "0":
        if not any(isinstance(finder, _QuietTensorFlow) for finder in sys.meta_path):
            sys.meta_path.insert(0, _QuietTensorFlow())
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # Some virtual machines claim AMX without having it, and bfloat16 would fail.
    if not _system_has_amx():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    # TensorFlow 2.15 has Keras 2, and fails if this is set without tf_keras.
    if importlib.util.find_spec("tf_keras"):
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def require_keras_2(keras: types.ModuleType) -> None:
    """Checks that TensorFlow uses Keras 2.

    Args:
        keras: `tf.keras`.

    Raises:
        ImportError: it is Keras 3.
    """
    # tf_keras has no version there.
    version = getattr(keras, "__version__", "2")
    if version.startswith("2"):
        return
    if importlib.util.find_spec("tf_keras"):
        help_text = (
            "import tf_probunet before tensorflow and keras, or set "
            "TF_USE_LEGACY_KERAS=1 before Python starts"
        )
    else:
        help_text = "pip install tf_keras, of the same version as TensorFlow"
    raise ImportError(
        f"tf.keras is Keras {version}, expected Keras 2 (tf_keras): {help_text}"
    )


def _system_has_amx() -> bool:
    """Returns whether Linux supports AMX; true if unknown."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return True
    supported = ctypes.c_uint64()
    failed = ctypes.CDLL(None).syscall(
        _ARCH_PRCTL, _GET_SUPPORTED, ctypes.byref(supported)
    )
    # Before 5.16, Linux knew neither AMX nor this question.
    return not failed and bool(supported.value & _TILES)


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    """Hides the notices that TensorFlow prints while it is imported."""

    _searching = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow" or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def quietly(module: types.ModuleType) -> None:
                with _without_notices():
                    execute(module)

            spec.loader.exec_module = quietly  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Buffers standard error, and then prints everything except the notices."""
    import tempfile

    try:
        standard_error = os.dup(2)
    except OSError:  # There is none.
        yield
        return
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            held_back.seek(0)
            others = [line for line in held_back if not line.startswith(_NOTICES)]
            if others:
                os.write(2, b"".join(others))
