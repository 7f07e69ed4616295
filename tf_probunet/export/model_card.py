"""The model card that travels in a SavedModel's assets, and the scores on it."""

from __future__ import annotations

import pathlib
import shlex
from typing import Any

from tf_probunet import __version__, files
from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.saved_model_dir import METADATA_NAME
from tf_probunet.config import COARSEST_LIDC_MM, NATIVE_LIDC_MM, Config
from tf_probunet.dataset import cityscapes_labels, task
from tf_probunet.imaging import windows

_LIDC = """## Training data and licence

- **Source**: LIDC-IDRI, The Cancer Imaging Archive,
  <https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX>: thoracic CT scans with the lesions that
  four radiologists outlined.
- **Licence** of the data: Creative Commons Attribution 3.0 Unported (CC BY 3.0),
  <https://creativecommons.org/licenses/by/3.0/>. The weights were made from crops of it;
  no image of it is in this directory. The software is under Apache-2.0.
- **Citation**: if you use the model, please cite the data.

> Armato III, S. G., McLennan, G., Bidaut, L., McNitt-Gray, M. F., Meyer, C. R., Reeves, A. P., et al. (2015). Data From LIDC-IDRI. The Cancer Imaging Archive. https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX
>
> Armato III, S. G., McLennan, G., Bidaut, L., et al. (2011). The Lung Image Database Consortium (LIDC) and Image Database Resource Initiative (IDRI): a completed reference database of lung nodules on CT scans. Medical Physics, 38(2), 915–931.
>
> Clark, K., Vendt, B., Smith, K., et al. (2013). The Cancer Imaging Archive (TCIA): maintaining and operating a public information repository. Journal of Digital Imaging, 26(6), 1045–1057.

"""  # noqa: E501

_LIMITS = """\
For research on segmentation under ambiguity. This is not a medical device, and its
samples are not a diagnosis. The model has only seen crops like those it was trained on.
On other scanners, resolutions or regions, its samples and their frequencies may be
wrong without any sign."""

_STREET_LIMITS = """\
For research on segmentation under ambiguity. The new classes are made up: which of them
a sample shows is random by design, and says nothing about the street. The model is not
made for driving. It has only seen frames like those it was trained on. With other
cameras, resolutions, cities or weather, its samples and their frequencies may be wrong
without any sign."""

# What a card says of an evaluation.
_PROTOCOL = ("image_size", "statistic", "limit")
_DATA = ("name", "fingerprint", "split", "images", "groups")
_MODEL = ("name", "source", "path", "fingerprint")


def model_card(
    config: Config,
    dataset: dict[str, Any],
    metadata: dict[str, Any],
    scores: dict[str, Any] | None = None,
) -> str:
    """Returns the card as Markdown.

    Args:
        config: of the run.
        dataset: description of the training data.
        metadata: of the SavedModel: model, signatures, sizes, parameters, and the
            validation's scores of the exported checkpoint if there are any.
        scores: of an evaluation, as `read_scores` gives them, or None.
    """
    counts = ", ".join(f"{n} {split}" for split, n in dataset["counts"].items())
    values = windows.describe(dataset["intensity"], config.data)
    is_lidc = dataset["name"].startswith("lidc")
    classes = task.class_names(dataset["class_names"], config.data.task)
    maps = f"{dataset['num_graders']} label maps per image"
    if "min_graders" in dataset:
        maps = f"{dataset['min_graders']} to {maps}"
    if config.data.task == "switched":
        maps = (
            f"{cityscapes_labels.NUM_SWITCHES} classes flipped at random to a new one "
            f"each, {cityscapes_labels.NUM_MODES} modes per image"
        )
    training = _trainings(config, metadata)
    validated = _validation(config, metadata)
    if not dataset["counts"]:  # Not a run of run/train.py.
        counts, training = "not recorded", "by Keras' `fit`; it is not recorded"
        validated = "none is recorded."
    return f"""# {metadata["model"]} trained on {dataset["name"]}

Made by tf_probunet {__version__}. {metadata["parameters"]:,} parameters.

- **Data**: {dataset["name"]} ({counts}), {len(classes)} classes
  ({", ".join(classes)}), {maps}; fingerprint `{dataset["fingerprint"]}`.
- **Input**: `image` [B, H, W, {config.model.image_channels}] float32 in 0..1
  ({values}). {_sizes(metadata)}
- **Signatures**: {", ".join(f"`{name}`" for name in metadata["signatures"])}.
- **Network**: {_network(config, metadata)}.
- **Training**: {training}.
- **Validation**: {validated}

{_score_section(scores, metadata) if scores else ""}{_LIDC if is_lidc else ""}\
## Intended use and limits

{_STREET_LIMITS if config.data.task == "switched" else _LIMITS}
{_lidc_limits(config, dataset) if is_lidc else ""}"""


