"""The model card that travels in a SavedModel's assets, and the scores on it."""

from __future__ import annotations

import math
import pathlib
import shlex
from typing import Any

from tf_probunet import __version__, files
from tf_probunet.config import NATIVE_LIDC_MM, Config
from tf_probunet.dataset import cityscapes_labels

RESULTS_NAME = "results.json"

_LIDC = """## Training data and licence

- **Source**: LIDC-IDRI, The Cancer Imaging Archive,
  <https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX>: thoracic CT scans with the lesions that
  four radiologists outlined.
- **Licence** of the data: Creative Commons Attribution 3.0 Unported (CC BY 3.0),
  <https://creativecommons.org/licenses/by/3.0/>. The weights were made from crops of it;
  no image of it is in this directory. The software is under Apache-2.0.
- **Citation**: who uses the model should cite the data.

> Armato III, S. G., McLennan, G., Bidaut, L., McNitt-Gray, M. F., Meyer, C. R., Reeves, A. P., et al. (2015). Data From LIDC-IDRI. The Cancer Imaging Archive. https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX
>
> Armato III, S. G., McLennan, G., Bidaut, L., et al. (2011). The Lung Image Database Consortium (LIDC) and Image Database Resource Initiative (IDRI): a completed reference database of lung nodules on CT scans. Medical Physics, 38(2), 915–931.
>
> Clark, K., Vendt, B., Smith, K., et al. (2013). The Cancer Imaging Archive (TCIA): maintaining and operating a public information repository. Journal of Digital Imaging, 26(6), 1045–1057.

"""  # noqa: E501

_LIMITS = """\
For research on segmentation under ambiguity. It is no medical device, and its samples
are no diagnosis. It has only seen crops like those it was trained on; on other
scanners, resolutions or regions its samples and their frequencies may be wrong without
any sign."""

_STREET_LIMITS = """\
For research on segmentation under ambiguity. The new classes are made up: which of them
a sample shows is chance, by design, and says nothing about the street. It is not made
for driving. It has only seen frames like those it was trained on; with other cameras,
resolutions, cities or weather its samples and their frequencies may be wrong without
any sign."""

_RESULTS = {"ged": [dict], "protocol": [dict], "data": [dict], "model": [dict]}
_PROTOCOL = {"image_size": [list], "statistic": [str], "limit": [int]}
_DATA = {
    "name": [str],
    "fingerprint": [str],
    "split": [str],
    "images": [int],
    "groups": [int],
}
_MODEL = {"name": [str], "source": [str], "path": [str], "fingerprint": [str]}


def model_card(
    config: Config,
    dataset: dict[str, Any],
    metadata: dict[str, Any],
    validation: dict[str, Any] | None,
    scores: dict[str, Any] | None = None,
) -> str:
    """Returns the card as Markdown.

    Args:
        config: of the run.
        dataset: description of the training data.
        metadata: of the SavedModel: model, signatures, parameters.
        validation: scores of the exported checkpoint, or None.
        scores: of an evaluation, as `read_scores` gives them, or None.
    """
    counts = ", ".join(f"{n} {split}" for split, n in dataset["counts"].items())
    low, high = config.data.window_low, config.data.window_high
    values = (
        f"Hounsfield units, {low:g} to {high:g} mapped to 0..1 and clipped"
        if dataset["intensity"] == "hu"
        else "8-bit values divided by 255"
    )
    is_lidc = dataset["name"].startswith("lidc")
    classes = dataset["class_names"]
    maps = f"{dataset['num_graders']} label maps per image"
    if config.data.task == "switched":
        classes = cityscapes_labels.CLASS_NAMES
        maps = (
            f"{cityscapes_labels.NUM_SWITCHES} classes flipped at random to a new one "
            f"each, {cityscapes_labels.NUM_MODES} modes per image"
        )
    training = f"{_training(config)}; all settings in `config.json`"
    validated = _validation(config, metadata, validation)
    if not dataset["counts"]:  # Not a run of run/train.py.
        counts, training = "not recorded", "by Keras' `fit`; it is not recorded"
        validated = "none is recorded."
    return f"""# {metadata["model"]} trained on {dataset["name"]}

Made by tf_probunet {__version__}. {metadata["parameters"]:,} parameters.

- **Data**: {dataset["name"]} ({counts}), {len(classes)} classes
  ({", ".join(classes)}), {maps}; fingerprint `{dataset["fingerprint"]}`.
- **Input**: `image` [B, H, W, {config.model.image_channels}] float32 in 0..1
  ({values}); height and width are multiples of {metadata["size_divisor"]}.
- **Signatures**: {", ".join(f"`{name}`" for name in metadata["signatures"])}.
- **Network**: {_network(config, metadata)}.
- **Training**: {training}.
- **Validation**: {validated}

{_score_section(scores, validation) if scores else ""}{_LIDC if is_lidc else ""}\
## Intended use and limits

{_STREET_LIMITS if config.data.task == "switched" else _LIMITS}
{_lidc_limits(config, dataset) if is_lidc else ""}"""


