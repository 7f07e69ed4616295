"""Predicts one image: samples, mean and entropy on the grid of its own pixels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tf_probunet import limits
from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.config import COARSEST_LIDC_MM, sides
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.resampling import resample
from tf_probunet.predict import grid, intensity, sampling
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.hypotheses import Hypotheses, choose, label_set

# How far a size may be off if the model's resolution is only roughly known. Training
# scales images by as much.
_TOLERANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the model makes of one image. All maps have the image's own pixels.

    Attributes:
        image: as the user gave it.
        grid: the part that was segmented, and the model's resolution.
        shown: [h, w, C] the region with the model's values, in 0..1.
        labels: [S, H, W] uint8, one label map per sample; 0 outside the region.
        mean: [H, W, K] float32, the mean of the samples' probabilities; 0 outside, and
            background where the network does not see the region.
        entropy: [H, W] float32 of the mean, in nats; 0 outside.
        hypotheses: the weighted samples that represent all, the most probable first.
        sampling: how the samples were drawn.
        notes: what the user should know.
    """

    image: InputImage
    grid: grid.Grid
    shown: np.ndarray
    labels: np.ndarray
    mean: np.ndarray
    entropy: np.ndarray
    hypotheses: Hypotheses
    notes: list[str]
    sampling: str = "independent"

    def seen(self, maps: np.ndarray) -> np.ndarray:
        """Cuts out of maps [..., H, W] what the network sees."""
        index = (..., *self.grid.seen_in_image.slices)
        return maps[index]

    @property
    def seen_image(self) -> np.ndarray:
        """What the network sees of the region, [h, w, C] in 0..1."""
        region, seen = self.grid.region, self.grid.seen_in_image
        row, col = seen.row - region.row, seen.col - region.col
        return self.shown[row : row + seen.height, col : col + seen.width]


@dataclasses.dataclass(frozen=True)
class ModelInput:
    """A region of an image, ready for the model.

    Attributes:
        grid: the region, and its sizes.
        shown: [*grid.shape, C] float32 in 0..1.
        notes: what the user should know.
    """

    grid: grid.Grid
    shown: np.ndarray
    notes: list[str]

    @property
    def padded(self) -> np.ndarray:
        """The input of the network, [*grid.padded, C]."""
        return self.grid.pad(self.shown)


def check_extent(
    images: Sequence[InputImage], model: LoadedModel, crop: CropConfig, num_inputs: int
) -> None:
    """Checks that a model of crops around a lesion does not get whole scans.

    It would take minutes, and mark vessels everywhere.

    Args:
        images: all that were read.
        model: the model that will segment them.
        crop: selects a part of them.
        num_inputs: number of files or directories that they come from.

    Raises:
        ValueError: it would get one, and the user has not asked for that.
    """
    large = [image for image in images if _exceeds_frame(image, model)]
    if crop.whole or not model.is_lidc or not large:
        return
    about, (height, width) = large[0].describe(), large[0].shape
    frame = model.data.frame_size
    expects = (
        f"but the model in {model.path} expects crops of {frame}x{frame} pixels with a "
        "lesion in the middle"
    )
    slices = [image for image in large if image.slice_index is not None]
    if len(slices) > num_inputs and not crop.chooses:
        raise ValueError(
            f"{about}: is one of {len(slices)} slices, {expects}; choose by --slice, "
            "--instance_number or --z_mm, and --center=row,col; --whole takes all"
        )
    if not crop.cuts:
        raise ValueError(
            f"{about}: a whole image of {height}x{width} pixels, {expects}; "
            "--center=row,col cuts one out, --whole takes all of it"
        )


def model_input(image: InputImage, model: LoadedModel, crop: CropConfig) -> ModelInput:
    """Cuts the region out, resamples it to the model's resolution and windows it.

    Raises:
        ValueError: image, region and model do not fit each other.
    """
    intensity.check_values(image, model, crop)
    planned = plan_grid(image, model, crop)
    pixels = intensity.fit_channels(image, model)
    shown = intensity.normalise(planned.to_model(pixels), image, model, crop)
    return ModelInput(planned, shown, _notes(image, model, crop, planned))


