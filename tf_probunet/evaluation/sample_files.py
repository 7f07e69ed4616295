"""Samples of any model as files: one NPZ, or one directory of PNGs, per image.

`<name>.npz` holds the array `samples` [S, H, W]; `<name>/sample_000.png`,
`sample_001.png`, ... hold one sample each. Samples may have weights: the array
`weights` [S] of the NPZ file, or `{"weights": [...]}` in `<name>/weights.json`.
`<name>` is the image's key, with characters
other than letters, digits and `_-.~` percent-encoded (see `file_name`).
"""

from __future__ import annotations

import hashlib
import pathlib
import urllib.parse
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import PIL.Image

from tf_probunet import arrays, damage, files
from tf_probunet.config import MAX_SAMPLES
from tf_probunet.evaluation.metrics import checks

ARRAY_NAME = "samples"
WEIGHTS_NAME = "weights"
_WEIGHTS_FILE = f"{WEIGHTS_NAME}.json"

_PNG_MODES = ("1", "L", "P")


def file_name(key: str) -> str:
    """Returns the name, without suffix, of the file or directory of a key.

    A key such as "patient 1/slice 7" becomes "patient%201%2Fslice%207", so no key
    leads outside the directory.
    """
    name = urllib.parse.quote(key, safe="")
    return "%2E" + name[1:] if name.startswith(".") else name


def write(
    samples_dir: files.Path,
    key: str,
    samples: np.ndarray,
    weights: np.ndarray | None = None,
) -> pathlib.Path:
    """Writes the samples of one image as NPZ, atomically.

    Args:
        samples_dir: created if necessary.
        key: of the image.
        samples: [S, H, W] integer labels.
        weights: [S] probabilities of the samples; None for equal ones.

    Returns:
        The file.

    Raises:
        ValueError: on other shapes or types, or weights that do not sum to 1.
    """
    samples = np.asarray(samples)
    if samples.ndim != 3 or samples.dtype.kind not in "biu":
        raise ValueError(
            f"{key}: samples are {samples.dtype}{list(samples.shape)}; expected "
            "integers [S, H, W]"
        )
    stored: dict[str, Any] = {ARRAY_NAME: samples}
    if weights is not None:
        with checks.naming(key):
            stored[WEIGHTS_NAME] = checks.mode_weights(weights, (len(samples),))
    path = pathlib.Path(samples_dir, f"{file_name(key)}.npz")
    with files.atomic_path(path) as temporary:
        np.savez_compressed(temporary, **stored)
    return path


def find(samples_dir: files.Path, keys: Collection[str]) -> dict[str, pathlib.Path]:
    """Lists the samples in a directory; names that begin with a dot are ignored.

    Args:
        samples_dir: the directory.
        keys: of all images that may have samples.

    Returns:
        The NPZ file, or the directory of PNGs, by key.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: a file does not belong to any key, or a key has two files.
    """
    samples_dir = pathlib.Path(samples_dir)
    if not samples_dir.is_dir():
        raise FileNotFoundError(f"{samples_dir}: no such directory of samples")
    names = {file_name(key): key for key in keys}
    found: dict[str, pathlib.Path] = {}
    for path in sorted(samples_dir.iterdir()):
        if path.name.startswith("."):
            continue
        is_npz = path.suffix == ".npz" and path.is_file()
        key = names.get(path.stem if is_npz else path.name)
        if key is None or not (is_npz or path.is_dir()):
            raise ValueError(
                f"{path}: does not belong to an image; expected <key>.npz or a "
                f"directory <key> for one of {len(names)} keys such as "
                f"{min(names, default='')}"
            )
        if key in found:
            raise ValueError(f"{path}: {key} has samples in {found[key]} too")
        found[key] = path
    return found


def read(
    found: Mapping[str, pathlib.Path],
    key: str,
    *,
    count: int,
    size: tuple[int, int],
    num_classes: int,
) -> np.ndarray:
    """Reads the first samples of one image; sizes are checked before decoding.

    Args:
        found: the result of `find`.
        key: of the image.
        count: S.
        size: (H, W) that the samples must have.
        num_classes: labels are 0 to num_classes - 1. In PNGs of binary masks 255 is
            read as 1.

    Returns:
        [S, H, W] uint8.

    Raises:
        FileNotFoundError: there is no file for the key.
        ValueError: the file is damaged or holds something else.
    """
    if key not in found:
        raise FileNotFoundError(
            f"{key}: no samples; expected {file_name(key)}.npz or a directory "
            f"{file_name(key)}"
        )
    path = found[key]
    if path.suffix == ".npz" and path.is_file():
        samples = _read_npz(path, count, size)
    else:
        pngs = _png_paths(path, count)
        samples = np.stack([_read_png(png, size, num_classes) for png in pngs])
    if samples.min() < 0 or samples.max() >= num_classes:
        wrong = samples[(samples < 0) | (samples >= num_classes)][0]
        raise ValueError(
            f"{path}: samples hold {wrong}; expected labels 0 to {num_classes - 1}"
        )
    return samples.astype(np.uint8)


def has_weights(path: pathlib.Path) -> bool:
    """Whether the file or directory of an image has weights of its samples.

    Raises:
        ValueError: the file is damaged.
    """
    if path.is_dir():
        return (path / _WEIGHTS_FILE).is_file()
    return WEIGHTS_NAME in arrays.npz_names(path)


