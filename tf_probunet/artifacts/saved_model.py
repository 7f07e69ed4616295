"""Loads SavedModels written by `run/export.py`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import damage, files
from tf_probunet.artifacts.saved_model_dir import Description, SavedModelDir


@dataclasses.dataclass(frozen=True)
class LoadedModel(Description):
    """A SavedModel that can be called.

    Attributes:
        module: as `tf.saved_model.load` returns it. Its functions take whole frames.
    """

    module: Any

    @property
    def functions(self) -> Any:
        """An object with the functions of the network itself, without frames.

        They take images of any height and width that are multiples of `size_divisor`.
        Older exports have no others.
        """
        return getattr(self.module, "network", self.module)

    def has(self, function: str) -> bool:
        """Whether there is a function such as `prior` or `decode`."""
        return callable(getattr(self.functions, function, None))

    def call(self, function: str, *tensors: Any, about: str) -> dict[str, np.ndarray]:
        """Calls a function of the network.

        Args:
            function: its name.
            *tensors: its inputs. Images are what the network sees, not whole frames.
            about: the file or key that the inputs come from, for error messages.

        Raises:
            ValueError: the model fails on the inputs.
        """
        try:
            outputs = getattr(self.functions, function)(*tensors)
        except tf.errors.OpError as error:
            reason = damage.graph_reason(error)
            raise ValueError(
                f"{about}: {function} of {self.path} fails on it ({reason})"
            ) from error
        return {name: value.numpy() for name, value in outputs.items()}


def load(path: files.Path) -> LoadedModel:
    """Loads a SavedModel.

    Args:
        path: its directory.

    Raises:
        FileNotFoundError: there is no SavedModel.
        ValueError: it was not written by `run/export.py`, or is damaged.
    """
    described = SavedModelDir(path).describe()
    try:
        with files.without_patterns(described.path) as plain:
            module = tf.saved_model.load(str(plain))
    except tf.errors.OpError as error:
        reason = damage.graph_reason(error)
        raise ValueError(f"{path}: damaged SavedModel ({reason})") from error
    # TensorFlow raises errors of all kinds for damaged graphs, even internal ones.
    except Exception as error:
        reason = damage.reason(error)
        raise ValueError(f"{path}: damaged SavedModel ({reason})") from error
    fields = dataclasses.fields(Description)
    values = {field.name: getattr(described, field.name) for field in fields}
    model = LoadedModel(**values, module=module)
    if not model.has("sample"):
        raise ValueError(
            f"{path}: a SavedModel without the function `sample`, expected one "
            "written by run/export.py"
        )
    return model