def predict_image(
    image: InputImage, model: LoadedModel, crop: CropConfig, config: PredictConfig
) -> Prediction:
    """Draws samples of an image and summarises them.

    Raises:
        ValueError: image, region and model do not fit each other.
    """
    check_memory(image, model, config)
    prepared = model_input(image, model, crop)
    planned, notes = prepared.grid, list(prepared.notes)
    count = sampling.num_samples(model, config.num_samples)
    if count < config.num_samples:
        notes.append(f"the model has {count} samples, not {config.num_samples}")
    way = config.sampling or sampling.default_sampling(model)
    num_classes = model.network.num_classes
    labels = np.zeros((count, *image.shape), np.uint8)
    mean = np.zeros((*image.shape, num_classes), np.float32)
    rows, cols = planned.region.slices
    done = cut_off = 0
    for chunk in sampling.draw(
        model,
        prepared.padded,
        count=count,
        seed=config.seed,
        tile_size=config.tile_size,
        about=image.describe(),
        sampling=way,
    ):
        for drawn in chunk:
            cut_off += _reaches_edge(planned.unpad(drawn).argmax(-1))
            probabilities = planned.to_input(drawn)
            labels[done, rows, cols] = probabilities.argmax(-1)
            mean[rows, cols] += probabilities / count
            done += 1
    notes += _result_notes(image, labels, cut_off, planned, model, crop)
    return Prediction(
        image=image,
        grid=planned,
        shown=resample(prepared.shown, planned.region.shape).clip(0, 1),
        labels=labels,
        mean=mean,
        entropy=_entropy(mean),
        hypotheses=choose(labels[:, rows, cols], config.hypotheses, label_set(model)),
        notes=notes,
        sampling=way,
    )


def _entropy(mean: np.ndarray) -> np.ndarray:
    """Returns the entropy [H, W] of [H, W, K], class by class to save memory."""
    entropy = np.zeros(mean.shape[:2], np.float32)
    for probability in np.moveaxis(mean, -1, 0):
        entropy -= probability * np.log(
            np.maximum(probability, np.finfo(np.float32).tiny)
        )
    return entropy


def plan_grid(image: InputImage, model: LoadedModel, crop: CropConfig) -> grid.Grid:
    """Works out which part of the image becomes an input of which size.

    Raises:
        ValueError: the region is outside the image, or its size does not fit.
    """
    about, shape, seen_size = image.describe(), None, 0
    target = target_mm(image, model)
    if crop.center_numbers is not None:
        region, shape = _centred(image, model, crop.center_numbers, target)
        seen_size = model.data.eval_size
    elif crop.region_numbers is not None:
        region = grid.Region(*crop.region_numbers)
    else:
        region = grid.Region(0, 0, *image.shape)
        # A picture no larger than the scored frames is treated as one of them.
        if model.data.scored_size and not _exceeds_frame(image, model):
            seen_size = model.data.eval_size
    region.check_inside(image.shape, about)
    reduced = _frame_scale(image, model)
    if shape is None and not seen_size:
        shape = _approximate_shape(region, image, model, reduced)
    planned = grid.plan(
        region,
        spacing_mm=image.spacing_mm,
        target_mm=target,
        divisor=model.size_divisor,
        pad=crop.pad,
        about=about,
        shape=shape,
        seen_size=seen_size,
        center=crop.center_numbers,
        by_area=reduced is not None,
    )
    _check_resampled(planned, image, model)
    return planned


def check_memory(image: InputImage, model: LoadedModel, config: PredictConfig) -> None:
    """Checks the memory of a prediction's maps, which are as large as the image.

    Raises:
        ValueError: they need too much.
    """
    count = sampling.num_samples(model, config.num_samples)
    # Four copies of the image for its picture, the label maps and their comparison, the
    # mean and what is written of it, and a dozen bytes for each remaining step.
    channels, classes = image.pixels.shape[2], model.network.num_classes
    per_pixel = 16 * channels + 6 * count + 8 * classes + 40
    limits.check(
        math.prod(image.shape) * per_pixel,
        f"{image.describe()}: {count} samples of {image.shape[0]}x{image.shape[1]} "
        "pixels",
        "give a smaller image, or fewer --num_samples",
    )


def _check_resampled(planned: grid.Grid, image: InputImage, model: LoadedModel) -> None:
    """Checks a region's memory at the model's resolution, before it is resampled."""
    (height, width), channels = planned.shape, image.pixels.shape[2]
    per_pixel = 20 * channels + 8 * model.network.num_classes
    what = f"{image.describe()}: {height}x{width} pixels"
    if planned.shape != planned.region.shape:
        target, pixel_mm = target_mm(image, model), image.spacing_mm
        if target is None or pixel_mm is None:
            what += f" (resampled from {planned.region.height}x{planned.region.width})"
        else:
            spacing = " x ".join(f"{mm:g}" for mm in pixel_mm)
            what += f" (of {spacing} mm, resampled to {target:g} mm)"
    limits.check(
        height * width * per_pixel + planned.resampling_bytes,
        what,
        "--region cuts a part out",
    )


