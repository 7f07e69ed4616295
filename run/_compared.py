"""The models and ablations that are compared: how they are scored and timed."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Sequence

import _pieces

from tf_probunet import files
from tf_probunet.evaluation import compare


@dataclasses.dataclass(frozen=True)
class Compared:
    """A row of the table: how it is called, and its flags beside those of all."""

    key: str
    title: str
    flags: tuple[str, ...]
    is_ensemble: bool = False


MODELS = (
    Compared("prob_unet", "Probabilistic U-Net", ("--model=prob_unet",)),
    Compared("unet", "U-Net Ensemble", (), is_ensemble=True),
    Compared("dropout_unet", "Dropout U-Net", ("--model=dropout_unet",)),
    *(
        Compared(
            f"m_heads_{number}",
            f"M-Heads, {number} heads",
            ("--model=m_heads", f"--num_heads={number}"),
        )
        for number in (4, 8, 16)
    ),
    Compared("image2image_vae", "Image2Image VAE", ("--model=image2image_vae",)),
    Compared("fixed_prior", "ablation: fixed prior", ("--fixed_prior",)),
    Compared(
        "blind_posterior",
        "ablation: fixed prior, posterior without image",
        ("--fixed_prior", "--noposterior_sees_image"),
    ),
    Compared(
        "early_injection", "ablation: latents at the start", ("--injection=start",)
    ),
)


def chosen(keys: Sequence[str]) -> list[Compared]:
    """Returns the models of these keys and the first, which is always there.

    Args:
        keys: some of the models' keys; none for all models.

    Raises:
        ValueError: there is no such model.
    """
    known = [model.key for model in MODELS]
    for key in keys:
        if key not in known:
            raise ValueError(f"models has {key!r}, expected of {', '.join(known)}")
    return [m for m in MODELS if not keys or m.key in (*keys, known[0])]


def phantom(pieces: _pieces.Pieces, settings: dict[str, object]) -> pathlib.Path:
    """Prepares the phantom images; phantom.flags was tuned on other seeds."""
    path = pieces.path / "phantom"
    counts = [f"--{n}={settings[n]}" for n in ("num_train", "num_val", "num_test")]
    words = ["prepare_phantom.py", f"--out_dir={path}", *counts, "--seed=1"]
    pieces.run("prepare", *words)
    return path


def train(
    pieces: _pieces.Pieces, model: Compared, words: Sequence[str], num_members: int
) -> tuple[float, str]:
    """Trains a model, or the members of the ensemble.

    Args:
        pieces: of the comparison.
        model: which.
        words: flags of all models.
        num_members: of the ensemble.

    Returns:
        The seconds that it took, and the flag that tells `run/export.py` where it is.
    """
    path = pieces.path / model.key
    if model.is_ensemble:
        script = ["train_ensemble.py", f"--num_members={num_members}"]
        found = f"--members={path}_[0-9][0-9]"
    else:
        script, found = ["train.py"], f"--run_dir={path}"
    # The flags of the model come last: they win over those of the flag file.
    words = [*script, *words, f"--run_dir={path}", *model.flags]
    return pieces.run(f"train_{model.key}", *words), found


def score(
    pieces: _pieces.Pieces,
    model: Compared,
    command: Sequence[str],
    many_samples: int | None = None,
) -> compare.Results | None:
    """Scores a model with up to 16 samples, or with exactly `many_samples`.

    Args:
        pieces: of the comparison.
        model: with its SavedModel among them.
        command: of the evaluation, without number of samples and result.
        many_samples: 0 for nothing to do.

    Returns:
        None where there is nothing to do, or the model has not so many samples.
    """
    kind = "" if many_samples is None else "_many"
    if many_samples is not None:
        metadata = _metadata(pieces.path / f"{model.key}_saved_model")
        if not many_samples or (metadata["max_samples"] or many_samples) < many_samples:
            return None
        command = [*command, f"--num_samples={many_samples}", "--validation_split="]
    path = pieces.path / f"{model.key}{kind}_results"
    target = [f"--out_dir={path}", "--overwrite"]
    pieces.run(f"evaluate{kind}_{model.key}", *command, *target)
    return compare.read(path, model.title)


def time_samples(saved_model: pathlib.Path, size: int, repeats: int) -> dict:
    """Times 16 samples of one image, or as many as there are; the best run counts."""
    import tensorflow as tf

    metadata = _metadata(saved_model)
    config = files.read_json(saved_model / "assets" / "config.json", "configuration")
    count = min(16, metadata["max_samples"] or 16)
    model = tf.saved_model.load(str(saved_model))
    image = tf.zeros([1, size, size, config["model"]["image_channels"]])
    seconds = []
    for _ in range(repeats + 2):  # The first calls make the graph ready.
        start = time.perf_counter()
        model.sample(image, count, 0)["labels"].numpy()
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds[2:]), "samples": count}


def _metadata(saved_model: pathlib.Path) -> dict:
    return files.read_json(saved_model / "assets" / "metadata.json", "metadata")
