"""Small trees of images and masks, and the records that were made of them."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np
import PIL.Image
import tensorflow as tf

from tf_probunet.dataset import records
from tf_probunet.preparation.folder import prepare as folder
from tf_probunet.preparation.folder.config import FolderConfig


class Read(NamedTuple):
    """An example as it is in the records."""

    split: str
    group: str
    image: np.ndarray
    labels: np.ndarray
    spacing_mm: tuple[float, ...]


def save(path: pathlib.Path, array: np.ndarray, **options) -> pathlib.Path:
    """Writes an array as a picture; the suffix of the name says the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(array).save(path, **options)
    return path


def picture(number: int, height: int = 12, width: int = 16) -> np.ndarray:
    """Returns [H, W, 3] uint8, different for each number."""
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def mask(number: int, value: int = 255, height: int = 12, width: int = 16):
    """Returns [H, W] uint8 with a rectangle of a value, different for each number."""
    result = np.zeros((height, width), np.uint8)
    result[2 : 5 + number % 5, 3 : 8 + number % 7] = value
    return result


def tree(root: pathlib.Path, images: int = 6, graders: int = 2) -> pathlib.Path:
    """Writes images/im_I.png and masks/im_I_gG.png, with binary masks."""
    for i in range(images):
        save(root / "images" / f"im_{i}.png", picture(i))
        for g in range(graders):
            save(root / "masks" / f"im_{i}_g{g}.png", mask(10 * i + g))
    return root


def prepare(root, out_dir, *, settings=None, **options):
    """Prepares a folder in this process and returns the report."""
    config = FolderConfig(**(settings or {}))
    return folder.prepare(root, out_dir, config, num_workers=1, **options)


def read(data_dir: pathlib.Path) -> dict[str, Read]:
    """Returns all examples of a data set by their keys."""
    info = records.read_info(data_dir)
    found = {}
    for split in info.splits:
        for serialized in tf.data.TFRecordDataset(info.shard_paths(split)):
            fields = records.parse(serialized, info.spec)
            found[fields["key"].numpy().decode()] = Read(
                split,
                fields["group"].numpy().decode(),
                records.decode_image(fields["image"], info.spec).numpy(),
                records.decode_all_labels(fields["labels"], info.spec).numpy(),
                tuple(fields["spacing_mm"].numpy().tolist()),
            )
    return found
