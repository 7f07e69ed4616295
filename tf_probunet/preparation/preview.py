"""A contact sheet of prepared images with the graders' outlines, for people."""

from __future__ import annotations

import colorsys
import itertools
import math
import pathlib

import numpy as np
import PIL.Image
import PIL.ImageDraw
import scipy.ndimage
import tensorflow as tf

from tf_probunet import files
from tf_probunet.dataset import cityscapes_labels, records

NAME = "preview.png"

# Of graders, or of classes; most colour-blind people can tell them apart on grey.
COLOURS = np.array(
    [(255, 176, 0), (0, 158, 255), (255, 60, 140), (60, 230, 120)], np.uint8
)

_ZOOM = 2
# Images with a longer side than these are not enlarged, and reduced.
_MAX_ENLARGED, _MAX_SIDE = 256, 640
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
                tiles.append(_with_caption(_tile(image, labels, info.spec), caption))
    sheet = contact_sheet(tiles[:num_images])
    if info.spec.num_classes > 2:
        sheet = np.concatenate([_legend(sheet.shape[1], info.spec), sheet])
    with files.atomic_path(pathlib.Path(path)) as temporary:
        PIL.Image.fromarray(sheet).save(temporary, format="PNG")


def draw_outlines(
    picture: np.ndarray,
    masks: np.ndarray,
    zoom: int = _ZOOM,
    shades: np.ndarray = COLOURS,
) -> np.ndarray:
    """Draws the outline of each mask in its colour over an image.

    Where outlines coincide, their colours alternate, so that none hides another.

    Args:
        picture: [H, W] or [H, W, 3] uint8.
        masks: [N, H, W]; non-zero inside.
        zoom: factor of enlargement.
        shades: [N, 3] or more; the colour of each mask.

    Returns:
        [zoom * H, zoom * W, 3] uint8.
    """
    large = picture.repeat(zoom, axis=0).repeat(zoom, axis=1)
    canvas = large if large.ndim == 3 else np.repeat(large[..., None], 3, axis=2)
    inside = (masks != 0).repeat(zoom, axis=1).repeat(zoom, axis=2)
    # [N, H, W]: pixels of a mask that touch the outside; the image's edge does not.
    edges = np.array(
        [mask & ~scipy.ndimage.binary_erosion(mask, border_value=1) for mask in inside]
    )
    number = edges.sum(axis=0)  # [H, W]
    rows, columns = np.indices(number.shape)
    turn = (rows + columns) // _DASH % np.maximum(number, 1)
    rank = np.cumsum(edges, axis=0) - 1  # of each mask among those at the pixel
    for index, edge in enumerate(edges):
        canvas[edge & (rank[index] == turn)] = shades[index]
    return canvas


def _tile(
    image: np.ndarray, labels: np.ndarray, spec: records.DatasetSpec
) -> np.ndarray:
    """Draws the masks of all graders: a colour per grader, or per class if several."""
    picture = _to_picture(image, spec.intensity)
    longest = max(labels.shape[1:])
    if longest > _MAX_SIDE:
        step = math.ceil(longest / _MAX_SIDE)
        picture, labels = picture[::step, ::step], labels[:, ::step, ::step]
    zoom = _ZOOM if longest <= _MAX_ENLARGED else 1
    if spec.num_classes == 2:
        return draw_outlines(picture, labels == 1, zoom, colours(len(labels)))
    first = 0 if _is_cityscapes(spec) else 1
    present = [n for n in np.unique(labels) if first <= n < spec.num_classes]
    masks = [labels == label for label in present]  # [G, H, W] each
    empty = np.zeros((0, *labels.shape[1:]), bool)
    shades = _class_colours(spec)[present].repeat(len(labels), axis=0)
    return draw_outlines(picture, np.concatenate([empty, *masks]), zoom, shades)


def colours(number: int) -> np.ndarray:
    """Returns [number, 3] uint8: first `COLOURS`, then other hues."""
    # Steps of the golden ratio never come close to an earlier hue.
    hues = [(0.75 + i * 0.618034) % 1 for i in range(number - len(COLOURS))]
    more = [255 * np.array(colorsys.hsv_to_rgb(hue, 0.7, 1.0)) for hue in hues]
    rest = np.array(more, np.uint8).reshape(-1, 3)
    return np.concatenate([COLOURS, rest])[:number]


def _is_cityscapes(spec: records.DatasetSpec) -> bool:
    """Whether the classes have colours that everybody knows, and no background."""
    return tuple(spec.class_names) == cityscapes_labels.TRAIN_CLASS_NAMES


def _class_colours(spec: records.DatasetSpec) -> np.ndarray:
    """Returns [K, 3] uint8; the background's is not used."""
    if _is_cityscapes(spec):
        return cityscapes_labels.COLORS[: spec.num_classes]
    return np.concatenate([COLOURS[:1], colours(spec.num_classes - 1)])


def _legend(width: int, spec: records.DatasetSpec) -> np.ndarray:
    """Returns the names of the classes in their colours, in as many lines as needed."""
    names = [_plain(name) for name in spec.class_names]
    start = 0 if _is_cityscapes(spec) else 1
    lines = max(1, math.ceil(sum(7 * len(name) + 14 for name in names) / width) + 1)
    legend = PIL.Image.new("RGB", (width, lines * _CAPTION_HEIGHT))
    draw = PIL.ImageDraw.Draw(legend)
    left, top = 2.0, 1
    for name, colour in list(zip(names, _class_colours(spec)))[start:]:
        length = draw.textlength(name)
        if left + length > width and left > 2:
            left, top = 2.0, top + _CAPTION_HEIGHT
        draw.text((left, top), name, fill=tuple(int(c) for c in colour))
        left += length + 14
    return np.asarray(legend)[: top - 1 + _CAPTION_HEIGHT]


def contact_sheet(tiles: list[np.ndarray]) -> np.ndarray:
    """Puts tiles side by side, about as many rows as columns.

    Args:
        tiles: [h, w, 3] uint8 each, at least one; of any sizes.

    Returns:
        [rows * h, columns * w, 3] uint8, where h and w are the largest; black where
        there is no tile.
    """
    columns = math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    height, width = (max(tile.shape[axis] for tile in tiles) for axis in (0, 1))
    sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
    for index, tile in enumerate(tiles):
        top, left = index // columns * height, index % columns * width
        sheet[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return sheet


def _to_picture(image: np.ndarray, intensity: str) -> np.ndarray:
    """Returns [H, W] or [H, W, 3] uint8 of [H, W, C] as the records hold it."""
    if intensity == "hu":
        low, high = _LUNG_WINDOW_HU
        image = (image.clip(low, high) - low) / (high - low) * 255
    image = np.rint(image).astype(np.uint8)
    return image[..., 0] if image.shape[2] == 1 else image


def _with_caption(tile: np.ndarray, text: str) -> np.ndarray:
    caption = PIL.Image.new("RGB", (tile.shape[1], _CAPTION_HEIGHT))
    PIL.ImageDraw.Draw(caption).text((2, 1), _plain(text), fill=(255, 255, 255))
    return np.concatenate([np.asarray(caption), tile])


def _plain(text: str) -> str:
    """Replaces letters that Pillow's own font may not have."""
    return text.encode("ascii", "replace").decode()
