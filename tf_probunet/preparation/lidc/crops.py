"""Cuts a crop of fixed pixel size around a lesion out of a CT slice."""

from __future__ import annotations

import numpy as np

from tf_probunet.imaging.dicom import AIR_HU
from tf_probunet.imaging.resampling import crop_weights

SPACING_MM = 0.5
SIZE = 180


def crop(
    image: np.ndarray,
    masks: np.ndarray,
    spacing_mm: tuple[float, float],
    *,
    target_mm: float = SPACING_MM,
    size: int = SIZE,
) -> tuple[np.ndarray, np.ndarray]:
    """Resamples a slice in plane and crops it around the lesion on it.

    The result is the same as resampling the whole slice and then cutting out the crop,
    so its pixels lie on the same grid wherever the lesion is. The crop is centred on
    the tightest box around all graders' masks on this slice, to the nearest pixel.

    Image and masks are interpolated linearly. Where the target pixels are larger than
    the slice's, the interpolation reaches wider, so that no pixel is skipped. A pixel
    belongs to a mask if its interpolated value is at least one half. A mask that would
    become empty keeps its strongest pixel.

    Args:
        image: [rows, columns] int16, in Hounsfield units.
        masks: [G, rows, columns] bool, not all of them empty.
        spacing_mm: size of a pixel of the slice (row, column).
        target_mm: size of a pixel of the crop.
        size: pixels on each side of the crop.

    Returns:
        image: [size, size] int16, air (-1024) where the crop reaches beyond the slice.
        masks: [G, size, size] bool.
    """
    weights, inside, window = [], [], []
    mask_weights, box = [], []
    for axis in range(2):
        marked = np.flatnonzero(masks.any(axis=(0, 2 - axis)))
        scale = target_mm / spacing_mm[axis]
        # In target pixels, from the edge of the slice.
        centre = ((marked[0] + marked[-1]) / 2 + 0.5) / scale
        start = int(np.floor(centre - size / 2 + 0.5))
        axis_weights, axis_inside = crop_weights(start, size, scale, image.shape[axis])
        # Most of the slice has no weight in the crop, and most of a mask is empty: it
        # is left out of the products.
        used = np.flatnonzero(axis_weights.any(axis=0))
        window.append(slice(used[0], used[-1] + 1))
        weights.append(axis_weights[:, window[axis]])
        inside.append(axis_inside)
        box.append(slice(marked[0], marked[-1] + 1))
        mask_weights.append(axis_weights[:, box[axis]])
    rows, columns = window
    values = weights[0] @ image[rows, columns].astype(np.float64) @ weights[1].T
    values = np.where(np.logical_and.outer(*inside), values, AIR_HU)
    # The tolerance makes exact halves count in spite of rounding in the product.
    boxes = masks[:, box[0], box[1]].astype(np.float64)
    shares = mask_weights[0] @ boxes @ mask_weights[1].T  # [G, size, size]
    cropped = shares >= 0.5 - 1e-9
    for share, mask in zip(shares, cropped):
        if share.any() and not mask.any():
            mask[np.unravel_index(share.argmax(), share.shape)] = True
    return np.rint(values).astype(np.int16), cropped
