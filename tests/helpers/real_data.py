"""Where the real LIDC files lie, for tests marked `real_data`."""

from __future__ import annotations

import io
import os
import pathlib
import tarfile

import numpy as np
import PIL.Image
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def archive(name: str) -> pathlib.Path:
    """Returns an archive of real data; skips the test if it is not there."""
    default = REPOSITORY.parent / "shared" / "data"
    path = pathlib.Path(os.environ.get("TF_PROBUNET_REAL_DATA", default), name)
    if not path.is_file():
        pytest.skip(f"real data absent: {path} (see data/README.md)")
    return path


def unpack(name: str, target: pathlib.Path, last: str | None = None) -> None:
    """Unpacks an archive whose members are sorted by name.

    Args:
        name: of the archive.
        target: directory to unpack to.
        last: stop behind the members that begin with this; None to unpack all.
    """
    with tarfile.open(archive(name), "r|*") as members:
        for member in members:
            if last and member.name > last and not member.name.startswith(last):
                return
            destination = (target / member.name).resolve()
            assert destination.is_relative_to(target.resolve())
            if member.isfile():
                destination.parent.mkdir(parents=True, exist_ok=True)
                destination.write_bytes(members.extractfile(member).read())


def validation_slices(number: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Reads PNG slices that are spread evenly over the validation patients.

    Args:
        number: of slices; always the same ones for the same number.

    Returns:
        Their keys, the images [N, 128, 128] uint8 and what the four graders marked,
        [N, 4, 128, 128] bool. No image is without a mark.
    """
    patients = set(archive("lidc_slices.val_patients.txt").read_text().split())
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(archive("lidc_slices.tar.xz"), "r|*") as members:
        for member in members:
            parts = pathlib.PurePosixPath(member.name).parts
            if len(parts) == 5 and parts[1] in patients:
                key = "_".join([*parts[1:3], pathlib.Path(parts[4]).stem])
                content = members.extractfile(member).read()
                found.setdefault(key, {})[parts[3]] = content
    graders = {
        key: np.stack([_pixels(content[f"mask-{i}"]) > 127 for i in range(4)])
        for key, content in sorted(found.items())
    }
    marked = [key for key, masks in graders.items() if masks.any()]
    keys = [marked[i * len(marked) // number] for i in range(number)]
    images = np.stack([_pixels(found[key]["images"]) for key in keys])
    return keys, images, np.stack([graders[key] for key in keys])


def _pixels(png: bytes) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(png)))
