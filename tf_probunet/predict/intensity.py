"""Maps an image's values to the 0..1 that the model was trained on."""

from __future__ import annotations

import numpy as np

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.windows import apply_window, file_window, training_window

# In pictures, tissue gets at least this brightness.
_TISSUE = 0.75
# No darker value becomes white, so that lung alone stays dark.
_LEAST_WHITE = 0.4
_WHAT = {
    "hu": "Hounsfield units",
    "uint8": "8-bit values",
    "uint16": "unsigned 16-bit values",
    "float": "real numbers",
}


def normalise(
    pixels: np.ndarray, image: InputImage, model: LoadedModel, crop: CropConfig
) -> np.ndarray:
    """Applies the window of the model's configuration.

    Args:
        pixels: [H, W, C], a part of the image.
        image: the image that the pixels belong to.
        model: the model that will see them.
        crop: has the window for models trained on 8-bit pictures.

    Returns:
        [H, W, C] float32 in 0..1.

    Raises:
        ValueError: the values are not what the model was trained on.
    """
    check_values(image, model, crop)
    intensity = model.dataset["intensity"]
    if intensity == "hu":
        window = training_window(intensity, model.data)
    elif crop.window_numbers is not None:
        window = crop.window_numbers
    elif crop.window is not None or is_rescaled(image, model, crop):
        window = pixels.min(), pixels.max()
    elif model.intensity_rule is not None:
        rule, given = model.intensity_rule
        window = given or file_window(image.pixels, rule)
    elif image.values == "float":
        window = 0.0, 1.0
    else:
        window = training_window(intensity, model.data)
    return apply_window(pixels, *window)


def fit_channels(image: InputImage, model: LoadedModel) -> np.ndarray:
    """Returns the pixels [H, W, C] with the model's channels.

    Grey pictures are often stored as RGB, with three equal channels.

    Raises:
        ValueError: the image has other channels.
    """
    pixels, expected = image.pixels, model.network.image_channels
    channels = pixels.shape[2]
    if channels == expected:
        return pixels
    if (channels, expected) == (3, 1):
        if (pixels == pixels[..., :1]).all():
            return pixels[..., :1]
        raise ValueError(
            f"{image.describe()}: is in colour, but the model in {model.path} expects "
            "grey images"
        )
    raise ValueError(
        f"{image.describe()}: has {channels} channels, but the model in {model.path} "
        f"expects {expected}"
    )


def brightened(image: np.ndarray) -> np.ndarray:
    """Makes a grey image [H, W, C] in 0..1 lighter where a few pixels outshine it.

    A CT crop that was rescaled to its own range is dark if it shows bone. The new white
    is a third above the tissue, which is the median of all values above the mean.
    Colour images, and those that are bright already, are left alone.
    """
    if image.shape[-1] == 3:
        return image
    bright = image[image > image.mean()]
    white = np.median(bright) / _TISSUE if bright.size else 1.0
    white = max(white, _LEAST_WHITE)
    return image if white >= 1 else (image / white).clip(0, 1)


def is_rescaled(image: InputImage, model: LoadedModel, crop: CropConfig) -> bool:
    """Whether the region is rescaled to its own range of values by default.

    It is if the training pictures were, unless the user gives a window, or a whole
    picture whose values are already those of a picture.
    """
    if not model.has_rescaled_images or crop.window is not None:
        return False
    return crop.cuts or not _is_in_range(image)


def check_values(image: InputImage, model: LoadedModel, crop: CropConfig) -> None:
    """Checks that the model can make sense of an image's channels and values.

    Raises:
        ValueError: it cannot.
    """
    fit_channels(image, model)
    what = f"{image.describe()}: holds {_WHAT[image.values]}"
    if model.dataset["intensity"] == "hu":
        if crop.window is not None:
            raise ValueError(
                f"window is {crop.window}, expected none: the model in {model.path} "
                "was trained on Hounsfield units and has its own"
            )
        if image.values not in ("hu", "float"):
            raise ValueError(
                f"{what}, but the model in {model.path} was trained on Hounsfield "
                "units, expected DICOM, NIfTI, or signed or real numbers as TIFF or NPY"
            )
    elif (
        crop.window is None
        and model.intensity_rule is None
        and not is_rescaled(image, model, crop)
    ):
        _check_8_bit(image, model, what)


def _check_8_bit(image: InputImage, model: LoadedModel, what: str) -> None:
    advice = "--window=low,high or --window=minmax maps them"
    if _is_in_range(image):
        return
    if image.values == "float":
        low, high = float(image.pixels.min()), float(image.pixels.max())
        raise ValueError(
            f"{what} from {low:g} to {high:g}, but the model in {model.path} "
            f"expects 0 to 1; {advice}"
        )
    raise ValueError(
        f"{what}, but the model in {model.path} was trained on 8-bit pictures; {advice}"
    )


def _is_in_range(image: InputImage) -> bool:
    """Whether the values are 8-bit, or real numbers from 0 to 1."""
    if image.values == "float":
        return image.pixels.min() >= 0 and image.pixels.max() <= 1
    return image.values == "uint8"
