"""The model card that travels in a SavedModel's assets."""

from __future__ import annotations

from typing import Any

from tf_probunet import __version__
from tf_probunet.config import Config


def model_card(
    config: Config,
    dataset: dict[str, Any],
    metadata: dict[str, Any],
    validation: dict[str, Any] | None,
) -> str:
    """Returns the card as Markdown.

    Args:
        config: of the run.
        dataset: description of the training data.
        metadata: of the SavedModel: model, signatures, parameters.
        validation: scores of the exported checkpoint, or None.
    """
    counts = ", ".join(f"{n} {split}" for split, n in dataset["counts"].items())
    low, high = config.data.window_low, config.data.window_high
    values = (
        f"Hounsfield units, {low:g} to {high:g} mapped to 0..1 and clipped"
        if dataset["intensity"] == "hu"
        else "8-bit values divided by 255"
    )
    if "members" in metadata:
        scores = _member_scores(metadata["members"])
    elif validation:
        scores = (
            f"Squared energy distance {validation['ged']:.4f} "
            f"({config.training.validation_samples} samples), loss "
            f"{validation['loss']:.5g}, at step {validation['step']}, on "
            f"{config.training.validation_images or 'all'} validation images."
        )
    else:
        scores = "The last checkpoint of the run; not the one chosen by validation."
    return f"""# {metadata["model"]} trained on {dataset["name"]}

Made by tf_probunet {__version__}. {metadata["parameters"]:,} parameters.

- **Data**: {dataset["name"]} ({counts}), classes {", ".join(dataset["class_names"])},
  {dataset["num_graders"]} label maps per image; fingerprint `{dataset["fingerprint"]}`.
- **Input**: `image` [B, H, W, {config.model.image_channels}] float32 in 0..1
  ({values}); height and width are multiples of {metadata["size_divisor"]}.
- **Signatures**: {", ".join(f"`{name}`" for name in metadata["signatures"])}.
- **Training**: {config.training.steps} steps of {config.training.batch_size} images,
  crops of {config.data.crop_size or "the whole image"}; all settings in `config.json`.
- **Validation**: {scores}

## Intended use and limits

For research on segmentation under ambiguity. It is no medical device, and its samples
are no diagnosis. It has only seen crops like those it was trained on; on other
scanners, resolutions or regions its samples and their frequencies may be wrong without
any sign.
"""


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
