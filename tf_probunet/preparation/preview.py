"""A contact sheet of prepared images with the graders' outlines, for people."""

from __future__ import annotations

import itertools
import math
import pathlib

import numpy as np
import PIL.Image
import PIL.ImageDraw
import scipy.ndimage
import tensorflow as tf

from tf_probunet import files
from tf_probunet.dataset import records

# One colour per grader; most colour-blind people can tell them apart on grey.
COLOURS = np.array(
    [(255, 176, 0), (0, 158, 255), (255, 60, 140), (60, 230, 120)], np.uint8
)

_ZOOM = 2
_DASH = 6
_CAPTION_HEIGHT = 14
_LUNG_WINDOW_HU = (-1350.0, 150.0)


def write(data_dir: files.Path, path: files.Path, num_images: int) -> None:
    """Writes a contact sheet of images from all splits.

    The records are in random order in their shards, so the first ones are a random
    choice. It is the same every time.

    Args:
        data_dir: a prepared data set.
        path: the PNG file to write.
        num_images: how many images to show, at most.
    """
    info = records.read_info(data_dir)
    total = sum(info.count(split) for split in info.splits)
    tiles = []
    for split in info.splits:
        share = math.ceil(num_images * info.count(split) / total)
        shards = tf.data.TFRecordDataset(info.shard_paths(split))
        with records.named_errors(info, split):
            for serialized in itertools.islice(shards, share):
                fields = records.parse(serialized, info.spec)
                image = records.decode_image(fields["image"], info.spec).numpy()
                labels = records.decode_all_labels(fields["labels"], info.spec).numpy()
                caption = f"{split} {fields['key'].numpy().decode()}"
                grey = _to_grey(image[..., 0], info.spec.intensity)
                tiles.append(_with_caption(draw_outlines(grey, labels), caption))
    sheet = contact_sheet(tiles[:num_images])
    with files.atomic_path(pathlib.Path(path)) as temporary:
        PIL.Image.fromarray(sheet).save(temporary, format="PNG")


def draw_outlines(grey: np.ndarray, masks: np.ndarray, zoom: int = _ZOOM) -> np.ndarray:
    """Draws the outline of each mask in its colour over an image.

    Where outlines coincide, their colours alternate, so that none hides another.

    Args:
        grey: [H, W] uint8.
        masks: [G, H, W], G <= 4; non-zero inside.
        zoom: factor of enlargement.

    Returns:
        [zoom * H, zoom * W, 3] uint8.
    """
    large = grey.repeat(zoom, axis=0).repeat(zoom, axis=1)
    canvas = np.repeat(large[..., None], 3, axis=2)
    inside = (masks != 0).repeat(zoom, axis=1).repeat(zoom, axis=2)
    # [G, H, W]: pixels of a mask that touch the outside; the image's edge does not.
    edges = np.array(
        [mask & ~scipy.ndimage.binary_erosion(mask, border_value=1) for mask in inside]
    )
    number = edges.sum(axis=0)  # [H, W]
    rows, columns = np.indices(number.shape)
    turn = (rows + columns) // _DASH % np.maximum(number, 1)
    rank = np.cumsum(edges, axis=0) - 1  # of each grader among those at the pixel
    for grader, edge in enumerate(edges):
        canvas[edge & (rank[grader] == turn)] = COLOURS[grader]
    return canvas


def contact_sheet(tiles: list[np.ndarray]) -> np.ndarray:
    """Puts tiles of one size side by side, about as many rows as columns.

    Args:
        tiles: [h, w, 3] uint8 each, at least one.

    Returns:
        [rows * h, columns * w, 3] uint8; black where no tile is left.
    """
    columns = math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    height, width, _ = tiles[0].shape
    sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
    for index, tile in enumerate(tiles):
        top, left = index // columns * height, index % columns * width
        sheet[top : top + height, left : left + width] = tile
    return sheet


def _to_grey(image: np.ndarray, intensity: str) -> np.ndarray:
    if intensity == "hu":
        low, high = _LUNG_WINDOW_HU
        image = (image.clip(low, high) - low) / (high - low) * 255
    return np.rint(image).astype(np.uint8)


def _with_caption(tile: np.ndarray, text: str) -> np.ndarray:
    caption = PIL.Image.new("RGB", (tile.shape[1], _CAPTION_HEIGHT))
    PIL.ImageDraw.Draw(caption).text((2, 1), text, fill=(255, 255, 255))
    return np.concatenate([np.asarray(caption), tile])
