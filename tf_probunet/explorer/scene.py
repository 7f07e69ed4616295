"""The data of the page: one image, its features and its latents."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import files
from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.dataset import cityscapes_labels, input_pipeline, records
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import latents, lesion, sampling
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.hypotheses import Hypotheses, choose, label_set
from tf_probunet.predict.predict_lesions import find_lesions
from tf_probunet.predict.prediction import ModelInput, check_extent, model_input
from tf_probunet.predict.read_inputs import read_inputs

_WEIGHT = re.compile(r"(?:^|/)f_comb/conv_(\d+)/(kernel|bias)(?::0)?$")
# How far a latent dimension is moved to see its effect, in standard deviations.
_PROBE_SIGMA = 2.0
_HYPOTHESES = 4


@dataclasses.dataclass(frozen=True)
class Layer:
    """A 1x1 convolution: `kernel` [in, out] and `bias` [out]."""

    kernel: np.ndarray
    bias: np.ndarray


@dataclasses.dataclass(frozen=True)
class SliceView:
    """One slice of a lesion; for attributes see `Scene`.

    Attributes:
        number: of the slice in its series.
    """

    number: int
    image: np.ndarray
    features: np.ndarray
    prior_mean: np.ndarray
    prior_stddev: np.ndarray


@dataclasses.dataclass(frozen=True)
class Scene:
    """One image in a model's latent space.

    Attributes:
        title: what the image is called.
        image: [H, W, C] float32 in 0..1.
        features: [H, W, D] float32: the first layer of f_comb without its latent part.
        latent_kernel: [L, D], the latent part.
        outline_stddev: what the last number of a latent moves the foreground's logits
            by, per unit.
        outline_sharpness: what all logits are multiplied by after that.
        layers: of f_comb after the first.
        prior_mean: [L].
        prior_stddev: [L].
        samples: [S, L] latents drawn from the prior, stratified.
        hypotheses: the samples that represent all, with probabilities.
        graders: [G, H, W] label maps, G may be 0.
        grader_latents: [G, L], the means of their posteriors.
        grader_names: "grader 1", or "mode 4: car 2, 5.9 %" where the label maps are the
            modes of a known distribution.
        axes: the two latent dimensions that change the segmentation most.
        start: the sample that the page opens on; None for the prior's mean.
        class_names: of the labels.
        pixel_mm2: area of a pixel, None if not known.
        model: its name, and the data it was trained on.
        notes: what the user should know about the image.
        slices: of a lesion, from the lowest; empty for a single image. Latents have
            the same distance from each slice's prior, in its standard deviations.
        slice: which of them `image` is.
        step_mm: from one slice to the next.
    """

    title: str
    image: np.ndarray
    features: np.ndarray
    latent_kernel: np.ndarray
    outline_stddev: float
    outline_sharpness: float
    layers: list[Layer]
    prior_mean: np.ndarray
    prior_stddev: np.ndarray
    samples: np.ndarray
    hypotheses: Hypotheses
    graders: np.ndarray
    grader_latents: np.ndarray
    grader_names: list[str]
    axes: tuple[int, int]
    start: int | None
    class_names: list[str]
    pixel_mm2: float | None
    model: str
    notes: list[str]
    slices: tuple[SliceView, ...] = ()
    slice: int = 0
    step_mm: float | None = None


def scene_of_record(
    model: LoadedModel,
    *,
    data_dir: files.Path,
    split: str,
    key: str | None,
    num_samples: int,
    seed: int,
) -> Scene:
    """Makes the scene of an image of a prepared data set, with its graders.

    Args:
        model: a Probabilistic U-Net.
        data_dir: the data set.
        split: of the data set.
        key: of the image; None for the first.
        num_samples: samples to list.
        seed: of the samples.

    Raises:
        FileNotFoundError: there is no such data set.
        ValueError: there is no such image, or it or the model does not fit.
    """
    _check(model)
    info = records.read_info(data_dir)
    channels = model.network.image_channels
    if info.spec.image_shape[2] != channels:
        raise ValueError(
            f"{data_dir}: images of {info.spec.image_shape[2]} channels, but the model "
            f"in {model.path} expects {channels}"
        )
    example = _find(info, split, key, model)
    image, labels = input_pipeline.mirrored(
        example["image"], example["labels"], model.size_divisor
    )
    notes = []
    height, width = example["image"].shape[:2]
    if image.shape[:2] != (height, width):
        notes.append(
            f"the image of {height}x{width} pixels is mirrored at its border, because "
            f"the network takes multiples of {model.size_divisor}"
        )
    names = [f"grader {i + 1}" for i in range(len(labels))]
    if model.data.task == "switched":
        labels, names = switched_modes(labels[0])
    spacing = model.spacing_mm
    return _scene(
        model,
        title=example["key"].decode(),
        image=image,
        graders=labels,
        grader_names=names,
        pixel_mm2=None if spacing is None else spacing**2,
        notes=notes,
        num_samples=num_samples,
        seed=seed,
    )


def scene_of_file(
    model: LoadedModel, *, path: str, crop: CropConfig, num_samples: int, seed: int
) -> Scene:
    """Makes the scene of a user's own image, without graders.

    Args:
        model: a Probabilistic U-Net.
        path: whatever `run/predict.py` reads.
        crop: selects a single slice, and a part of it.
        num_samples: samples to list.
        seed: of the samples.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, or it and the model do not fit each other.
    """
    _check(model)
    images = read_inputs([path], crop)
    if len(images) > 1:
        raise ValueError(
            f"{path}: holds {len(images)} slices; choose one by --slice, "
            "--instance_number or --z_mm"
        )
    image = images[0]
    check_extent(images, model, crop, 1)
    prepared = model_input(image, model, crop)
    return _scene(
        model,
        title=image.name,
        image=prepared.padded,
        graders=np.zeros((0, *prepared.grid.padded), np.uint8),
        grader_names=[],
        pixel_mm2=_pixel_mm2(image, prepared),
        notes=prepared.notes,
        num_samples=num_samples,
        seed=seed,
    )


def scene_of_lesion(
    model: LoadedModel,
    *,
    path: str,
    crop: CropConfig,
    rules: LesionConfig,
    num_samples: int,
    seed: int,
) -> Scene:
    """Makes the scene of a lesion: its slices, and samples that share their noise.

    Args:
        model: a Probabilistic U-Net.
        path: a DICOM series or a NIfTI file.
        crop: has the voxel of the lesion, and how frames become the model's inputs.
        rules: has the point of the lesion, and where it ends.
        num_samples: samples to list.
        seed: of the samples.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, it and the model do not fit each other, or
            there are several lesions.
    """
    _check(model)
    lesion.check_model(model)
    images, found = find_lesions([path], crop, rules)
    if len(found) > 1:
        raise ValueError(f"{rules.points}: {len(found)} lesions, expected one")
    _, volume, place = found[0]
    config = PredictConfig(num_samples=num_samples, seed=seed)
    indices, frames, _ = lesion.follow(
        volume, place, model, crop=crop, config=config, rules=rules
    )
    stack = np.stack([frame.padded for frame in frames])
    prior = lesion.priors(model, stack, rules.smooth_slices)
    if "component_weights" in prior:
        raise ValueError(
            f"{model.path}: a model whose prior is a mixture, expected a single "
            "Gaussian to move all slices together"
        )
    at = indices.index(place[0])
    scene = _scene(
        model,
        title=images[volume.first + place[0]].name,
        image=stack[at],
        graders=np.zeros((0, *stack.shape[1:3]), np.uint8),
        grader_names=[],
        pixel_mm2=_pixel_mm2(volume.images[place[0]], frames[at]),
        notes=frames[at].notes,
        num_samples=num_samples,
        seed=seed,
    )
    noise = lesion.shared_noise(model, prior, num_samples, seed)
    drawn = lesion.draw(model, frames, num_samples, seed, rules.smooth_slices)
    labels = np.moveaxis(drawn > 0.5, 1, 0)  # [S, Z, h, w]
    flat = labels.reshape(num_samples, -1, labels.shape[-1]).astype(np.uint8)
    return dataclasses.replace(
        scene,
        prior_mean=prior["mean"][at],
        prior_stddev=prior["stddev"][at],
        samples=latents.from_noise(prior, noise)[at],
        hypotheses=choose(flat, _HYPOTHESES),
        start=middle_sample(np.count_nonzero(flat, axis=(1, 2))),
        slices=tuple(
            SliceView(
                volume.first + index,
                image,
                _first_layer(model, image, scene.title),
                prior["mean"][i],
                prior["stddev"][i],
            )
            for i, (index, image) in enumerate(zip(indices, stack))
        ),
        slice=at,
        step_mm=volume.step_mm,
    )


def _pixel_mm2(image: InputImage, prepared: ModelInput) -> float | None:
    """Returns the area of a pixel at the model's resolution."""
    if image.spacing_mm is None:
        return None
    region, shape = prepared.grid.region.shape, prepared.grid.shape
    return float(np.prod(image.spacing_mm) * np.prod(region) / np.prod(shape))