def target_mm(image: InputImage, model: LoadedModel) -> float | None:
    """Returns the pixel size to resample an image to; None to leave it alone.

    An image is left alone if its pixel size is not known, or if the model has seen
    pixels of several sizes and the image's are close to the typical one or larger, up
    to the largest. Enlarged images would be smoother than any that the model has seen.
    """
    spacing, target = image.spacing_mm, model.input_spacing_mm
    if spacing is None or target is None:
        return None
    if model.spacing_mm is None and all(
        (1 - _TOLERANCE) * target <= mm <= COARSEST_LIDC_MM for mm in spacing
    ):
        return None
    return target


def _approximate_shape(
    region: grid.Region, image: InputImage, model: LoadedModel, reduced: float | None
) -> tuple[int, int] | None:
    """Returns the size at the model's resolution if that is only roughly known.

    If a size that fits the model is close, it is taken instead. None if the resolution
    is known exactly, or not at all.
    """
    target, spacing = target_mm(image, model), image.spacing_mm
    if reduced is not None:
        scales = (reduced, reduced)
    elif model.spacing_mm is None and target is not None and spacing is not None:
        scales = (spacing[0] / target, spacing[1] / target)
    else:
        return None
    shape, step = [], model.size_divisor
    for side, scale in zip(region.shape, scales):
        fitting = max(step, round(side * scale / step) * step)
        close = abs(fitting / (side * scale) - 1) <= _TOLERANCE
        shape.append(fitting if close else max(1, round(side * scale)))
    return shape[0], shape[1]


def _frame_scale(image: InputImage, model: LoadedModel) -> float | None:
    """Returns the factor from a large camera frame to the model's; None for others.

    An image no larger than the model's frames is treated as one, or as a part of one.
    """
    frame = model.camera_frame
    if frame is None or all(n <= f for n, f in zip(image.shape, frame)):
        return None
    return min(f / n for n, f in zip(image.shape, frame))


def _exceeds_frame(image: InputImage, model: LoadedModel) -> bool:
    """Whether the image is larger than what the model was scored on."""
    shape = grid.resampled_shape(image.shape, image.spacing_mm, target_mm(image, model))
    return 0 < model.data.frame_size < max(shape)


def _centred(
    image: InputImage, model: LoadedModel, center: tuple[int, ...], target: float | None
) -> tuple[grid.Region, tuple[int, int] | None]:
    """Returns the region of the scored size, and that size if it fits the image."""
    side = model.data.frame_size
    if not side:
        raise ValueError(
            f"center is {center[0]},{center[1]}, but the model in {model.path} was "
            "scored on whole images; expected --region, or neither"
        )
    if not all(0 <= c < size for c, size in zip(center, image.shape)):
        raise ValueError(
            f"{image.describe()}: center is row {center[0]}, column {center[1]}, "
            f"expected one inside the {image.shape[0]}x{image.shape[1]} pixels"
        )
    size = (side, side)
    if target is not None and image.spacing_mm is not None:
        # One pixel more than the image has is enough to show that it is too small.
        height, width = (
            max(1, round(min(side * target / mm, length + 1)))
            for mm, length in zip(image.spacing_mm, image.shape)
        )
        size = (height, width)
    region = grid.region_around(center, size, image.shape)
    return region, (side, side) if region.shape == size else None


