"""The directory of a SavedModel: its layout, and what it says about itself.

Nobody else spells the names of its files. TensorFlow is not needed to read them.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

from tf_probunet import damage, files
from tf_probunet.artifacts import checksums
from tf_probunet.config import MAX_SIZE_DIVISOR, NATIVE_LIDC_MM, DataConfig, ModelConfig
from tf_probunet.dataset import task

# The assets. TensorFlow copies them into the SavedModel.
CONFIG_NAME = "config.json"
DATASET_NAME = "dataset.json"
METADATA_NAME = "metadata.json"
CARD_NAME = "README.md"
SCORES_NAME = "scores.json"

_GRAPH_NAME = "saved_model.pb"
_METADATA: dict[str, list[type]] = {
    "model": [str],
    "max_samples": [int, type(None)],
    "is_stochastic": [bool],
    "size_divisor": [int],
    "parameters": [int],
}
_DATASET: dict[str, list[type]] = {
    "name": [str],
    "fingerprint": [str],
    "class_names": [list],
    "intensity": [str],
    "preparation": [dict],
}


@dataclasses.dataclass(frozen=True)
class Description:
    """What a SavedModel says about itself.

    Attributes:
        path: its directory.
        network: the configuration of the network.
        data: how examples become inputs.
        metadata: the model's name, its signatures, the number of samples, and so on.
        dataset: the data set that the model was trained on.
    """

    path: pathlib.Path
    network: ModelConfig
    data: DataConfig
    metadata: dict[str, Any]
    dataset: dict[str, Any]

    @property
    def signatures(self) -> list[str]:
        """The names of the signatures."""
        return self.metadata.get("signatures", [])

    @property
    def num_latents(self) -> int:
        """The numbers of a latent; 0 if the model has none."""
        network = self.network
        return (network.latent_dim or 0) + bool(network.outline_stddev)

    @property
    def size_divisor(self) -> int:
        """Heights and widths that the network sees are multiples of this."""
        return self.metadata["size_divisor"]

    @property
    def spacing_mm(self) -> float | None:
        """The pixel size of the training images; None if it varied."""
        return self.dataset["preparation"].get("spacing_mm")

    @property
    def input_spacing_mm(self) -> float | None:
        """The pixel size that inputs should have; None if it is not known.

        The PNG slices of LIDC keep each scan's own pixel size. For them a typical size
        is assumed.
        """
        if self.spacing_mm is None and self.has_rescaled_images:
            return NATIVE_LIDC_MM
        return self.spacing_mm

    @property
    def camera_frame(self) -> tuple[int, int] | None:
        """The size that whole street scenes were reduced to; None for other models.

        All scenes show the street from a car, so an object's size in pixels matters.
        """
        shape = self.dataset.get("image_shape")
        if self.data.task != "switched" or self.data.frame_size or shape is None:
            return None
        return shape[0], shape[1]

    @property
    def is_lidc(self) -> bool:
        """Whether the model was trained on LIDC-IDRI: crops centred on a lesion."""
        return self.dataset["name"].startswith("lidc")

    @property
    def has_rescaled_images(self) -> bool:
        """Whether each training picture was rescaled to its own range of values.

        This holds for the PNG slices of LIDC.
        """
        return self.dataset["preparation"].get("format") == "png_slices"

    @property
    def intensity_rule(self) -> tuple[str, tuple[float, float] | None] | None:
        """How the preparation made 8-bit values of others; None if it did not.

        "window" with the values that became 0 and 255, or "minmax" or "percentiles" of
        each file.
        """
        preparation = self.dataset["preparation"]
        rule, window = preparation.get("intensity"), preparation.get("window")
        if rule == "window" and window is not None:
            return rule, (float(window[0]), float(window[1]))
        return (rule, None) if rule in ("minmax", "percentiles") else None

    @property
    def class_names(self) -> list[str]:
        """The names of the labels 0, 1, ..."""
        return list(task.class_names(self.dataset["class_names"], self.data.task))

    @property
    def has_background(self) -> bool:
        """Whether label 0 means that nothing is there."""
        return self.class_names[0] == "background"


class SavedModelDir:
    """A directory that holds a SavedModel, or will hold one."""

    def __init__(self, path: files.Path) -> None:
        self.path = pathlib.Path(path)

    @property
    def exists(self) -> bool:
        """Whether there is a SavedModel, of whatever origin."""
        return (self.path / _GRAPH_NAME).is_file()

    def asset(self, name: str) -> pathlib.Path:
        """Returns the path of an asset."""
        return self.path / "assets" / name

    def fingerprint(self) -> str:
        """Returns a short name for the content of all files."""
        return checksums.fingerprint(self.path)

    def describe(self) -> Description:
        """Reads what the SavedModel says about itself.

        Settings of the training may be those of another version: they do not matter
        any more.

        Raises:
            FileNotFoundError: there is no SavedModel.
            ValueError: it was not written by `run/export.py`, or is damaged.
        """
        if not self.path.is_dir():
            raise FileNotFoundError(
                f"{self.path}: no such directory, expected a SavedModel"
            )
        if not self.exists:
            raise FileNotFoundError(
                f"{self.path}: not a SavedModel (it has no {_GRAPH_NAME})"
            )
        checksums.check(self.path)
        network, data = self._read_config()
        metadata = self._read(METADATA_NAME, _METADATA)
        dataset = self._read(DATASET_NAME, _DATASET)
        description = Description(self.path, network, data, metadata, dataset)
        self._check(description)
        return description

    def history(self) -> list[dict[str, Any]]:
        """Returns how the weights came to be, the first training first.

        Each entry has the `config` of a training, and its `validation` or None.

        Raises:
            ValueError: the description is damaged.
        """
        metadata = self._read(METADATA_NAME, _METADATA)
        earlier = metadata.get("history", [])
        if not isinstance(earlier, list) or not all(
            isinstance(stage, dict) and isinstance(stage.get("config"), dict)
            for stage in earlier
        ):
            raise ValueError(
                f"{self.asset(METADATA_NAME)}: history is not a list of trainings"
            )
        last = {
            "config": files.read_json(self.asset(CONFIG_NAME), "configuration"),
            "validation": metadata.get("validation"),
        }
        return [*earlier, last]

    def scored_fingerprints(self) -> set[str]:
        """Returns the fingerprints that results of this model may name.

        They are its own one and, if its card shows scores, that of the same model
        before the scores were added.
        """
        found, file = {self.fingerprint()}, self.asset(SCORES_NAME)
        if file.is_file():
            scores = files.read_json(file, "scores in a SavedModel")
            files.check_fields(scores, {"model": [dict]}, file)
            files.check_fields(scores["model"], {"fingerprint": [str]}, file)
            found.add(scores["model"]["fingerprint"])
        return found

    def _read_config(self) -> tuple[ModelConfig, DataConfig]:
        file = self.asset(CONFIG_NAME)
        if not file.is_file():
            raise ValueError(
                f"{self.path}: a SavedModel without assets/{CONFIG_NAME}, expected "
                "one written by run/export.py"
            )
        sections = files.read_json(file, "configuration")
        try:
            model = ModelConfig.without_dropped(sections["model"])
            return ModelConfig(**model), DataConfig(**sections["data"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file}: does not fit this version ({damage.reason(error)})"
            ) from error

    def _read(self, name: str, fields: dict[str, list[type]]) -> dict[str, Any]:
        file = self.asset(name)
        found = files.read_json(file, "description in a SavedModel")
        files.check_fields(found, fields, file)
        return found

    def _check(self, found: Description) -> None:
        """Checks values that have the right type but make no sense."""
        dataset, metadata = self.asset(DATASET_NAME), self.asset(METADATA_NAME)
        if not _are_names(found.dataset["class_names"]):
            raise ValueError(f"{dataset}: class_names is not a list of names")
        spacing = found.spacing_mm
        if spacing is not None and not (
            type(spacing) in (int, float) and 0 < spacing < math.inf
        ):
            raise ValueError(f"{dataset}: spacing_mm is not a size in mm")
        shape = found.dataset.get("image_shape", [1, 1, 1])
        if not (
            isinstance(shape, list)
            and len(shape) == 3
            and all(type(side) is int and side > 0 for side in shape)
        ):
            raise ValueError(f"{dataset}: image_shape is not [H, W, C]")
        if found.signatures and not _are_names(found.signatures):
            raise ValueError(f"{metadata}: signatures is not a list of names")
        if not 1 <= found.size_divisor <= MAX_SIZE_DIVISOR:
            raise ValueError(
                f"{metadata}: size_divisor is {found.size_divisor}, expected 1 to "
                f"{MAX_SIZE_DIVISOR}"
            )
        most = found.metadata["max_samples"]
        if most is not None and most < 1:
            raise ValueError(f"{metadata}: max_samples is {most}, expected at least 1")


def write_assets(
    directory: pathlib.Path,
    *,
    config: dict[str, Any],
    dataset: dict[str, Any],
    metadata: dict[str, Any],
    card: str,
    scores: dict[str, Any] | None,
) -> list[pathlib.Path]:
    """Writes the files that become the assets of a SavedModel.

    Args:
        directory: where to write them. `tf.saved_model.save` copies them from there.
        config: of the run.
        dataset: the description of the training data.
        metadata: the model's name, signatures, sizes and so on.
        card: the model card.
        scores: those on the card, or None.

    Returns:
        Their paths.
    """
    objects = {CONFIG_NAME: config, DATASET_NAME: dataset, METADATA_NAME: metadata}
    if scores:
        objects[SCORES_NAME] = scores
    for name, content in objects.items():
        files.write_json(directory / name, content)
    files.write_text(directory / CARD_NAME, card)
    return [directory / name for name in sorted([*objects, CARD_NAME])]


def _are_names(found: Any) -> bool:
    return (
        isinstance(found, list)
        and bool(found)
        and all(isinstance(name, str) for name in found)
    )