def read_scores(path: files.Path) -> dict[str, Any]:
    """Reads what a card says of an evaluation.

    Args:
        path: an `out_dir` of `run/evaluate.py`, or its `results.json`.

    Returns:
        A JSON object: `ged`, `floor` and `hungarian_iou` with their intervals, `data`,
        `protocol`, the `model` that was scored, and the `command` without the places
        of files.

    Raises:
        FileNotFoundError: there are no results.
        ValueError: they are damaged, or not those of a SavedModel.
    """
    path = pathlib.Path(path)
    if path.name != RESULTS_NAME:
        path = path / RESULTS_NAME
    results = files.read_json(path, "results of an evaluation")
    files.check_fields(results, {**_RESULTS, "command": [str]}, path)
    sections = {"protocol": _PROTOCOL, "data": _DATA, "model": _MODEL}
    for name, fields in sections.items():
        files.check_fields(results[name], fields, path)
    if results["model"]["source"] != "saved_model":
        raise ValueError(
            f"{path}: source of the model is {results['model']['source']!r}, expected "
            "'saved_model': the results of a SavedModel of run/export.py"
        )
    _check_sizes(results, path)
    distances = {k: results[k] for k in ("ged", "floor") if results.get(k) is not None}
    for name, by_count in distances.items():
        _check_distances(name, by_count, path)
    if set(distances.get("floor", results["ged"])) != set(results["ged"]):
        raise ValueError(
            f"{path}: floor and ged are not of the same numbers of samples"
        )
    matched = results.get("hungarian_iou")
    if matched is not None:
        _check_bounds("hungarian_iou", matched, path)
    return {
        **distances,
        **({} if matched is None else {"hungarian_iou": matched}),
        "protocol": {
            **{name: results["protocol"][name] for name in _PROTOCOL},
            "resampled": _resampled(results, path),
        },
        "data": {name: results["data"][name] for name in _DATA},
        "model": {name: results["model"][name] for name in _MODEL},
        "command": _without_places(results["command"], path),
    }


def _resampled(results: dict[str, Any], path: pathlib.Path) -> str:
    """Returns what the intervals resample; older results do not say: groups."""
    intervals = results["protocol"].get("intervals", {})
    found = intervals.get("resampled", "groups") if type(intervals) is dict else None
    if found not in ("groups", "images"):
        raise ValueError(
            f"{path}: intervals are {str(intervals)[:80]}, expected resampled groups "
            "or images"
        )
    return found


def _check_sizes(results: dict[str, Any], path: pathlib.Path) -> None:
    data, size = results["data"], results["protocol"]["image_size"]
    for name in ("images", "groups"):
        if data[name] < 1:
            raise ValueError(f"{path}: {name} is {data[name]}, expected at least 1")
    if len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
        raise ValueError(f"{path}: image_size is {str(size)[:80]}, expected two sizes")


def _check_distances(name: str, by_count: Any, path: pathlib.Path) -> None:
    if not isinstance(by_count, dict) or not by_count:
        raise ValueError(
            f"{path}: {name} is {str(by_count)[:80]}, expected one for each number of "
            "samples"
        )
    for count, value in by_count.items():
        if not (count.isascii() and count.isdecimal() and int(count) > 0):
            raise ValueError(f"{path}: {name} of {count[:80]!r}, expected a number")
        _check_bounds(f"{name} of {count} samples", value, path)


def _check_bounds(name: str, value: Any, path: pathlib.Path) -> None:
    """Checks for a mean within its interval; there is none for a single group."""
    is_object = isinstance(value, dict)
    bounds = [value.get(k) for k in ("low", "mean", "high")] if is_object else []
    known = [bound for bound in bounds if bound is not None]
    if (
        len(bounds) != 3
        or bounds[1] is None
        or len(known) == 2
        or not all(type(b) in (int, float) and math.isfinite(b) for b in known)
        or known != sorted(known)
    ):
        raise ValueError(
            f"{path}: {name} is {str(value)[:80]}, expected a mean between low and high"
        )


