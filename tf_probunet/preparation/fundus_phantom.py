"""Artificial pictures of the back of the eye, as PNGs with several graders each.

Each eye has an optic disc with a cup inside. Two to six of the graders draw each eye.
Where the cup ends can be read in two ways, by its pallor or by the bend of the vessels,
and a grader follows one of them. If the cup is faint, some graders see none.
"""

from __future__ import annotations

import pathlib
from collections.abc import Container

import numpy as np
import PIL.Image
import scipy.ndimage

from tf_probunet import files, locks
from tf_probunet.config import FundusConfig
from tf_probunet.hashing import salted_hash
from tf_probunet.preparation import tree

CLASS_NAMES = ("background", "disc", "cup")
GRADERS = ("g1", "g2", "g3", "g4", "g5", "g6")
FEWEST_GRADERS = 2
# By the bend of the vessels, the cup is this much larger than by its pallor.
BEND_FACTOR = 1.4

_COLORS = ((0, 0, 0), (0, 200, 0), (0, 90, 255))
# How far each grader draws outside of the edge, as a share of the radius.
_HABITS = (-0.06, -0.03, 0.0, 0.0, 0.03, 0.06)
_RETINA, _DISC, _CUP = (150, 62, 28), (228, 150, 84), (250, 226, 180)
_VESSEL = (104, 24, 18)


@locks.holding("out_dir")
def write(out_dir: files.Path, config: FundusConfig | None = None) -> tuple[int, int]:
    """Writes `images/`, `masks/` and `classes.csv`.

    An eye depends only on its name, its size and the seed.

    Args:
        out_dir: the folder.
        config: number and size.

    Returns:
        The numbers of images and of masks.

    Raises:
        ValueError: the folder holds other pictures.
    """
    config = config or FundusConfig()
    root = pathlib.Path(out_dir)
    names = [
        f"patient_{number:04d}_{side}"
        for number in range(1, config.num_patients + 1)
        for side in ("left", "right")
    ]
    possible = [f"masks/{name}_{grader}.png" for name in names for grader in GRADERS]
    tree.refuse_other_files(root, [*(f"images/{n}.png" for n in names), *possible])
    num_masks = 0
    for name in names:
        image, labels = draw(name, config)
        _save(root / "images" / f"{name}.png", PIL.Image.fromarray(image))
        _remove_masks(root / "masks", name, keep=labels)
        for grader, drawn in labels.items():
            picture = PIL.Image.fromarray(drawn).convert("P")
            picture.putpalette(bytes(np.array(_COLORS, np.uint8)))
            _save(root / "masks" / f"{name}_{grader}.png", picture)
        num_masks += len(labels)
    rows = [
        "{},{},#{:02x}{:02x}{:02x}".format(name, value, *_COLORS[value])
        for value, name in enumerate(CLASS_NAMES)
    ]
    files.write_text(
        root / "classes.csv", "\n".join(["name,value,color", *rows]) + "\n"
    )
    return len(names), num_masks