def _first_layer(model: LoadedModel, image: np.ndarray, title: str) -> np.ndarray:
    """Returns the first layer of f_comb without its latent part, [H, W, D]."""
    first = f_comb_layers(model)[0]
    features = model.call("features", image[None], about=title)["features"][0]
    kernel = first.kernel[: features.shape[-1]]
    return features.astype(np.float32) @ kernel + first.bias


def switched_modes(labels: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Draws the modes of a street scene that differ, the most probable first.

    Args:
        labels: [H, W], the 19 training classes before any flip.

    Returns:
        The label maps [M, H, W], 32 where the image has all five classes that are
        switched, and their names: number, new classes, probability.
    """
    switches = cityscapes_labels.SWITCHES
    bits = cityscapes_labels.MODE_BITS
    present = np.isin([switch.class_id for switch in switches], labels)
    probabilities: dict[int, float] = {}
    for flipped, probability in zip(bits, cityscapes_labels.MODE_PROBABILITIES):
        mode = int((flipped & present) @ (1 << np.arange(len(switches))))
        probabilities[mode] = probabilities.get(mode, 0.0) + float(probability)
    order = sorted(probabilities, key=lambda mode: (-probabilities[mode], mode))
    names = []
    for mode in order:
        flips = [f"{s.name} 2" for s, flipped in zip(switches, bits[mode]) if flipped]
        what = " + ".join(flips) or "nothing flipped"
        names.append(f"mode {mode}: {what}, {100 * probabilities[mode]:.1f} %")
    maps = [cityscapes_labels.switch_table(mode)[labels] for mode in order]
    return np.stack(maps), names


def _check(model: LoadedModel) -> None:
    if not model.has("features"):
        raise ValueError(
            f"{model.path}: a {model.metadata['model']} without the function "
            "`features`, expected a prob_unet whose latent enters at the end, exported "
            "by this version of run/export.py"
        )


def _find(
    info: records.DatasetInfo, split: str, key: str | None, model: LoadedModel
) -> dict[str, Any]:
    examples = input_pipeline.evaluation_examples(info, split, model.data)
    with records.named_errors(info, split):
        for example in examples.as_numpy_iterator():
            if key is None or example["key"].decode() == key:
                return example
    raise ValueError(
        f"{info.data_dir}: no image {key!r} among the {info.count(split)} of the split "
        f"{split!r}"
    )


def _scene(
    model: LoadedModel,
    *,
    title: str,
    image: np.ndarray,
    graders: np.ndarray,
    grader_names: list[str],
    pixel_mm2: float | None,
    notes: list[str],
    num_samples: int,
    seed: int,
) -> Scene:
    prior = {k: v[0] for k, v in model.call("prior", image[None], about=title).items()}
    layers = f_comb_layers(model)
    latent_dim = len(prior["mean"])
    outline = model.network.outline_stddev
    size = latent_dim - bool(outline)  # The outline's number is not one of f_comb's.
    kernel = np.pad(layers[0].kernel[-size:], [(0, latent_dim - size), (0, 0)])
    samples = sampling.draw_latents(
        model,
        image,
        count=num_samples,
        seed=seed,
        sampling=sampling.default_sampling(model),
        about=title,
    )
    labels = _decode(model, image, samples, title)
    return Scene(
        title=title,
        image=image,
        features=_first_layer(model, image, title),
        latent_kernel=kernel,
        outline_stddev=outline,
        outline_sharpness=model.network.outline_sharpness,
        layers=layers[1:],
        prior_mean=prior["mean"],
        prior_stddev=prior["stddev"],
        samples=samples,
        hypotheses=choose(labels, _HYPOTHESES, label_set(model)),
        graders=graders.astype(np.uint8),
        grader_latents=_posterior_means(model, image, graders, latent_dim, title),
        grader_names=grader_names,
        axes=_telling_axes(model, image, prior, title),
        start=middle_sample(np.count_nonzero(labels, axis=(1, 2)))
        if model.has_background
        else None,
        class_names=model.class_names,
        pixel_mm2=pixel_mm2,
        model=f"{model.metadata['model']} trained on {model.dataset['name']}",
        notes=notes,
    )


def f_comb_layers(model: LoadedModel) -> list[Layer]:
    """Reads the weights of f_comb from the SavedModel's variables.

    Raises:
        ValueError: they are not all there.
    """
    found: dict[int, dict[str, np.ndarray]] = {}
    for variable in model.module.weights:
        match = _WEIGHT.search(variable.name)
        if match:
            array = tf.cast(variable, tf.float32).numpy()
            found.setdefault(int(match[1]), {})[match[2]] = array
    if len(found) < 2 or any(set(f) != {"kernel", "bias"} for f in found.values()):
        raise ValueError(f"{model.path}: has no complete f_comb among its weights")
    return [
        Layer(
            found[i]["kernel"].reshape(found[i]["kernel"].shape[-2:]), found[i]["bias"]
        )
        for i in sorted(found)
    ]


def _posterior_means(
    model: LoadedModel, image: np.ndarray, graders: np.ndarray, size: int, title: str
) -> np.ndarray:
    means = [
        # One at a time: 32 modes of a large image would not fit into memory.
        model.call("posterior", image[None], labels[None], about=title)["mean"][0]
        for labels in graders.astype(np.int32)
    ]
    return np.array(means, np.float32).reshape(-1, size)


def _decode(
    model: LoadedModel, image: np.ndarray, samples: np.ndarray, title: str
) -> np.ndarray:
    """Returns the label maps [S, H, W] of latents [S, L]."""
    maps = []
    for z in samples:  # One at a time: large images would not fit into memory.
        drawn = model.call("decode", image[None], z[None, None], about=title)
        maps.append(drawn["labels"][0, 0].astype(np.uint8))
    return np.stack(maps)


def middle_sample(areas: Sequence[int]) -> int | None:
    """Returns the sample of median area among those that mark anything, if one does."""
    marked = [i for i in np.argsort(areas, kind="stable") if areas[i]]
    return int(marked[(len(marked) - 1) // 2]) if marked else None


def _telling_axes(
    model: LoadedModel, image: np.ndarray, prior: dict[str, np.ndarray], title: str
) -> tuple[int, int]:
    """Returns the two dimensions with the largest effect from -2 to 2 sigma."""
    steps = np.diag(_PROBE_SIGMA * prior["stddev"])
    z = prior["mean"] + np.concatenate([-steps, steps])  # [2 L, L]
    outputs = model.call("decode", image[None], z[None], about=title)
    low, high = np.split(outputs["probabilities"][0], 2)
    changes = np.abs(high - low).sum(axis=(1, 2, 3))
    order = np.argsort(-changes, kind="stable")
    return int(order[0]), int(order[min(1, len(order) - 1)])
