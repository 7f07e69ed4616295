"""Loads SavedModels of `run/export.py`, with all that they say about themselves."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import damage, files
from tf_probunet.artifacts import checksums
from tf_probunet.config import MAX_SIZE_DIVISOR, NATIVE_LIDC_MM, DataConfig, ModelConfig
from tf_probunet.dataset import cityscapes_labels

_GRAPH_NAME = "saved_model.pb"
_METADATA = {
    "model": [str],
    "max_samples": [int, type(None)],
    "is_stochastic": [bool],
    "size_divisor": [int],
    "parameters": [int],
}
_DATASET = {
    "name": [str],
    "fingerprint": [str],
    "class_names": [list],
    "intensity": [str],
    "preparation": [dict],
}


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A SavedModel and its assets.

    Attributes:
        path: where it lies.
        network: its configuration.
        data: how examples become inputs.
        metadata: which signatures there are, and the like.
        dataset: what it was trained on.
        module: as `tf.saved_model.load` gives it.
    """

    path: pathlib.Path
    network: ModelConfig
    data: DataConfig
    metadata: dict[str, Any]
    dataset: dict[str, Any]
    module: Any

    @property
    def size_divisor(self) -> int:
        """Heights and widths must be multiples of this."""
        return self.metadata["size_divisor"]

    @property
    def spacing_mm(self) -> float | None:
        """The size of a pixel that it was trained on, where that is fixed."""
        return self.dataset["preparation"].get("spacing_mm")

    @property
    def input_spacing_mm(self) -> float | None:
        """The size of a pixel that its inputs should have, where one is known.

        The PNG slices of LIDC have each scan's own; a typical one is assumed then.
        """
        if self.spacing_mm is None and self.has_rescaled_images:
            return NATIVE_LIDC_MM
        return self.spacing_mm

    @property
    def camera_frame(self) -> tuple[int, int] | None:
        """Height and width that camera frames were resized to, if it knows only those.

        Streets are seen from one car: an object's size in pixels means something.
        """
        shape = self.dataset.get("image_shape")
        if self.data.task != "switched" or self.data.frame_size or shape is None:
            return None
        return shape[0], shape[1]

    @property
    def is_lidc(self) -> bool:
        """Whether it was trained on LIDC-IDRI: on crops with a lesion in the middle."""
        return self.dataset["name"].startswith("lidc")

    @property
    def has_rescaled_images(self) -> bool:
        """Whether each training picture was rescaled to its own range.

        The PNG slices of LIDC were: the least value is black, the largest white.
        """
        return self.dataset["preparation"].get("format") == "png_slices"

    @property
    def class_names(self) -> list[str]:
        """The names of the labels 0, 1, ..."""
        if self.data.task == "switched":
            return list(cityscapes_labels.CLASS_NAMES)
        return list(self.dataset["class_names"])

    @property
    def has_background(self) -> bool:
        """Whether label 0 means that nothing is there."""
        return self.class_names[0] == "background"

    def has(self, function: str) -> bool:
        """Whether there is a function such as `prior` or `decode`."""
        return callable(getattr(self.module, function, None))

    def call(self, function: str, *tensors: Any, about: str) -> dict[str, np.ndarray]:
        """Calls a function.

        Args:
            function: its name.
            *tensors: its inputs.
            about: the file or key that the inputs come from, for error messages.

        Raises:
            ValueError: the model fails on the inputs.
        """
        try:
            outputs = getattr(self.module, function)(*tensors)
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
    path = pathlib.Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such directory, expected a SavedModel")
    if not (path / _GRAPH_NAME).is_file():
        raise FileNotFoundError(f"{path}: not a SavedModel (it has no {_GRAPH_NAME})")
    checksums.check(path)
    network, data = _read_config(path)
    metadata = _read_asset(path, "metadata.json", _METADATA)
    dataset = _read_asset(path, "dataset.json", _DATASET)
    try:
        with files.without_patterns(path) as plain:
            module = tf.saved_model.load(str(plain))
    except tf.errors.OpError as error:
        reason = damage.graph_reason(error)
        raise ValueError(f"{path}: damaged SavedModel ({reason})") from error
    # For damaged graphs TensorFlow raises all kinds of errors, internal ones too.
    except Exception as error:
        reason = damage.reason(error)
        raise ValueError(f"{path}: damaged SavedModel ({reason})") from error
    model = LoadedModel(path, network, data, metadata, dataset, module)
    _check_values(model)
    if not model.has("sample"):
        raise ValueError(
            f"{path}: a SavedModel without the function `sample`, expected one of "
            "run/export.py"
        )
    return model


def _read_config(path: pathlib.Path) -> tuple[ModelConfig, DataConfig]:
    """Reads what matters after the training; its settings may be of other versions."""
    file = path / "assets" / "config.json"
    if not file.is_file():
        raise ValueError(
            f"{path}: a SavedModel without assets/config.json, expected one of "
            "run/export.py"
        )
    sections = files.read_json(file, "configuration")
    try:
        model = ModelConfig.without_dropped(sections["model"])
        return ModelConfig(**model), DataConfig(**sections["data"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file}: does not fit this version ({damage.reason(error)})"
        ) from error


def _read_asset(
    path: pathlib.Path, name: str, fields: dict[str, list[type]]
) -> dict[str, Any]:
    file = path / "assets" / name
    found = files.read_json(file, "description in a SavedModel")
    files.check_fields(found, fields, file)
    return found


def _check_values(model: LoadedModel) -> None:
    """Checks what the types alone do not say."""
    file = model.path / "assets"
    names, spacing = model.dataset["class_names"], model.spacing_mm
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{file / 'dataset.json'}: class_names are no list of names")
    if spacing is not None and not (
        type(spacing) in (int, float) and 0 < spacing < math.inf
    ):
        raise ValueError(f"{file / 'dataset.json'}: spacing_mm is no size in mm")
    shape = model.dataset.get("image_shape", [1, 1, 1])
    if not (
        isinstance(shape, list)
        and len(shape) == 3
        and all(type(side) is int and side > 0 for side in shape)
    ):
        raise ValueError(f"{file / 'dataset.json'}: image_shape is no [H, W, C]")
    if not 1 <= model.size_divisor <= MAX_SIZE_DIVISOR:
        raise ValueError(
            f"{file / 'metadata.json'}: size_divisor is {model.size_divisor}, expected "
            f"1 to {MAX_SIZE_DIVISOR}"
        )
    most = model.metadata["max_samples"]
    if most is not None and most < 1:
        raise ValueError(
            f"{file / 'metadata.json'}: max_samples is {most}, expected at least 1"
        )
