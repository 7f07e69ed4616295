"""The models that other formats are converted from, and the files that they become."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import files
from tf_probunet.artifacts import saved_model as saved_models
from tf_probunet.export import export
from tf_probunet.export.signatures import Signatures
from tf_probunet.models.prob_unet import ProbUNet
from tf_probunet.training.run_dir import RunDir

# Largest difference of a probability between a SavedModel and the network that is
# rebuilt from its settings and weights. Both add in the same order: some 1e-7.
_TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Convertible:
    """A model with latents that a converter can trace.

    Attributes:
        model: with its weights.
        functions: `prior` and `decode` of the original, to compare a conversion with.
        config: the settings, as JSON.
        dataset: what it was trained on, as JSON.
        eval_size: height and width of what the evaluation feeds to the network; None if
            that is not known.
    """

    model: ProbUNet
    functions: Mapping[str, Callable[..., dict[str, Any]]]
    config: dict[str, Any]
    dataset: dict[str, Any]
    eval_size: int | None

    def size(self, wanted: int | None) -> int:
        """Returns the height and width to convert for.

        Args:
            wanted: by the user; None or 0 for the evaluation's.

        Raises:
            ValueError: the down-samplings do not allow it, or none is known.
        """
        size = wanted or self.eval_size
        if size is None:
            raise ValueError(
                "the model does not say how large its images are; give --image_size"
            )
        check_size(self.model, size)
        return size

    def describe(self, size: int, **more: Any) -> dict[str, Any]:
        """Returns the content of the JSON file that goes with a converted one."""
        config = self.model.config
        return {
            "model": self.model.name,
            "inputs": {
                "image": [1, size, size, config.image_channels],
                "noise": [1, None, self.model.num_latents],
            },
            **more,
            "config": self.config,
            "dataset": self.dataset,
        }

    def sample(self, image: np.ndarray, noise: np.ndarray) -> dict[str, np.ndarray]:
        """Returns what a conversion should give for an image and its noise."""
        prior = self.functions["prior"](image)
        z = prior["mean"][:, None] + prior["stddev"][:, None] * noise
        outputs = {**self.functions["decode"](image, z), "z": z}
        return {name: np.asarray(value) for name, value in outputs.items()}


def load(
    run_dir: files.Path | None = None,
    saved_model: files.Path | None = None,
    *,
    checkpoint: str = "best",
) -> Convertible:
    """Loads the model of a run or of a SavedModel.

    Args:
        run_dir: of the training.
        saved_model: a SavedModel of `run/export.py`.
        checkpoint: of the run: "best" by validation, or "last".

    Raises:
        FileNotFoundError: there is no such run, checkpoint or SavedModel.
        ValueError: not exactly one of the two is given, the model has no latents, or
            the SavedModel is damaged or of another version.
    """
    if run_dir is None and saved_model is not None:
        return _from_saved_model(saved_models.load(saved_model))
    if run_dir is None or saved_model is not None:
        raise ValueError("expected either --run_dir or --saved_model")
    directory = RunDir(pathlib.Path(run_dir))
    config, dataset = directory.config(), directory.dataset()
    model = directory.load_model(checkpoint)
    check_latents(model)
    return Convertible(
        model=model,
        functions=Signatures(model).functions(),
        config=config.to_json(),
        dataset=dataset,
        eval_size=config.data.eval_size or dataset["image_shape"][0],
    )


def check_latents(model: tf.keras.Model) -> None:
    """Checks that a model has latents with a Gaussian prior.

    Raises:
        ValueError: it has none, or its prior is a mixture.
    """
    if not isinstance(model, ProbUNet):
        raise ValueError(_no_latents(model.name))
    components = model.config.prior_components
    if components > 1:
        raise ValueError(
            f"the prior is a mixture of {components} Gaussians, expected a model "
            "trained with --prior_components=1"
        )


def check_size(model: ProbUNet, size: int) -> None:
    """Checks that a model can halve images of a height and width as often as it does.

    Raises:
        ValueError: it cannot.
    """
    divisor = model.config.size_divisor
    if size < 1 or size % divisor:
        raise ValueError(f"image_size is {size}, expected a multiple of {divisor}")


def check_target(out_file: files.Path, suffix: str, overwrite: bool) -> pathlib.Path:
    """Checks that a converted file and its description may be written.

    Returns:
        The file's path.

    Raises:
        ValueError: its name has another suffix, or one of the two exists already.
    """
    out_file = pathlib.Path(out_file)
    if out_file.suffix != suffix:
        raise ValueError(f"{out_file}: expected a name that ends in {suffix}")
    for path in (out_file, description_path(out_file)):
        if path.exists() and not overwrite:
            raise ValueError(f"{path}: exists already; --overwrite replaces it")
    return out_file


def description_path(out_file: pathlib.Path) -> pathlib.Path:
    """Returns the JSON file that describes a converted file.

    A TensorFlow Lite file and an ONNX file of the same name do not share it.
    """
    suffix = ".json" if out_file.suffix == ".tflite" else f"{out_file.suffix}.json"
    return out_file.with_suffix(suffix)


def write(out_file: pathlib.Path, content: bytes, description: dict[str, Any]) -> None:
    """Writes a converted file, and its description next to it."""
    files.write_json(description_path(out_file), description)
    files.write_bytes(out_file, content)


def _from_saved_model(loaded: saved_models.LoadedModel) -> Convertible:
    """Rebuilds the network with the weights of a SavedModel.

    Its own functions decode samples in a loop and check their inputs. Converters do
    not understand either.
    """
    if not loaded.has("prior"):
        name = loaded.metadata["model"]
        raise ValueError(f"{loaded.path}: {_no_latents(name)}")
    model = export.load_model(loaded)
    check_latents(model)
    image_shape = loaded.dataset.get("image_shape", [None])
    convertible = Convertible(
        model=model,
        functions={
            name: functools.partial(loaded.call, name, about=str(loaded.path))
            for name in ("prior", "decode")
        },
        config={
            "model": dataclasses.asdict(loaded.network),
            "data": dataclasses.asdict(loaded.data),
        },
        dataset=loaded.dataset,
        eval_size=loaded.data.eval_size or image_shape[0],
    )
    _check_rebuilt(convertible, loaded.path)
    return convertible


def _check_rebuilt(convertible: Convertible, path: pathlib.Path) -> None:
    """Checks that the rebuilt network samples as the SavedModel does."""
    image, noise = example(convertible.model, 2 * convertible.model.config.size_divisor)
    expected = convertible.sample(image, noise)
    built = dataclasses.replace(
        convertible, functions=Signatures(convertible.model).functions()
    ).sample(image, noise)
    difference = np.abs(built["probabilities"] - expected["probabilities"]).max()
    if not difference <= _TOLERANCE:
        raise ValueError(
            f"{path}: this version builds another network from its settings "
            f"(probabilities differ by {difference:.1e}), expected a SavedModel of "
            "run/export.py of this version"
        )


def example(
    model: ProbUNet, size: int, num_samples: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Returns an image and noise to compare a conversion with the original on."""
    random = np.random.default_rng(0)
    image = random.random([1, size, size, model.config.image_channels], np.float32)
    noise = random.normal(size=[1, num_samples, model.num_latents])
    return image, noise.astype(np.float32)


def _no_latents(name: str) -> str:
    return (
        f"the model is {name!r}, expected one with latents: prob_unet or "
        "image2image_vae"
    )
