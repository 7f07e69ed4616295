"""Draws figures from results directories, and writes them as PNG and SVG."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from matplotlib.figure import Figure

from tf_probunet import locks
from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.results_dir import Results, Samples, UnavailableError
from tf_probunet.figures import (
    ambiguity,
    energy_distance,
    latent_plane,
    mode_calibration,
    reliability,
    sample_grid,
    style,
    uncertainty,
)

_TRUTHS_SHOWN = 4
# The number of square images that fill a page.
_GRID_IMAGES = 15


@dataclasses.dataclass(frozen=True)
class Request:
    """The input and the settings of figures.

    Attributes:
        results: of the models.
        saved_model: for the latent plane.
        data_dir: for the latent plane: the prepared data set.
        split: for the latent plane: the split of its images.
        keys: the images to show; the first ones if none are given.
        num_images: the number of images to show; 0 for the default of each figure.
        num_samples: samples per image in the comparison of models.
        layout: of the grid of samples: "columns", as in the paper, or "rows".
        dims: the dimensions of the latent plane.
    """

    results: Sequence[Results] = ()
    saved_model: str | None = None
    data_dir: str | None = None
    split: str = "test"
    keys: Sequence[str] = ()
    num_images: int = 0
    num_samples: int = 8
    layout: str = "columns"
    dims: tuple[int, int] = (0, 1)

    def models(self) -> Sequence[Results]:
        """Returns the results of at least one model.

        Raises:
            UnavailableError: there are none.
        """
        if not self.results:
            raise UnavailableError(
                "no results were given; expected a results directory"
            )
        return self.results

    def samples(self, results: Results, number: int) -> Samples:
        """Returns the images to show; by default the first `number`."""
        return results.samples(self.keys, self.num_images or number)


Named = Iterator[tuple[str, Figure]]


def read_results(
    directories: Sequence[str], names: Sequence[str] = ()
) -> list[Results]:
    """Reads the results of several models.

    Args:
        directories: that run/evaluate.py wrote.
        names: of the models; the names of the directories by default.

    Raises:
        FileNotFoundError: a directory holds no results.
        ValueError: there are not as many names as directories, two names are the same,
            or the results can't be compared.
    """
    default = [pathlib.Path(directory).resolve().name for directory in directories]
    return results_dir.read_all(directories, names or default)


@locks.holding("out_dir")
def make(
    figure: str,
    request: Request,
    out_dir: str,
    report: Callable[[str], None] = print,
) -> list[pathlib.Path]:
    """Draws and writes a figure, or all figures that the input allows.

    Args:
        figure: one of `FIGURES`, or "all".
        request: the input and the settings.
        out_dir: where to write.
        report: called with a line for each file that is written, and for each figure of
            "all" that is left out.

    Returns:
        The files.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the figure is unknown, the input does not hold what it needs, or
            the results can't be compared.
    """
    if figure not in (*FIGURES, "all"):
        raise ValueError(f"figure is {figure!r}; expected all, {', '.join(FIGURES)}")
    results_dir.check_comparable(request.results)
    if figure != "all":
        return _write(FIGURES[figure](request), out_dir, report)
    paths = []
    for name, draw in FIGURES.items():
        try:
            paths += _write(draw(request), out_dir, report)
        except UnavailableError as error:
            report(f"left out {name}: {error}")
    if not paths:
        raise ValueError("no figure can be drawn from this input; see the lines above")
    return paths


def two_numbers(texts: Sequence[str]) -> tuple[int, int]:
    """Reads the latent plane's dimensions.

    Raises:
        ValueError: they are not two whole numbers.
    """
    try:
        first, second = (int(text) for text in texts)
    except ValueError:
        raise ValueError(
            f"dims are {','.join(texts)!r}; expected two numbers such as 0,1"
        ) from None
    return first, second


def _energy_distance(request: Request) -> Named:
    models = [energy_distance.scores(results) for results in request.models()]
    yield "energy_distance", energy_distance.draw(models)


def _sample_grid(request: Request) -> Named:
    for results in request.models():
        shown = request.samples(results, _GRID_IMAGES)
        if not request.keys and not request.num_images:
            height, width = shown.images[0].shape[:2]
            shown = shown.first(max(1, _GRID_IMAGES * height // width))
        switched = _is_switched(results)
        truths = [
            sample_grid.ground_truth(graders, switched, _TRUTHS_SHOWN)
            for graders in shown.graders
        ]
        # The likely modes of all scenes, as many as each has; graders as they are.
        number = min(len(truth.maps) for truth in truths) if switched else None
        figure = sample_grid.draw(
            images=shown.images,
            graders=[truth.maps[:number] for truth in truths],
            samples=shown.samples,
            layout=request.layout,
            grader_word="truth" if switched else "grader",
            keys=shown.keys,
            title=results.title,
            class_names=_class_names(results),
        )
        yield f"sample_grid_{_slug(results.title)}", figure


def _sample_comparison(request: Request) -> Named:
    first, *others = request.models()
    if not others:
        raise UnavailableError(
            "there is only one model; expected two or more to compare"
        )
    kept = [set(results.samples().keys) for results in others]
    keys = [key for key in first.samples().keys if all(key in one for one in kept)]
    if not keys:
        raise UnavailableError("the models kept the samples of no image in common")
    wanted = request.keys or keys[: request.num_images or 2]
    shown = first.samples(wanted)
    rest = [results.samples(wanted) for results in others]
    for n, key in enumerate(shown.keys):
        truth = sample_grid.ground_truth(
            shown.graders[n], _is_switched(first), request.num_samples - 1
        )
        samples = {first.title: shown.samples[n][: request.num_samples]}
        for results, theirs in zip(others, rest):
            samples[results.title] = theirs.samples[n][: request.num_samples]
        figure = sample_grid.compare(
            image=shown.images[n],
            graders=truth.maps,
            samples=samples,
            grader_names=truth.names,
            title=key,
            class_names=_class_names(first),
        )
        yield f"sample_comparison_{_slug(key)}", figure


def _mode_calibration(request: Request) -> Named:
    models = request.models()
    counts = {r.title: mode_calibration.mode_counts(r) for r in models}
    undecided = {r.title: mode_calibration.undecided_share(r) for r in models}
    yield "mode_calibration", mode_calibration.draw(counts, undecided)


def _mode_histograms(request: Request) -> Named:
    for results in request.models():
        figure = mode_calibration.draw_histograms(
            results.title,
            mode_calibration.mode_counts(results),
            mode_calibration.pixel_counts(results),
        )
        yield f"mode_histograms_{_slug(results.title)}", figure


def _latent_plane(request: Request) -> Named:
    if not request.saved_model or not request.data_dir:
        raise UnavailableError("it needs a SavedModel and the prepared data")
    shown = latent_plane.planes(
        saved_model=request.saved_model,
        data_dir=request.data_dir,
        split=request.split,
        keys=request.keys,
        number=request.num_images or 1,
        dims=request.dims,
    )
    for plane in shown:
        yield f"latent_plane_{_slug(plane.key)}", latent_plane.draw(plane)


def _ambiguity(request: Request) -> Named:
    models = [ambiguity.presences(results) for results in request.models()]
    yield "ambiguity", ambiguity.draw(models)


def _uncertainty(request: Request) -> Named:
    chosen = {r.title: request.samples(r, 6) for r in request.models()}
    several = {name: s for name, s in chosen.items() if len(s.samples[0]) > 1}
    if not several:
        raise UnavailableError("there is one sample per image; expected two or more")
    names = _class_names(request.models()[0])
    for name, shown in several.items():
        figure = uncertainty.draw(
            images=shown.images,
            graders=shown.graders,
            samples=shown.samples,
            keys=shown.keys,
            title=name,
            class_names=names,
        )
        yield f"uncertainty_{_slug(name)}", figure


def _reliability(request: Request) -> Named:
    for stem, name, what in (
        ("reliability", "pixel", "a pixel"),
        ("presence_reliability", "presence", "anything"),
    ):
        models = {r.title: reliability.of_results(r, name) for r in request.models()}
        yield stem, reliability.draw(models, what)


FIGURES: dict[str, Callable[[Request], Named]] = {
    "energy_distance": _energy_distance,
    "sample_grid": _sample_grid,
    "sample_comparison": _sample_comparison,
    "mode_calibration": _mode_calibration,
    "mode_histograms": _mode_histograms,
    "latent_plane": _latent_plane,
    "ambiguity": _ambiguity,
    "uncertainty": _uncertainty,
    "reliability": _reliability,
}


def _write(
    named: Named, out_dir: str, report: Callable[[str], None]
) -> list[pathlib.Path]:
    paths: list[pathlib.Path] = []
    for stem, figure in named:
        if any(path.name == f"{stem}.png" for path in paths):
            raise ValueError(f"two figures would both be called {stem}; rename one")
        for path in style.save(figure, out_dir, stem):
            report(str(path))
            paths.append(path)
    return paths


def _is_switched(results: Results) -> bool:
    return results.has("mode_counts")


def _class_names(results: Results) -> list[str]:
    """Returns the names of all classes; none for street scenes with flips."""
    names = results.summary["protocol"].get("classes") or []
    return [] if _is_switched(results) else [str(name) for name in names]


def _slug(name: str) -> str:
    """Returns a name as part of a file name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "unnamed"
