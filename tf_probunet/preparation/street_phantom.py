"""Artificial street scenes in the raw layout of Cityscapes, for tests and demos.

Every scene has all five switchable classes, ignored labels and most other classes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFilter

from tf_probunet import files, locks
from tf_probunet.dataset import cityscapes_labels
from tf_probunet.hashing import salted_hash
from tf_probunet.preparation import tree

# Three of the training cities are the paper's validation cities.
CITIES = {
    "train": ("aachen", "bochum", "darmstadt", "hamburg", "monchengladbach", "ulm"),
    "val": ("frankfurt", "lindau"),
}

_IDS = {label.name: label.id for label in cityscapes_labels.LABELS}
_SWITCHABLE_IDS = tuple(_IDS[switch.name] for switch in cityscapes_labels.SWITCHES)

# A class that covers less does not count as present: 33 pixels of 512 x 256.
_LEAST_FRACTION = 1 / 4000

# Metres: the camera's height above the road, and the layout of the street.
_CAMERA_HEIGHT = 1.5
_ROAD_HALF_WIDTH = 4.5
_SIDEWALK_WIDTH = 3.5
_NEAREST, _FARTHEST = 1.0, 90.0

# Amplitude of the texture per class, fine and coarse, in grey levels.
_TEXTURE = {
    "road": (5, 5),
    "sidewalk": (6, 6),
    "building": (4, 6),
    "vegetation": (16, 22),
    "terrain": (12, 12),
    "sky": (1, 12),
}

Color = tuple[int, int, int]
Point = tuple[float, float]


def draw_scene(
    rng: np.random.Generator, height: int = 256, width: int = 512
) -> tuple[np.ndarray, np.ndarray]:
    """Draws a scene.

    Args:
        rng: decides everything about the scene.
        height: of the picture, at least 64.
        width: of the picture.

    Returns:
        The image [H, W, 3] uint8 and its official label ids [H, W] uint8; each of the
        five switchable classes covers at least 1/4000 of the picture.

    Raises:
        ValueError: if the picture is too small or not wider than high.
    """
    if height < 64 or width < height:
        raise ValueError(
            f"scene of height {height} and width {width}, expected a height of at "
            "least 64 and a width of at least the height"
        )
    while True:
        street = _Street(rng, height, width)
        street.draw()
        ids = np.array(street.ids)
        counts = np.bincount(ids.ravel(), minlength=256)
        if counts[list(_SWITCHABLE_IDS)].min() >= _LEAST_FRACTION * ids.size:
            return _textured(rng, np.array(street.image), ids), ids


@locks.holding("out_dir")
def write(
    out_dir: files.Path,
    *,
    images_per_city: int = 8,
    height: int = 256,
    width: int = 512,
    seed: int = 0,
) -> int:
    """Writes scenes as `leftImg8bit` and `gtFine` PNGs, by split and city.

    Args:
        out_dir: the folder to use instead of the Cityscapes folder.
        images_per_city: scenes for each of the cities in `CITIES`.
        height: of the pictures.
        width: of the pictures.
        seed: the seed. A scene depends only on it, its name and its size.

    Returns:
        The number of scenes.

    Raises:
        ValueError: if there would be no scene or the size is not possible.
    """
    if images_per_city < 1:
        raise ValueError(f"images_per_city is {images_per_city}, expected 1 or more")
    stems = [
        (split, city, f"{city}_{number:06d}_000019")
        for split, cities in CITIES.items()
        for city in cities
        for number in range(images_per_city)
    ]
    root = pathlib.Path(out_dir)
    paths = {
        stem: (
            f"leftImg8bit/{split}/{city}/{stem}_leftImg8bit.png",
            f"gtFine/{split}/{city}/{stem}_gtFine_labelIds.png",
        )
        for split, city, stem in stems
    }
    tree.refuse_other_files(root, [path for pair in paths.values() for path in pair])
    for stem, (image_path, labels_path) in paths.items():
        rng = np.random.default_rng(salted_hash(stem, f"street {seed}"))
        image, ids = draw_scene(rng, height, width)
        _save(root / image_path, image)
        _save(root / labels_path, ids)
    return len(paths)


def _save(path: pathlib.Path, array: np.ndarray) -> None:
    with files.atomic_path(path) as temporary:
        PIL.Image.fromarray(array).save(temporary)


class _Street:
    """A street in perspective, painted from far to near.

    Points are (x to the right, y up from the road, z ahead) in metres.
    """

    def __init__(self, rng: np.random.Generator, height: int, width: int) -> None:
        self._rng = rng
        self._height, self._width = height, width
        self._focal = 1.2 * height
        self._vanishing = (
            width * rng.uniform(0.42, 0.58),
            height * rng.uniform(0.40, 0.48),
        )
        self.image = PIL.Image.new("RGB", (width, height))
        self.ids = PIL.Image.new("L", (width, height))
        self._image_draw = PIL.ImageDraw.Draw(self.image)
        self._ids_draw = PIL.ImageDraw.Draw(self.ids)

    def draw(self) -> None:
        """Paints everything."""
        self._sky()
        self._ground()
        things = self._buildings() + self._furniture() + self._traffic()
        for _, paint, arguments in sorted(things, key=lambda thing: -thing[0]):
            paint(*arguments)
        self._ego_vehicle()

    # Geometry and paint.

    def _project(self, x: float, y: float, z: float) -> Point:
        scale = self._focal / max(z, _NEAREST)
        return (
            self._vanishing[0] + scale * x,
            self._vanishing[1] + scale * (_CAMERA_HEIGHT - y),
        )

    def _polygon(
        self, points: Sequence[Sequence[float]], color: Color, name: str | None = None
    ) -> None:
        """Fills a polygon of points in space; without a name it keeps the labels."""
        flat = [self._project(*point) for point in points]
        self._image_draw.polygon(flat, fill=color)
        if name is not None:
            self._ids_draw.polygon(flat, fill=_IDS[name])

    def _facing(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        z: float,
        color: Color,
        name: str | None = None,
    ) -> None:
        """Fills an upright rectangle that faces the camera."""
        corners = [(x[0], y[0], z), (x[1], y[0], z), (x[1], y[1], z), (x[0], y[1], z)]
        self._polygon(corners, color, name)

    def _disc(
        self,
        center: Sequence[float],
        radius: float,
        color: Color,
        name: str | None = None,
        flatten: float = 1.0,
    ) -> None:
        """Fills a disc that faces the camera; `flatten` makes it lower than wide."""
        x, y = self._project(*center)
        across = radius * self._focal / center[2]
        box = [x - across, y - flatten * across, x + across, y + flatten * across]
        self._image_draw.ellipse(box, fill=color)
        if name is not None:
            self._ids_draw.ellipse(box, fill=_IDS[name])

    def _color(self, *options: Color, spread: int = 15) -> Color:
        """One of the colours, a little changed."""
        base = np.array(options[self._rng.integers(len(options))])
        changed = base + self._rng.integers(-spread, spread + 1)
        changed += self._rng.integers(-spread // 3, spread // 3 + 1, 3)
        red, green, blue = np.clip(changed, 0, 255).tolist()
        return red, green, blue

    # Background.

    def _sky(self) -> None:
        top = self._color((120, 160, 215), (165, 180, 200), (190, 195, 200))
        for row in range(self._height):
            pale = min(1.0, row / self._vanishing[1])
            shade = tuple(int(c + (235 - c) * 0.7 * pale) for c in top)
            self._image_draw.line([(0, row), (self._width, row)], fill=shade)
        self._ids_draw.rectangle([0, 0, self._width, self._height], fill=_IDS["sky"])
        for x in np.arange(-45, 45, 5.0).tolist():
            color = self._color((85, 110, 75), spread=10)
            center = (x + self._rng.uniform(-2, 2), 1.0, _FARTHEST)
            self._disc(center, self._rng.uniform(3, 7), color, "vegetation")

    def _ground(self) -> None:
        walk = _ROAD_HALF_WIDTH + _SIDEWALK_WIDTH
        self._strip(-200, 200, self._color((120, 130, 75)), "terrain")
        self._strip(-walk, walk, self._color((150, 142, 138), spread=8), "sidewalk")
        self._strip(
            -_ROAD_HALF_WIDTH, _ROAD_HALF_WIDTH, self._color((95, 95, 100)), "road"
        )
        if self._rng.random() < 0.4:
            parked = self._rng.choice([-1, 1])
            edges = (parked * (_ROAD_HALF_WIDTH - 1.2), parked * _ROAD_HALF_WIDTH)
            color = self._color((118, 112, 110), spread=5)
            self._strip(min(edges), max(edges), color, "parking")
        for side in (-1, 1):
            curb = side * _ROAD_HALF_WIDTH
            self._strip(curb - 0.08, curb + 0.08, (185, 182, 176))
        for start in np.arange(self._rng.uniform(0, 6), _FARTHEST, 6.0).tolist():
            self._strip(-0.09, 0.09, (215, 215, 210), ends=(start, start + 3))

    def _strip(
        self,
        left: float,
        right: float,
        color: Color,
        name: str | None = None,
        ends: tuple[float, float] = (_NEAREST, _FARTHEST),
    ) -> None:
        """Fills a strip of the ground along the street."""
        near, far = ends
        corners = [(left, 0, near), (right, 0, near), (right, 0, far), (left, 0, far)]
        self._polygon(corners, color, name)

    def _ego_vehicle(self) -> None:
        """The hood of the car with the camera, and the frame without picture."""
        width, height = self._width, self._height
        rise = self._rng.uniform(0.03, 0.07)
        box = [-0.1 * width, (1 - rise) * height, 1.1 * width, (1 + 2 * rise) * height]
        self._image_draw.ellipse(box, fill=(38, 40, 44))
        self._ids_draw.ellipse(box, fill=_IDS["ego vehicle"])
        frame = [0, 0, width - 1, height - 1]
        thickness = max(1, height // 200)
        self._ids_draw.rectangle(frame, outline=_IDS["out of roi"], width=thickness)

    # Along the street: (distance, painting method, arguments).

    def _buildings(self) -> list[tuple]:
        things = []
        for side in (-1, 1):
            front = side * (
                _ROAD_HALF_WIDTH + _SIDEWALK_WIDTH + self._rng.uniform(0, 1.5)
            )
            near = self._rng.uniform(-4, 3)
            while near < _FARTHEST - 5:
                far = min(near + self._rng.uniform(8, 18), _FARTHEST)
                paint = self._building if self._rng.random() < 0.65 else self._yard
                things.append((far, paint, (front, near, far)))
                near = far
        return things

    def _building(self, front: float, near: float, far: float) -> None:
        side, height = np.sign(front), self._rng.uniform(6, 17)
        color = self._color(
            (165, 140, 120), (140, 135, 130), (180, 165, 140), (150, 95, 80)
        )
        dark = _darker(color, 0.75)
        if near > 2:
            edges = (front, front + side * 12)
            self._facing(edges, (0, height), near, dark, "building")
        near = max(near, _NEAREST)
        self._wall(front, (near, far), (0, height), color, "building")
        pane = self._color((70, 80, 95), (95, 105, 115))
        for low in np.arange(1.2, height - 1.8, 3.0).tolist():
            for start in np.arange(near + 0.8, far - 1.4, 2.6).tolist():
                ends = (start, start + 1.3)
                self._wall(front - side * 0.02, ends, (low, low + 1.6), pane)

    def _yard(self, front: float, near: float, far: float) -> None:
        """A gap between buildings: a fence or wall with bushes behind it."""
        near = max(near, _NEAREST)
        for z in np.linspace(far, max(near, 3), 6):
            center = (front + np.sign(front) * 2.5, 1.5, z)
            color = self._color((80, 105, 55), (95, 115, 60))
            self._disc(center, self._rng.uniform(1.2, 2.0), color, "vegetation")
        name = ("fence", "wall")[self._rng.integers(2)]
        color = self._color((130, 115, 100), (150, 148, 145))
        self._wall(front, (near, far), (0, self._rng.uniform(0.9, 1.6)), color, name)

    def _wall(
        self,
        x: float,
        ends: tuple[float, float],
        y: tuple[float, float],
        color: Color,
        name: str | None = None,
    ) -> None:
        """Fills an upright rectangle along the street."""
        near, far = ends
        corners = [(x, y[0], near), (x, y[0], far), (x, y[1], far), (x, y[1], near)]
        self._polygon(corners, color, name)

    def _furniture(self) -> list[tuple]:
        things = []
        for paint, number, nearest in (
            (self._tree, self._rng.integers(5, 11), 8),
            (self._pole, self._rng.integers(4, 9), 7),
            (self._bin, self._rng.integers(0, 3), 7),
        ):
            for z in self._rng.uniform(nearest, 45, number):
                side = self._rng.choice([-1, 1])
                x = side * (_ROAD_HALF_WIDTH + self._rng.uniform(0.4, 1.0))
                things.append((z, paint, (x, z)))
        return things

    def _tree(self, x: float, z: float) -> None:
        trunk = self._rng.uniform(2.0, 3.0)
        bark = self._color((85, 70, 55))
        self._facing((x - 0.15, x + 0.15), (0, trunk), z, bark, "vegetation")
        for _ in range(9):
            offset = self._rng.normal(0, 0.7, 2)
            color = self._color((75, 105, 45), (95, 125, 60), (60, 90, 40))
            center = (x + offset[0], trunk + 1.2 + offset[1], z)
            self._disc(center, self._rng.uniform(0.7, 1.2), color, "vegetation")

    def _pole(self, x: float, z: float) -> None:
        height = self._rng.uniform(3, 5)
        self._facing((x - 0.08, x + 0.08), (0, height), z, (110, 112, 115), "pole")
        if self._rng.random() < 0.5:
            box = ((x - 0.18, x + 0.18), (height - 0.9, height))
            self._facing(*box, z, (35, 38, 36), "traffic light")
            lamp = ((230, 60, 50), (245, 190, 60), (70, 210, 120))[
                self._rng.integers(3)
            ]
            self._disc((x, height - 0.3, z), 0.11, lamp)
        else:
            color = self._color((200, 45, 45), (45, 85, 185), (225, 205, 60))
            self._disc((x, height - 0.4, z), 0.38, color, "traffic sign")
            self._disc((x, height - 0.4, z), 0.22, (235, 235, 235))

    def _bin(self, x: float, z: float) -> None:
        """A thing of the label "static", which is ignored."""
        color = self._color((90, 100, 90), (120, 85, 60))
        self._facing((x - 0.3, x + 0.3), (0, 1.0), z, color, "static")

    # Traffic.

    def _traffic(self) -> list[tuple]:
        rng = self._rng
        things: list[tuple] = []
        for z in rng.uniform(6, 50, rng.integers(5, 16)):
            lane = (-3.3, -1.6, 1.7, 3.3)[rng.integers(4)] + rng.uniform(-0.2, 0.2)
            things.append((z, self._car, (lane, z)))
        if rng.random() < 0.35:
            z = rng.uniform(18, 40)
            things.append((z, self._large_vehicle, (rng.choice([-2.2, 2.2]), z)))
        for z in rng.uniform(6, 50, rng.integers(2, 15)):
            x = rng.choice([-1, 1]) * (_ROAD_HALF_WIDTH + rng.uniform(0.5, 3.0))
            things.append((z, self._person, (x, z)))
        if rng.random() < 0.5:
            z = rng.uniform(7, 20)
            things.append((z, self._cyclist, (rng.choice([-4.0, 4.0]), z)))
        return things

    def _box(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        z: tuple[float, float],
        color: Color,
        name: str,
    ) -> None:
        """A box: the side that can be seen, and the face towards the camera."""
        seen = x[0] if x[0] > 0 else x[1]
        self._wall(seen, z, y, _darker(color, 0.7), name)
        self._facing(x, y, z[0], color, name)

    def _car(self, x: float, z: float) -> None:
        color = self._color(
            (160, 30, 35), (35, 60, 120), (200, 200, 205), (40, 42, 45), (120, 125, 130)
        )
        self._disc((x, 0.05, z), 1.05, (55, 55, 58), flatten=0.12)
        for wheel in (x - 0.7, x + 0.7):
            self._facing((wheel - 0.13, wheel + 0.13), (0, 0.4), z, (20, 20, 20), "car")
        roof, far = 1.45, z + 4.0
        self._box((x - 0.7, x + 0.7), (0.9, roof), (z + 0.8, far - 0.9), color, "car")
        self._box((x - 0.9, x + 0.9), (0.25, 0.95), (z, far), color, "car")
        window = [
            (x - 0.75, 0.95, z),
            (x + 0.75, 0.95, z),
            (x + 0.6, roof, z + 0.6),
            (x - 0.6, roof, z + 0.6),
        ]
        self._polygon(window, (45, 55, 65), "car")
        for lamp in (x - 0.72, x + 0.72):
            self._facing((lamp - 0.13, lamp + 0.13), (0.65, 0.85), z, (215, 70, 55))
        self._facing((x - 0.25, x + 0.25), (0.5, 0.62), z, (225, 225, 215))

    def _large_vehicle(self, x: float, z: float) -> None:
        name = ("truck", "bus")[self._rng.integers(2)]
        color = self._color((225, 225, 220), (205, 165, 50), (60, 110, 160))
        self._disc((x, 0.05, z), 1.4, (55, 55, 58), flatten=0.1)
        self._box((x - 1.25, x + 1.25), (0.4, 3.1), (z, z + 9), color, name)
        for wheel in (x - 0.9, x + 0.9):
            self._facing((wheel - 0.2, wheel + 0.2), (0, 0.45), z, (20, 20, 20), name)
        if name == "bus":
            self._facing((x - 1.1, x + 1.1), (1.7, 2.8), z, (50, 60, 72))

    def _person(
        self, x: float, z: float, lift: float = 0.0, name: str = "person"
    ) -> None:
        size = self._rng.uniform(0.88, 1.05)
        coat = self._color((60, 70, 110), (130, 60, 55), (70, 70, 72), (170, 150, 110))
        trousers = self._color((45, 48, 62), (80, 75, 65))
        for leg in (-0.13, 0.13):
            edges = (x + size * (leg - 0.09), x + size * (leg + 0.09))
            self._facing(edges, (lift, lift + 0.85 * size), z, trousers, name)
        torso = [
            (-0.22, 0.8),
            (0.22, 0.8),
            (0.29, 1.42),
            (0.12, 1.52),
            (-0.12, 1.52),
            (-0.29, 1.42),
        ]
        self._polygon(
            [(x + size * a, lift + size * b, z) for a, b in torso], coat, name
        )
        skin = self._color((205, 165, 140), (140, 100, 75))
        self._disc((x, lift + 1.65 * size, z), 0.13 * size, skin, name)

    def _cyclist(self, x: float, z: float) -> None:
        self._person(x, z, lift=0.25, name="rider")
        self._disc((x, 0.36, z), 0.36, (30, 30, 32), "bicycle", flatten=1.0)
        self._facing((x - 0.3, x + 0.3), (0.95, 1.05), z, (30, 30, 32), "bicycle")


def _darker(color: Color, factor: float) -> Color:
    red, green, blue = (int(factor * value) for value in color)
    return red, green, blue


def _textured(
    rng: np.random.Generator, image: np.ndarray, ids: np.ndarray
) -> np.ndarray:
    """Adds a texture to each class, soft edges and the noise of a camera."""
    height, width = ids.shape
    fine = rng.normal(0, 1, (height, width))
    coarse = np.array(
        PIL.Image.fromarray(
            rng.normal(0, 1, (max(2, height // 10), max(2, width // 10))).astype(
                np.float32
            )
        ).resize((width, height), PIL.Image.Resampling.BICUBIC)
    )
    amplitudes = np.full((256, 2), 2.0)
    for name, pair in _TEXTURE.items():
        amplitudes[_IDS[name]] = pair
    texture = fine * amplitudes[ids, 0] + coarse * amplitudes[ids, 1]
    rough = np.clip(image + texture[..., None], 0, 255).astype(np.uint8)
    soft = PIL.Image.fromarray(rough).filter(
        PIL.ImageFilter.GaussianBlur(0.5 * height / 256)
    )
    noise = rng.normal(0, 2, image.shape)
    return np.clip(np.asarray(soft) + noise, 0, 255).astype(np.uint8)