def read_weighted(
    found: Mapping[str, pathlib.Path],
    key: str,
    *,
    count: int,
    size: tuple[int, int],
    num_classes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Reads all samples of one image, and their weights.

    Args:
        found: the result of `find`.
        key: of the image.
        count: S. An image may have fewer samples: the first one is then repeated with
            the weight 0.
        size: (H, W) that the samples must have.
        num_classes: see `read`.

    Returns:
        [S, H, W] uint8 and [S] float64.

    Raises:
        FileNotFoundError: there is no file for the key.
        ValueError: the file is damaged, or has other or more samples, or no weights.
    """
    path = found.get(key)
    if path is not None and not has_weights(path):
        raise ValueError(
            f"{path}: has no {WEIGHTS_NAME}, expected them as in the other samples"
        )
    weights = np.ones(1) if path is None else _read_weights(path)
    if not 1 <= len(weights) <= count:
        raise ValueError(
            f"{path}: has {len(weights)} weighted samples, expected 1 to {count}, the "
            "--num_samples"
        )
    with checks.naming(str(path)):
        weights = checks.mode_weights(weights, (len(weights),))
    samples = read(found, key, count=len(weights), size=size, num_classes=num_classes)
    if path is not None and _number_of_samples(path) != len(weights):
        raise ValueError(
            f"{path}: has {_number_of_samples(path)} samples and {len(weights)} "
            "weights, expected as many"
        )
    missing = count - len(weights)
    samples = np.concatenate([samples, np.repeat(samples[:1], missing, axis=0)])
    return samples, np.concatenate([weights, np.zeros(missing)])


def _read_weights(path: pathlib.Path) -> np.ndarray:
    """Reads numbers [S]."""
    if path.is_dir():
        file = path / _WEIGHTS_FILE
        stored = files.read_json(file, "weights of samples").get(WEIGHTS_NAME)
        numbers = isinstance(stored, list) and all(
            type(number) in (int, float) for number in stored
        )
        weights = np.array(stored if numbers else "no numbers")
    else:
        shape, dtype = arrays.npz_header(path, WEIGHTS_NAME)
        if len(shape) == 1 and shape[0] <= MAX_SAMPLES and dtype.kind in "iuf":
            weights = arrays.read_npz(path, [WEIGHTS_NAME])[WEIGHTS_NAME]
        else:
            weights = np.array("no numbers")
    if weights.ndim != 1 or not np.isfinite(weights).all():
        raise ValueError(f"{path}: {WEIGHTS_NAME} are not a list of numbers")
    return weights


def _number_of_samples(path: pathlib.Path) -> int:
    if path.is_dir():
        return len(list(path.glob("sample_*.png")))
    return arrays.npz_header(path, ARRAY_NAME)[0][0]


def fingerprint(found: Mapping[str, pathlib.Path]) -> str:
    """Returns a short hash of the content of all files."""
    digest = hashlib.sha256()
    for key in sorted(found):
        path = found[key]
        members = [path]
        if path.is_dir():
            weights = path / _WEIGHTS_FILE
            members = sorted(path.glob("sample_*.png"))
            members += [weights] if weights.is_file() else []
        for member in members:
            digest.update(f"{key} {member.name} {files.sha256(member)}\n".encode())
    return digest.hexdigest()[:16]


def _read_npz(path: pathlib.Path, count: int, size: tuple[int, int]) -> np.ndarray:
    shape, dtype = arrays.npz_header(path, ARRAY_NAME)
    _check_header(path, shape, dtype, count, size)
    return arrays.read_npz(path, [ARRAY_NAME])[ARRAY_NAME][:count]


def _check_header(
    path: pathlib.Path,
    shape: tuple[int, ...],
    dtype: np.dtype,
    count: int,
    size: tuple[int, int],
) -> None:
    if dtype.kind not in "biu":
        raise ValueError(f"{path}: samples are {dtype}; expected integers")
    if len(shape) != 3 or shape[1:] != tuple(size):
        raise ValueError(
            f"{path}: samples have shape {shape}; expected [S, {size[0]}, {size[1]}]"
        )
    if not count <= shape[0] <= MAX_SAMPLES:
        raise ValueError(
            f"{path}: has {shape[0]} samples; expected {count} to {MAX_SAMPLES}"
        )


def _png_paths(directory: pathlib.Path, count: int) -> list[pathlib.Path]:
    paths = [directory / f"sample_{i:03d}.png" for i in range(count)]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: missing; expected {count} samples")
    return paths


def _read_png(
    path: pathlib.Path, size: tuple[int, int], num_classes: int
) -> np.ndarray:
    try:
        with files.BoundedReader(path) as file:
            image = PIL.Image.open(file, formats=["PNG"])
            mode, found = image.mode, image.size[::-1]
            if mode == "L":
                mode = damage.stored_mode(image)
            fits = found == tuple(size) and mode in _PNG_MODES
            labels = np.array(image).astype(np.uint8) if fits else None
    except PIL.Image.DecompressionBombError as error:
        raise ValueError(f"{path}: refused ({error})") from error
    except damage.PICTURE as error:
        raise ValueError(
            f"{path}: damaged PNG file ({damage.reason(error)})"
        ) from error
    if labels is None:
        raise ValueError(
            f"{path}: is {found[0]}x{found[1]} of mode {mode}; expected "
            f"{size[0]}x{size[1]} of mode {' or '.join(_PNG_MODES)}"
        )
    if num_classes == 2:
        labels[labels == 255] = 1
    return labels