def _notes(
    image: InputImage, model: LoadedModel, crop: CropConfig, planned: grid.Grid
) -> list[str]:
    notes = []
    if intensity.is_rescaled(image, model, crop):
        notes.append(
            "the region's smallest and largest values became 0 and 1 "
            "(--window=minmax), as in the pictures that the model was trained on"
        )
    if model.intensity_rule is not None and crop.window is None:
        rule, window = model.intensity_rule
        how = "{:g} and {:g}".format(*window) if window else f"the {rule} of the image"
        notes.append(f"{how} became 0 and 255, as in the training images")
    notes += _resolution_notes(image, model, crop, planned)
    if model.dataset["intensity"] == "hu" and image.pixels.min() >= 0:
        notes.append("no value is below 0, which is odd for Hounsfield units")
    seen, crop_sides = planned.seen.shape, sides(model.data.crop_size)
    frame = model.data.frame_size
    if model.is_lidc and not crop.cuts and _exceeds_frame(image, model):
        notes.append(
            "the whole image was segmented, but the model expects crops of "
            f"{frame}x{frame} pixels with a lesion in the middle; --center=row,col "
            "cuts one out"
        )
    # Street scenes are scored whole, even if the training took crops.
    elif (
        model.data.crop_size
        and any(s > 2 * side for s, side in zip(seen, crop_sides))
        and model.camera_frame is None
    ):
        cuts = "--center or --region cut" if frame else "--region cuts"
        notes.append(
            f"the model sees {seen[0]}x{seen[1]} pixels, but it was trained on crops "
            f"of {crop_sides[0]}x{crop_sides[1]}; {cuts} one out"
        )
    return notes


def _is_resized(image: InputImage, resize: str) -> bool:
    """Whether an image has the size that `run/prepare_folder.py` gave to others."""
    sizes = resize.split(",")
    shape = [str(side) for side in image.shape]
    return shape == sizes if len(sizes) == 2 else str(max(image.shape)) == resize


def _resolution_notes(
    image: InputImage, model: LoadedModel, crop: CropConfig, planned: grid.Grid
) -> list[str]:
    target, spacing = model.input_spacing_mm, image.spacing_mm
    resize = model.dataset["preparation"].get("resize")
    if resize is not None and not _is_resized(image, resize):
        return [
            f"the training images were resized (--resize={resize}), but this one has "
            f"{image.shape[0]}x{image.shape[1]} pixels; resize it alike"
        ]
    if model.camera_frame is not None:
        height, width = model.camera_frame
        if planned.by_area:
            return [
                f"the image was treated as a camera frame and reduced by the factor "
                f"{_frame_scale(image, model):.3g}: the model was trained on frames of "
                f"{height}x{width} pixels"
            ]
        if image.shape != model.camera_frame:
            return [
                "the image was treated as a part of a camera frame of "
                f"{height}x{width} pixels, at the same scale"
            ]
    if target is None:
        return []
    if spacing is None:
        # Whole PNG slices of LIDC are as in training, whatever their pixel size.
        if model.spacing_mm is None and not crop.cuts:
            return []
        return [
            f"the size of a pixel is not known (--spacing_mm gives it); the model was "
            f"trained on {'' if model.spacing_mm else 'about '}{target:g} mm"
        ]
    if model.spacing_mm is None and target_mm(image, model) is not None:
        return [
            f"pixels of {spacing[0]:g} x {spacing[1]:g} mm were resampled to about "
            f"{target:g} mm, typical of the scans that the model was trained on"
        ]
    return []


def _reaches_edge(labels: np.ndarray) -> bool:
    """Whether anything is marked on the rim of [h, w]."""
    return any(side.any() for side in (labels[[0, -1]], labels[:, [0, -1]]))


def _result_notes(
    image: InputImage,
    labels: np.ndarray,
    cut_off: int,
    planned: grid.Grid,
    model: LoadedModel,
    crop: CropConfig,
) -> list[str]:
    """Returns notes if the samples suggest that the crop was badly chosen.

    Args:
        image: the image that was segmented.
        labels: [S, H, W].
        cut_off: number of samples that mark something at the edge of what the network
            sees.
        planned: the region.
        model: the model that drew the samples.
        crop: the user's selection.
    """
    height, width = planned.seen.shape
    if not model.is_lidc or max(height, width) > model.data.frame_size:
        return []
    view = f"the {height}x{width} pixels that the network sees"
    if image.spacing_mm is not None:
        scales = (r / s for r, s in zip(planned.region.shape, planned.shape))
        high, wide = (
            side * scale * mm
            for side, scale, mm in zip((height, width), scales, image.spacing_mm)
        )
        view += f" ({high:.0f} x {wide:.0f} mm)"
    if cut_off:
        return [
            f"in {cut_off} of {len(labels)} samples the marked area reaches the edge "
            f"of {view}: what lies beyond is cut off"
        ]
    if crop.center_numbers is not None and not labels.any():
        row, col = crop.center_numbers
        return [
            f"nothing is marked around row {row}, column {col}: is a lesion there on "
            "this slice, is --center row,col (not column,row), and does the lesion fit "
            f"into {view}?"
        ]
    return []
