"""Follows one lesion through the slices of a scan, and draws it as volumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from tf_probunet import limits
from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.evaluation.metrics import volumes
from tf_probunet.evaluation.metrics.representatives import (
    Representatives,
    representatives,
)
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.resampling import resample
from tf_probunet.imaging.volume import Volume
from tf_probunet.predict import latents, sampling
from tf_probunet.predict.config import LesionConfig, PredictConfig
from tf_probunet.predict.grid import Region
from tf_probunet.predict.prediction import ModelInput, model_input

# Samples that decide where a lesion goes on.
_SCOUTS = 16
# Slices in a row on which a lesion is absent where it ends.
_ABSENT = 2
# Probabilities held at once.
_MAX_BYTES = 256 * 2**20

# Why a lesion is not followed any further.
ENDS = {
    "absent": f"absent on {_ABSENT} slices in a row",
    "reach": "the reach is over",
    "gap": "slices are missing",
    "last": "the last slice",
}


@dataclasses.dataclass(frozen=True)
class Lesion:
    """A lesion as volumes of the scan's own voxels, inside of a box.

    Attributes:
        name: of its results.
        volume: the scan.
        point: slice, row and column that the user gave.
        first: the first slice of the box, in the volume.
        box: its rows and columns.
        shown: [Z, h, w, C] in 0..1, the slices with the model's values.
        labels: [S, Z, h, w] uint8, one volume per sample.
        mean: [Z, h, w] float32, the mean of the samples' probabilities.
        hypotheses: a few samples that stand for all of them.
        ended: why it ends below and above, keys of `ENDS`.
        notes: what the user should know.
    """

    name: str
    volume: Volume
    point: tuple[int, int, int]
    first: int
    box: Region
    shown: np.ndarray
    labels: np.ndarray
    mean: np.ndarray
    hypotheses: Representatives
    ended: tuple[str, str]
    notes: list[str]

    @property
    def volumes_mm3(self) -> np.ndarray:
        """The volume of each sample, [S]."""
        return self.labels.sum(axis=(1, 2, 3), dtype=np.int64) * self.volume.voxel_mm3

    @property
    def diameters_mm(self) -> np.ndarray:
        """The longest diameter of each sample within a slice, [S]."""
        spacing = self.volume.spacing_mm
        return np.array([volumes.diameter_mm(one, spacing) for one in self.labels])

    @property
    def presence(self) -> float:
        """The share of samples that mark anything."""
        return float(self.labels.any(axis=(1, 2, 3)).mean())

    @property
    def slice_presence(self) -> np.ndarray:
        """The share of samples that mark anything on each slice, [Z]."""
        return self.labels.any(axis=(2, 3)).mean(axis=0)

    @property
    def slice_numbers(self) -> list[int]:
        """The numbers of its slices in the series."""
        start = self.volume.first + self.first
        return list(range(start, start + self.labels.shape[1]))

    @property
    def affine(self) -> np.ndarray:
        """Takes (column, row, slice, 1) of the box to millimetres; see `Volume`."""
        affine = self.volume.affine.copy()
        corner = np.array([self.box.col, self.box.row, self.first, 1.0])
        affine[:3, 3] = (affine @ corner)[:3]
        return affine


def predict_lesion(
    volume: Volume,
    place: tuple[int, int, int],
    name: str,
    model: LoadedModel,
    *,
    crop: CropConfig,
    config: PredictConfig,
    rules: LesionConfig,
) -> Lesion:
    """Follows a lesion through the slices, and draws samples of all of it.

    First a few samples decide where the lesion goes on, from its point outwards. Each
    next frame is centred on what was found before. Then all frames are drawn in one
    batch, with noise that they share.

    Args:
        volume: the scan.
        place: slice, row and column of a voxel inside of the lesion.
        name: of the results.
        model: of a background and one class.
        crop: how frames become the model's inputs.
        config: number of samples and so on.
        rules: where a lesion ends.

    Raises:
        ValueError: scan and model do not fit each other.
    """
    check_model(model)
    if config.sampling == "stratified" and not sampling.has_latents(model):
        raise ValueError(
            f"{model.path}: sampling is 'stratified', but the model has no latents "
            "that the slices of a lesion could share, expected independent"
        )
    count = sampling.num_samples(model, config.num_samples)
    indices, frames, ended = follow(
        volume, place, model, crop=crop, config=config, rules=rules
    )
    drawn = draw(
        model, frames, count, config.seed, rules.smooth_slices, config.sampling
    )
    labels, mean, shown, box = _box(volume, indices, frames, drawn)
    notes = list(dict.fromkeys(note for frame in frames for note in frame.notes))
    if count < config.num_samples:
        notes.append(f"the model has {count} samples, not {config.num_samples}")
    for end, where in zip(ended, ("below", "above")):
        if end != "absent" and labels[:, 0 if where == "below" else -1].any():
            notes.append(f"the lesion may go on {where}: {ENDS[end]}")
    if _is_cut_off(frames, drawn):
        notes.append(
            "some samples reach the edge of what the network sees: the lesion may be "
            "larger"
        )
    if not labels.any():
        notes.append("no sample marks anything around the point")
    flat = labels.reshape(count, -1, labels.shape[-1])  # [S, Z h, w]
    return Lesion(
        name=name,
        volume=volume,
        point=place,
        first=indices[0],
        box=box,
        shown=shown,
        labels=labels,
        mean=mean,
        hypotheses=representatives(flat, config.hypotheses),
        ended=ended,
        notes=notes,
    )


def follow(
    volume: Volume,
    place: tuple[int, int, int],
    model: LoadedModel,
    *,
    crop: CropConfig,
    config: PredictConfig,
    rules: LesionConfig,
) -> tuple[list[int], list[ModelInput], tuple[str, str]]:
    """Finds the slices of a lesion; arguments as for `predict_lesion`.

    Returns:
        The slices from the lowest, their frames, and why it ends below and above.
    """
    return _Path(volume, place, model, crop, config, rules).follow()


def check_model(model: LoadedModel) -> None:
    """Checks that a model knows lesions and crops around them.

    Raises:
        ValueError: it does not.
    """
    if model.network.num_classes != 2 or not model.has_background:
        raise ValueError(
            f"{model.path}: a model of the classes {', '.join(model.class_names)}, "
            "expected a background and one class to follow a lesion"
        )
    if not model.data.frame_size:
        raise ValueError(
            f"{model.path}: a model of whole images, expected one of crops around a "
            "lesion to follow it through the slices"
        )


class _Path:
    """Where a lesion goes through the slices."""

    def __init__(
        self,
        volume: Volume,
        place: tuple[int, int, int],
        model: LoadedModel,
        crop: CropConfig,
        config: PredictConfig,
        rules: LesionConfig,
    ) -> None:
        self._volume, self._place = volume, place
        self._model, self._crop, self._rules = model, crop, rules
        self._count = min(_SCOUTS, sampling.num_samples(model, config.num_samples))
        self._seed = config.seed
        self._frames: dict[int, ModelInput] = {}

    def follow(self) -> tuple[list[int], list[ModelInput], tuple[str, str]]:
        """Returns the slices from the lowest, their frames, and why it ends."""
        start, row, col = self._place
        _, centre = self._look([start], [(row, col)])[0]
        self._look([start], [centre])  # Centred on what was found.
        centres = {-1: centre, 1: centre}
        absent, ended = {-1: 0, 1: 0}, {}
        reach = int(self._rules.reach_mm / self._volume.step_mm + 1e-9)
        for distance in range(1, len(self._volume.images) + reach + 2):
            for way in (-1, 1):
                if way not in ended:
                    index = start + way * distance
                    end = self._end(index, way, distance, reach)
                    if end is not None:
                        ended[way] = end
            ways = [way for way in (-1, 1) if way not in ended]
            if not ways:
                break
            found = self._look(
                [start + way * distance for way in ways], [centres[w] for w in ways]
            )
            for way, (presence, centre) in zip(ways, found):
                if presence >= self._rules.least_presence and presence > 0:
                    absent[way], centres[way] = 0, centre
                else:
                    absent[way] += 1
                    if absent[way] == _ABSENT:
                        ended[way] = "absent"
        indices = sorted(self._frames)
        frames = [self._frames[index] for index in indices]
        return indices, frames, (ended[-1], ended[1])

    def _end(self, index: int, way: int, distance: int, reach: int) -> str | None:
        if not 0 <= index < len(self._volume.images):
            gap = self._volume.ends_in_gap[way > 0]
            return "gap" if gap else "last"
        return "reach" if distance > reach else None

    def _look(
        self, indices: Sequence[int], centres: Sequence[tuple[int, int]]
    ) -> list[tuple[float, tuple[int, int]]]:
        """Returns the share of samples that mark each slice, and the middle of it."""
        frames = [
            model_input(
                self._volume.images[index],
                self._model,
                dataclasses.replace(self._crop, center=f"{row},{col}"),
            )
            for index, (row, col) in zip(indices, centres)
        ]
        self._frames.update(zip(indices, frames))
        drawn = draw(self._model, frames, self._count, self._seed, 0.0)
        result = []
        for index, frame, probabilities, centre in zip(indices, frames, drawn, centres):
            marked = _unpad(frame, probabilities) > 0.5
            presence = float(marked.any(axis=(1, 2)).mean())
            shares = marked.mean(axis=0)  # [h, w]
            middle = _middle(frame, shares, centre) if shares.any() else centre
            size = self._volume.images[index].shape
            row, col = (min(max(m, 0), n - 1) for m, n in zip(middle, size))
            result.append((presence, (row, col)))
        return result


def _middle(
    frame: ModelInput, shares: np.ndarray, centre: tuple[int, int]
) -> tuple[int, int]:
    """Returns the image's pixel in the middle of what most samples mark.

    Of several parts, it is the one that is nearest to the frame's centre.
    """
    grid = frame.grid
    parts, number = ndimage.label(shares >= shares.max() / 2)
    scale = [side / length for side, length in zip(grid.region.shape, grid.shape)]
    corner = (grid.region.row, grid.region.col)
    start = (grid.seen.row, grid.seen.col)

    def place(part: int) -> tuple[float, float]:
        row, col = ndimage.center_of_mass(shares, parts, part)
        at = [c + (s + m + 0.5) * k - 0.5
              for c, s, m, k in zip(corner, start, (row, col), scale)]  # fmt: skip
        return at[0], at[1]

    places = [place(part) for part in range(1, number + 1)]
    row, col = min(
        places, key=lambda p: (p[0] - centre[0]) ** 2 + (p[1] - centre[1]) ** 2
    )
    return round(row), round(col)


def draw(
    model: LoadedModel,
    frames: Sequence[ModelInput],
    count: int,
    seed: int,
    smooth_slices: float,
    way: str | None = None,
) -> np.ndarray:
    """Draws lesion probabilities [Z, S, h, w] of neighbouring frames as one batch."""
    images = np.stack([frame.padded for frame in frames])
    about = f"frames of {len(images)} slices"
    per_frame = 12 * count * images.shape[1] * images.shape[2]
    limits.check(
        len(frames) * per_frame,
        f"{count} samples of {len(frames)} slices",
        "give fewer --num_samples, or a smaller --reach_mm",
    )
    step = max(1, _MAX_BYTES // per_frame)
    parts = [slice(i, i + step) for i in range(0, len(frames), step)]
    if not sampling.has_latents(model):
        drawn = [
            model.call("sample", images[p], count, [seed] * len(images[p]), about=about)
            for p in parts
        ]
    else:
        prior = priors(model, images, smooth_slices)
        noise = shared_noise(model, prior, count, seed, way)
        z = latents.from_noise(prior, noise)
        drawn = [model.call("decode", images[p], z[p], about=about) for p in parts]
    return np.concatenate([d["probabilities"][..., 1] for d in drawn])


def priors(
    model: LoadedModel, images: np.ndarray, smooth_slices: float
) -> latents.Prior:
    """Returns the priors of neighbouring frames [Z, h, w, C], with smoothed means."""
    prior = model.call("prior", images, about=f"frames of {len(images)} slices")
    if smooth_slices:
        weights = volumes.smoothing_weights(np.arange(len(images)), smooth_slices)
        moved = weights @ prior["mean"] - prior["mean"]  # [Z, L]
        prior["mean"] = prior["mean"] + moved
        if "component_means" in prior:
            prior["component_means"] = prior["component_means"] + moved[:, None]
    return prior


def shared_noise(
    model: LoadedModel,
    prior: latents.Prior,
    count: int,
    seed: int,
    way: str | None = None,
) -> np.ndarray:
    """Draws the noise that all slices share, [count, D]; stratified by default."""
    way = way or sampling.default_sampling(model)
    size, minor = latents.dimensions(prior), model.network.outline_latent
    return latents.draw_noise(count, size, seed, way, minor)


def _unpad(frame: ModelInput, probabilities: np.ndarray) -> np.ndarray:
    """Cuts the border off [S, *padded]: [S, *seen]."""
    return np.moveaxis(frame.grid.unpad(np.moveaxis(probabilities, 0, -1)), -1, 0)


def _box(
    volume: Volume,
    indices: Sequence[int],
    frames: Sequence[ModelInput],
    drawn: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Region]:
    """Puts what was drawn into the smallest box that holds all that was seen.

    Returns:
        labels: [S, Z, h, w] uint8.
        mean: [Z, h, w] float32.
        shown: [Z, h, w, C] float32.
        box: rows and columns of the image.
    """
    box = _around([frame.grid.seen_in_image for frame in frames])
    count, channels = drawn.shape[1], frames[0].shown.shape[-1]
    labels = np.zeros((count, len(frames), *box.shape), np.uint8)
    mean = np.zeros((len(frames), *box.shape), np.float32)
    shown = np.zeros((len(frames), *box.shape, channels), np.float32)
    for place, (index, frame, one) in enumerate(zip(indices, frames, drawn)):
        grid = frame.grid
        whole = np.zeros((*grid.shape, count), np.float32)
        whole[grid.seen.slices] = np.moveaxis(_unpad(frame, one), 0, -1)
        found = resample(whole, grid.region.shape)  # [H, W, S]
        pixels = volume.images[index].shape
        slices = np.zeros((*pixels, count), np.float32)
        slices[grid.region.slices] = found
        cut = slices[box.slices]  # [h, w, S]
        labels[:, place] = np.moveaxis(cut > 0.5, -1, 0)
        mean[place] = cut.mean(axis=-1)
        picture = np.zeros((*pixels, channels), np.float32)
        picture[grid.region.slices] = resample(frame.shown, grid.region.shape)
        shown[place] = picture[box.slices].clip(0, 1)
    return labels, mean, shown, box


def _around(regions: Sequence[Region]) -> Region:
    rows = min(r.row for r in regions), max(r.row + r.height for r in regions)
    cols = min(r.col for r in regions), max(r.col + r.width for r in regions)
    return Region(rows[0], cols[0], rows[1] - rows[0], cols[1] - cols[0])


def _is_cut_off(frames: Sequence[ModelInput], drawn: np.ndarray) -> bool:
    """Whether samples mark pixels at the edge of what the network sees."""
    for frame, one in zip(frames, drawn):
        marked = _unpad(frame, one).max(axis=0) > 0.5
        if marked[[0, -1]].any() or marked[:, [0, -1]].any():
            return True
    return False