def draw(name: str, config: FundusConfig) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draws an eye and what its graders see.

    Args:
        name: of the eye; right eyes are mirrored.
        config: size and seed.

    Returns:
        The image [H, W, 3] uint8, and for each grader a label map [H, W] uint8 of
        `CLASS_NAMES`.
    """
    rng = np.random.default_rng(salted_hash(name, f"fundus {config.seed}"))
    eye = _Eye(rng, config.height, config.width)
    image = eye.image()
    number = rng.integers(FEWEST_GRADERS, len(GRADERS) + 1)
    chosen = sorted(rng.choice(len(GRADERS), size=number, replace=False))
    labels = {GRADERS[i]: eye.labels(rng, _HABITS[i]) for i in chosen}
    if name.endswith("right"):
        image = image[:, ::-1]
        labels = {grader: drawn[:, ::-1] for grader, drawn in labels.items()}
    return image, labels


class _Eye:
    """An eye, seen from the front."""

    def __init__(self, rng: np.random.Generator, height: int, width: int) -> None:
        self._rng = rng
        rows, columns = np.mgrid[:height, :width] + 0.5
        self._centre = np.array([height, width]) * rng.uniform(
            [0.42, 0.32], [0.58, 0.46]
        )
        self._rows, self._columns = rows - self._centre[0], columns - self._centre[1]
        self._radius = height * rng.uniform(0.16, 0.22)
        self._ratio = rng.uniform(0.35, 0.6)
        self._contrast = rng.uniform(0.15, 1.0)
        self._bend_prob = rng.uniform(0.15, 0.85)
        stretch, tilt = rng.uniform(1.0, 1.15), rng.uniform(-0.3, 0.3)
        up = np.cos(tilt) * self._rows + np.sin(tilt) * self._columns
        along = np.cos(tilt) * self._columns - np.sin(tilt) * self._rows
        # Distance from the centre; 1 is the edge of the disc.
        self._distance = np.hypot(up / stretch, along) / self._radius

    def labels(self, rng: np.random.Generator, habit: float) -> np.ndarray:
        """Draws the label map [H, W] of a grader."""
        sees_cup = rng.random() < 0.25 + 1.5 * self._contrast
        by_bend = rng.random() < self._bend_prob
        outside = habit + rng.normal(0.0, 0.01)
        ratio = self._ratio * (BEND_FACTOR if by_bend else 1.0)
        labels = (self._distance < 1.0 + outside).astype(np.uint8)
        if sees_cup:
            labels[self._distance < ratio * (1.0 + outside)] = 2
        return labels

    def image(self) -> np.ndarray:
        """Draws the picture [H, W, 3] uint8."""
        rng, shape = self._rng, self._distance.shape
        texture = scipy.ndimage.gaussian_filter(rng.normal(size=shape), 3.0)
        light = 1.0 + 0.05 * texture / texture.std()
        light -= 0.35 * (self._distance / self._distance.max()) ** 2
        picture = np.array(_RETINA) * light[..., None]  # [H, W, 3]
        disc = _inside(self._distance, 1.0, 0.05)
        picture = _mixed(picture, _DISC, disc)
        # The cup is palest at its middle and ends somewhere between its two readings.
        cup = _inside(self._distance, self._ratio * (1 + BEND_FACTOR) / 2, 0.12)
        picture = _mixed(picture, _CUP, self._contrast * cup)
        picture = _mixed(picture, _VESSEL, 0.85 * self._vessels())
        picture += rng.normal(0.0, 4.0, size=picture.shape)
        return np.rint(picture).clip(0, 255).astype(np.uint8)

    def _vessels(self) -> np.ndarray:
        """Returns [H, W]: 1 in the middle of a vessel, 0 away from all."""
        angle = np.arctan2(self._rows, self._columns)
        found = np.zeros(self._distance.shape)
        bend_at = self._ratio * BEND_FACTOR
        for start in self._rng.uniform(-np.pi, np.pi, size=7):
            turn = self._rng.choice([-1, 1]) * self._rng.uniform(0.15, 0.4)
            width = self._radius * self._rng.uniform(0.03, 0.06)
            # Vessels come up inside of the cup, and bend where it ends.
            beyond = np.maximum(self._distance - bend_at, 0.0)
            way = start + turn * np.minimum(beyond, 3.0) ** 0.7
            apart = np.angle(np.exp(1j * (angle - way)))
            across = apart * self._distance * self._radius
            found = np.maximum(found, np.exp(-0.5 * (across / width) ** 2))
        return found * np.clip(5 * self._distance - 0.5, 0.0, 1.0)


def _inside(distance: np.ndarray, edge: float, softness: float) -> np.ndarray:
    return 0.5 - 0.5 * np.tanh((distance - edge) / softness)


def _mixed(
    picture: np.ndarray, color: tuple[int, int, int], weight: np.ndarray
) -> np.ndarray:
    return picture + weight[..., None] * (np.array(color) - picture)


def _remove_masks(folder: pathlib.Path, name: str, keep: Container[str]) -> None:
    """Removes the masks of an eye by other graders, which another seed has drawn."""
    for grader in GRADERS:
        if grader not in keep:
            (folder / f"{name}_{grader}.png").unlink(missing_ok=True)


def _save(path: pathlib.Path, picture: PIL.Image.Image) -> None:
    with files.atomic_path(path) as temporary:
        picture.save(temporary)