def _without_places(command: str, path: pathlib.Path) -> str:
    """Shortens the directories in a command line to their names."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{path}: command is no command line ({error})") from error
    parts = [word.partition("=") for word in words]
    return shlex.join(
        f"{flag}{equals}{pathlib.PurePath(value).name if value else ''}"
        if flag.endswith(("_dir", "_model"))
        else f"{flag}{equals}{value}"
        for flag, equals, value in parts
    )


def _network(config: Config, metadata: dict[str, Any]) -> str:
    model = config.model
    text = (
        f"{model.base_channels} channels at the first of {model.num_scales} scales, "
        f"{model.convs_per_block} convolutions per block"
    )
    if "prior" not in metadata["signatures"]:
        return text
    sizes = "default" if model.latent_dim is None else model.latent_dim
    text += f"; latent dimensions: {sizes}, beta: "
    text += "default" if model.beta is None else f"{model.beta:g}"
    if model.latent_pooling > 1:
        text += f", prior and posterior see means of {model.latent_pooling} x "
        text += f"{model.latent_pooling} pixels"
    return text


def _training(config: Config) -> str:
    training, data = config.training, config.data
    text = (
        f"{training.steps} steps of {training.batch_size} images, "
        f"{f'crops of {data.crop_size}' if data.crop_size else 'whole images'}, "
        f"learning rate {training.learning_rate:g}"
    )
    if training.final_learning_rate != training.learning_rate:
        text += f" to {training.final_learning_rate:g}"
    if data.scored_size > data.eval_size:
        text += (
            f"; scored on frames of {data.scored_size}, of which the network sees the "
            f"middle {data.eval_size} and the rest is background"
        )
    return text


def _validation(
    config: Config, metadata: dict[str, Any], validation: dict[str, Any] | None
) -> str:
    if "members" in metadata:
        return _member_scores(metadata["members"])
    if not validation:
        return "The last checkpoint of the run; not the one chosen by validation."
    text = (
        f"Squared energy distance {validation['ged']:.4f} "
        f"({config.training.validation_samples} samples), loss "
        f"{validation['loss']:.5g}, at step {validation['step']}, on "
        f"{config.training.validation_images or 'all'} validation images."
    )
    shift = validation.get("foreground_shift")
    if shift:
        text += f" After training, the foreground's logit was shifted by {shift:+g}."
    return text


def _member_scores(members: list[dict[str, Any]]) -> str:
    """Says who the members are, and how each does alone."""
    seeds = ", ".join(str(member["seed"]) for member in members)
    text = f"{len(members)} members, trained alike with the seeds {seeds}"
    if any(member["validation"] is None for member in members):
        return f"{text}; the last checkpoint of each."
    distances = [member["validation"]["ged"] for member in members]
    return (
        f"{text}; each alone has a squared energy distance of {min(distances):.4f} to "
        f"{max(distances):.4f}."
    )


def _score_section(scores: dict[str, Any], validation: dict[str, Any] | None) -> str:
    counts = sorted(scores["ged"], key=int)
    titles = {"ged": "squared energy distance", "floor": "floor (a perfect model)"}
    rows = [["samples", *counts]] + [
        [title, *(_bounds(scores[name][count]) for count in counts)]
        for name, title in titles.items()
        if name in scores
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    data, protocol = scores["data"], scores["protocol"]
    height, width = protocol["image_size"]
    groups = "patients" if data["name"].startswith("lidc") else "groups"
    limited = " (the first of the split only)" if protocol["limit"] else ""
    text = (
        f"On {data['images']} images of {data['groups']} {groups}{limited}, split "
        f"`{data['split']}` of {data['name']} "
        f"(fingerprint `{data['fingerprint']}`), {height} x {width} pixels, "
        f"{protocol['statistic'].upper()}-statistic. [95 % intervals by "
        f"{protocol.get('resampled', 'groups').removesuffix('s')}.]"
    )
    if "hungarian_iou" in scores:
        text += (
            f" Hungarian-matched IoU with {counts[-1]} samples: "
            f"{_bounds(scores['hungarian_iou'])}."
        )
    if data["split"] == "val" and validation:
        text += (
            " The checkpoint was chosen by images of this split, so that the scores "
            "are a little too good."
        )
    table = "\n".join(lines)
    return f"## Scores\n\n{table}\n\n{text}\n\n    {scores['command']}\n\n"


def _bounds(value: dict[str, Any]) -> str:
    if value["low"] is None:
        return f"{value['mean']:.3f}"
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def _lidc_limits(config: Config, dataset: dict[str, Any]) -> str:
    preparation, frame = dataset["preparation"], config.data.frame_size
    limits = [
        "It expects a lesion in the middle of "
        + (f"a crop of {frame} x {frame} pixels" if frame else "the image")
        + " and finds none by itself."
    ]
    if config.data.crop_jitter_px:
        limits.append(
            "In training the lesion was moved away from there by at most "
            f"{config.data.crop_jitter_px} pixels: place the crop with care."
        )
    spacing = preparation.get("spacing_mm")
    if spacing is None and preparation.get("format") == "png_slices":
        limits.append(
            "Pixels have the scan's own size, which is not recorded. "
            f"`run/predict.py` assumes {NATIVE_LIDC_MM:g} mm, and resamples images "
            "that say they differ from it by more than a tenth."
        )
    elif spacing is None:
        limits.append("Pixels have the scan's own size; crops must not be resampled.")
    else:
        limits.append(f"Crops are resampled to pixels of {spacing:g} mm.")
    if preparation.get("format") == "png_slices":
        limits.append(
            "Each crop was rescaled to its own least and largest value before it "
            "became 8-bit: the same tissue has other values in another crop."
        )
    limits.append(
        "The patients were selected for research; they are no screening population."
    )
    return "\n" + "\n".join(f"- {limit}" for limit in limits) + "\n"