def read_scores(path: files.Path) -> dict[str, Any]:
    """Reads the scores of an evaluation for a card.

    Args:
        path: an `out_dir` of `run/evaluate.py`, or its `results.json`.

    Returns:
        A JSON object: `ged`, `floor` and `hungarian_iou` with their intervals, `data`,
        `protocol`, the `model` that was scored, and the `command` without the
        directories of files.

    Raises:
        FileNotFoundError: there are no results.
        ValueError: they are damaged, or not those of a SavedModel.
    """
    found = results_dir.read(path)
    path, results = found.path / results_dir.RESULTS_NAME, found.summary
    if results["model"]["source"] != "saved_model":
        raise ValueError(
            f"{path}: source of the model is {results['model']['source']!r}, expected "
            "'saved_model': the results of a SavedModel of run/export.py"
        )
    distances: dict[str, Any] = {
        k: results[k] for k in ("ged", "floor") if k in results
    }
    for name, by_count in distances.items():
        for count, value in by_count.items():
            if value["mean"] is None:
                raise ValueError(
                    f"{path}: {name} of {count} samples is undefined, expected a mean"
                )
    if set(distances.get("floor", results["ged"])) != set(results["ged"]):
        raise ValueError(
            f"{path}: floor and ged are not of the same numbers of samples"
        )
    matched = results.get("hungarian_iou")
    if matched is not None and matched["mean"] is None:  # Undefined.
        matched = None
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
    """Returns what the intervals resample. Older results do not say it: groups."""
    intervals = results["protocol"].get("intervals", {})
    found = intervals.get("resampled", "groups") if type(intervals) is dict else None
    if found not in ("groups", "images"):
        raise ValueError(
            f"{path}: intervals are {str(intervals)[:80]}, expected resampled groups "
            "or images"
        )
    return found


