"""The models and ablations that are compared, and how fast they sample."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Sequence

from tf_probunet import files


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


def time_samples(saved_model: pathlib.Path, size: int, repeats: int) -> dict:
    """Times 16 samples of one image, or as many as there are; the best run counts."""
    import tensorflow as tf

    metadata = files.read_json(saved_model / "assets" / "metadata.json", "metadata")
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
