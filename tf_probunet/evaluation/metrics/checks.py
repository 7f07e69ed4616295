"""Validation that every metric shares, and errors that name the image's key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np


class MaskError(ValueError):
    """Masks that cannot be scored.

    Attributes:
        image: the offending image's place in the batch; None if it is not known.
    """

    def __init__(self, message: str, image: int | None = None):
        """See the class."""
        super().__init__(message)
        self.image = image


@contextlib.contextmanager
def naming(keys: str | Sequence[str]) -> Iterator[None]:
    """Puts the key of the image in front of any `ValueError` raised inside.

    Args:
        keys: the key of the one image scored inside, or the keys of the batch.

    Raises:
        ValueError: the error raised inside, its message starting with the key (with
            the first and last key where the error concerns the batch as a whole).
    """
    try:
        yield
    except ValueError as error:
        image = getattr(error, "image", None)
        if isinstance(keys, str):
            key = keys
        elif image is not None:
            key = keys[image]
        else:
            key = f"{keys[0]} to {keys[-1]}"
        raise ValueError(f"{key}: {error}") from error


def binary_masks(masks: np.ndarray, name: str) -> np.ndarray:
    """Returns masks as uint8, of the same shape.

    Args:
        masks: [S, H, W] or [N, S, H, W] of any number type, only 0 and 1.
        name: what the masks are, for the error message.

    Raises:
        MaskError: if the shape is another, an axis is empty, or a value is not 0 or 1.
    """
    masks = _stack(masks, name)
    if masks.dtype == np.bool_:
        return masks.view(np.uint8)
    # Integers between 0 and 1 are 0 or 1: two fast reductions instead of a comparison
    # per value. NaN fails both comparisons.
    valid = masks.min() >= 0 and masks.max() <= 1
    if valid and masks.dtype.kind not in "iu":
        valid = np.isin(masks, (0, 1)).all()
    if not valid:
        _raise_unknown(masks, np.isin(masks, (0, 1)), name, "only 0 and 1")
    return masks.astype(np.uint8, copy=False)


def label_maps(
    maps: np.ndarray, name: str, *, num_classes: int, ignore: int | None = None
) -> np.ndarray:
    """Returns label maps unchanged.

    Args:
        maps: [S, H, W] or [N, S, H, W] integer.
        name: what the maps are, for the error message.
        num_classes: labels are 0 to num_classes - 1.
        ignore: a further label that is allowed; None for none.

    Raises:
        MaskError: if the shape is another, an axis is empty, the type is not an integer
            or a label is unknown.
    """
    maps = _stack(maps, name)
    if maps.dtype.kind not in "iu":
        raise MaskError(f"{name} are {maps.dtype}; expected integer labels")
    known = (maps >= 0) & (maps < num_classes)
    expected = f"labels 0 to {num_classes - 1}"
    if ignore is not None:
        known |= maps == ignore
        expected += f" or {ignore} (ignored)"
    if not known.all():
        _raise_unknown(maps, known, name, expected)
    return maps


def same_pixels(first: np.ndarray, second: np.ndarray, names: tuple[str, str]) -> None:
    """Checks that two stacks differ at most in their number of masks.

    Raises:
        MaskError: if the batch sizes, heights or widths differ.
    """
    if first.shape[:-3] + first.shape[-2:] != second.shape[:-3] + second.shape[-2:]:
        raise MaskError(
            f"{names[0]} have shape {first.shape} and {names[1]} {second.shape}; "
            "expected the same height and width, and the same number of images"
        )


def probabilities(values: np.ndarray, name: str) -> np.ndarray:
    """Returns foreground probabilities as float64, of the same shape.

    Args:
        values: [S, H, W] or [N, S, H, W] in [0, 1]; hard masks are a special case.
        name: what the values are, for the error message.

    Raises:
        MaskError: if the shape is another, an axis is empty or a value out of range.
    """
    values = _stack(values, name)
    if not (values.min() >= 0 and values.max() <= 1):
        inside = (values >= 0) & (values <= 1)
        _raise_unknown(values, inside, name, "values in [0, 1]")
    return values.astype(np.float64)


def one_image(
    samples: np.ndarray, graders: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns samples and graders of one image as float64.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.

    Raises:
        MaskError: on other values or on shapes that do not fit.
    """
    samples = probabilities(samples, "samples")
    graders = binary_masks(graders, "graders")
    same_pixels(samples, graders, ("samples", "graders"))
    three_axes(samples)
    return samples, graders.astype(np.float64)


def three_axes(masks: np.ndarray, name: str = "samples") -> None:
    """Checks that masks are those of one image, not of a batch.

    Raises:
        MaskError: they have another number of axes.
    """
    if np.ndim(masks) != 3:
        raise MaskError(
            f"{name} have shape {np.shape(masks)}; expected one image's [S, H, W]"
        )


def weighted_mean(stack: np.ndarray, sample_weights: np.ndarray | None) -> np.ndarray:
    """Returns the mean over the masks, weighted where there are weights.

    Args:
        stack: [S, ...] or [N, S, ...] with three axes after N.
        sample_weights: [S] or [N, S] probabilities; None for equal ones.

    Returns:
        The stack without the axis S.

    Raises:
        ValueError: on weights that do not fit.
    """
    if sample_weights is None:
        return stack.mean(axis=-3)
    weights = mode_weights(sample_weights, stack.shape[:-2], "sample_weights")
    return np.einsum("...s,...shw->...hw", weights, stack)


def option(value: str, name: str, allowed: Sequence[str]) -> None:
    """Checks a named option.

    Raises:
        ValueError: if the value is not among those allowed.
    """
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")


def mode_weights(
    weights: np.ndarray, shape: tuple[int, ...], name: str = "weights"
) -> np.ndarray:
    """Returns the probabilities of masks or modes as float64, broadcast to shape.

    Args:
        weights: [M], or [N, M] for a batch.
        shape: the expected shape, (M,) or (N, M).
        name: what they are, for the error message.

    Raises:
        ValueError: unless they are of that shape, not negative and sum to 1.
    """
    weights = np.asarray(weights, np.float64)
    if weights.shape not in (shape, shape[-1:]):
        raise MaskError(f"{name} have shape {weights.shape}; expected {shape}")
    weights = np.broadcast_to(weights, shape)
    valid = (weights.min(-1) >= 0) & (np.abs(weights.sum(-1) - 1) < 1e-6)
    if not valid.all():
        image = int(np.argmin(valid)) if weights.ndim > 1 else None
        raise MaskError(
            f"{name} are {weights if image is None else weights[image]}; expected "
            "probabilities that sum to 1",
            image,
        )
    return weights


def _stack(masks: np.ndarray, name: str) -> np.ndarray:
    masks = np.asarray(masks)
    if masks.ndim not in (3, 4) or 0 in masks.shape:
        raise MaskError(
            f"{name} have shape {masks.shape}; expected [masks, height, width] or "
            "[images, masks, height, width], none of them 0"
        )
    if masks.dtype.kind not in "biuf":
        raise MaskError(f"{name} are {masks.dtype}; expected numbers")
    return masks


def _raise_unknown(
    masks: np.ndarray, known: np.ndarray, name: str, expected: str
) -> None:
    where = tuple(np.argwhere(~known)[0])
    image = int(where[0]) if masks.ndim == 4 else None
    place = "" if image is None else f" in image {image} of the batch"
    raise MaskError(f"{name} hold {masks[where]}{place}; expected {expected}", image)