def _without_places(command: str, path: pathlib.Path) -> str:
    """Shortens the directories in a command line to their names."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{path}: command is not a command line ({error})") from error
    parts = [word.partition("=") for word in words]
    return shlex.join(
        f"{flag}{equals}{pathlib.PurePath(value).name if value else ''}"
        if flag.endswith(("_dir", "_model"))
        else f"{flag}{equals}{value}"
        for flag, equals, value in parts
    )


def _sizes(metadata: dict[str, Any]) -> str:
    """Says which heights and widths an image may have."""
    sees, frame = metadata["sees"], metadata["frame"]
    if sees is None:
        return (
            f"Height and width are multiples of {metadata['size_divisor']}, and the "
            "network sees all of the image."
        )
    return (
        f"Give whole frames of at least {sees} x {sees} pixels (frames of {frame} x "
        f"{frame} were scored). The network sees the middle {sees} x {sees}; labels "
        "and probabilities of the rest are background."
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
    if model.outline_stddev:
        text += f", outlines drawn with a deviation of {model.outline_stddev:g} nats"
    if model.average_symmetries:
        text += ", features averaged over eight symmetries"
    if model.latent_pooling > 1:
        text += f", prior and posterior see means of {model.latent_pooling} x "
        text += f"{model.latent_pooling} pixels"
    return text


def _trainings(config: Config, metadata: dict[str, Any]) -> str:
    """Describes all trainings that the weights went through, the first one first."""
    earlier = [
        _training(Config.from_json(stage["config"], METADATA_NAME))
        for stage in metadata.get("history", [])
    ]
    stages = "; then ".join([*earlier, _training(config)])
    all_settings = "`config.json`"
    if earlier:
        all_settings += f" (the last training) and `{METADATA_NAME}` (the earlier ones)"
    return f"{stages}{_scored(config)}; all settings in {all_settings}"


def _training(config: Config) -> str:
    training, data, model = config.training, config.data, config.model
    crops = "whole images"
    if data.crop_size:
        # A square is named by its side.
        crop = data.crop_size
        crops = (
            f"crops of {crop if isinstance(crop, int) else 'x'.join(map(str, crop))}"
        )
    text = (
        f"{training.steps} steps of {training.batch_size} images, "
        f"{crops}, "
        f"learning rate {training.learning_rate:g}"
    )
    if training.final_learning_rate != training.learning_rate:
        text += f" to {training.final_learning_rate:g}"
    if model.energy_weight:
        text += ", on the energy distance"
        text += " and the presence" if model.presence_weight else ""
        text += " and the model's own loss" if model.elbo_weight else ""
    if model.learned == "posterior":
        text += ", of the posterior net alone"
    return text


def _scored(config: Config) -> str:
    """Says how much of a scored frame the network sees, if it is not all of it."""
    data = config.data
    if data.scored_size <= data.eval_size:
        return ""
    return (
        f"; scored on frames of {data.scored_size}, of which the network sees the "
        f"middle {data.eval_size} and the rest is background"
    )


def _validation(config: Config, metadata: dict[str, Any]) -> str:
    validation = metadata.get("validation")
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
    """Describes the members and the score of each alone."""
    seeds = ", ".join(str(member["seed"]) for member in members)
    text = f"{len(members)} members, trained alike with the seeds {seeds}"
    if any(member["validation"] is None for member in members):
        return f"{text}; the last checkpoint of each."
    distances = [member["validation"]["ged"] for member in members]
    return (
        f"{text}; each alone has a squared energy distance of {min(distances):.4f} to "
        f"{max(distances):.4f}."
    )


def _score_section(scores: dict[str, Any], metadata: dict[str, Any]) -> str:
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
    if data["split"] == "val" and metadata.get("validation"):
        text += (
            " The checkpoint was chosen by images of this split, so the scores are a "
            "little too good."
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
        "The model expects a lesion in the middle of "
        + (f"a crop of {frame} x {frame} pixels" if frame else "the image")
        + " and does not find lesions by itself."
    ]
    seen = config.data.eval_size
    if frame and seen < frame:
        limits.append(
            f"It sees the middle {seen} x {seen} pixels, so larger lesions are cut "
            "off there. `run/predict.py` says when a sample reaches that edge."
        )
    if config.data.crop_jitter_px:
        limits.append(
            "In training, the lesion was at most "
            f"{config.data.crop_jitter_px} pixels away from the middle: place the crop "
            "with care."
        )
    spacing = preparation.get("spacing_mm")
    if spacing is None and preparation.get("format") == "png_slices":
        limits.append(
            "Pixels have the scan's own size, which is not recorded. "
            f"`run/predict.py` assumes {NATIVE_LIDC_MM:g} mm. Images that say they "
            "have pixels smaller by more than a tenth, or larger than "
            f"{COARSEST_LIDC_MM:g} mm, are resampled."
        )
    elif spacing is None:
        limits.append("Pixels have the scan's own size; crops must not be resampled.")
    else:
        limits.append(f"Crops are resampled to pixels of {spacing:g} mm.")
    if preparation.get("format") == "png_slices":
        limits.append(
            "Each crop was rescaled to its own smallest and largest value before it "
            "became 8-bit, so the same tissue has other values in another crop."
        )
    limits.append(
        "The patients were selected for research; they are not a screening population."
    )
    return "\n" + "\n".join(f"- {limit}" for limit in limits) + "\n"
