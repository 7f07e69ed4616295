"""Writes the page for a SavedModel and an image."""

from __future__ import annotations

from tf_probunet import files
from tf_probunet.artifacts import saved_model
from tf_probunet.explorer import page, scene
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import LesionConfig


def explore(
    *,
    model_path: files.Path,
    out: files.Path,
    data_dir: files.Path | None = None,
    split: str = "test",
    key: str | None = None,
    input_path: str | None = None,
    crop: CropConfig | None = None,
    rules: LesionConfig | None = None,
    num_samples: int = 16,
    seed: int = 0,
) -> scene.Scene:
    """Writes the page for an image of a data set, or for a user's own image.

    Args:
        model_path: the SavedModel of a Probabilistic U-Net.
        out: the HTML file.
        data_dir: a prepared data set. Give it or `input_path`.
        split: of the data set.
        key: of the image in it; None for the first.
        input_path: whatever `run/predict.py` reads.
        crop: selects a slice and a part of it, or has the voxel of a lesion.
        rules: has the point of a lesion, and where it ends.
        num_samples: samples to list.
        seed: of the samples.

    Returns:
        What the page shows.

    Raises:
        FileNotFoundError: the model, the data or the input does not exist.
        ValueError: they cannot be read, or do not fit each other.
    """
    if bool(data_dir) == bool(input_path):
        raise ValueError(
            f"data_dir is {data_dir!r} and input {input_path!r}, expected one of them"
        )
    if num_samples < 1:
        raise ValueError(f"num_samples is {num_samples}, expected at least 1")
    crop, rules = crop or CropConfig(), rules or LesionConfig()
    model = saved_model.load(model_path)
    if data_dir:
        shown = scene.scene_of_record(
            model,
            data_dir=data_dir,
            split=split,
            key=key,
            num_samples=num_samples,
            seed=seed,
        )
    elif crop.follows or rules.chooses:
        shown = scene.scene_of_lesion(
            model,
            path=str(input_path),
            crop=crop,
            rules=rules,
            num_samples=num_samples,
            seed=seed,
        )
    else:
        shown = scene.scene_of_file(
            model,
            path=str(input_path),
            crop=crop,
            num_samples=num_samples,
            seed=seed,
        )
    files.write_text(out, page.render(shown))
    return shown
