"""The models and ablations that are compared: how they are scored and timed."""

from __future__ import annotations

import dataclasses
import functools
import glob
import pathlib
import time
from collections.abc import Sequence

from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.commands.pieces import Pieces
from tf_probunet.models import registry


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model that is trained and scored.

    Attributes:
        key: names its files.
        title: of its row in the table.
        flags: of `run/train.py`, after those that all candidates share.
        is_ensemble: whether several runs are put together.
    """

    key: str
    title: str
    flags: tuple[str, ...]
    is_ensemble: bool = False


def candidates() -> list[Candidate]:
    """Returns all models, and after them the ablations."""
    variants = {k: v for k, v in registry.VARIANTS.items() if v.is_compared}
    return [
        Candidate(
            key,
            f"ablation: {variant.title}" if variant.is_ablation else variant.title,
            variant.flags(),
            variant.is_ensemble,
        )
        for key, variant in sorted(variants.items(), key=lambda kv: kv[1].is_ablation)
    ]


def chosen(keys: Sequence[str]) -> list[Candidate]:
    """Returns the candidates with these keys, and the first one in any case.

    Args:
        keys: some of the candidates' keys; none for all of them.

    Raises:
        ValueError: there is no such model.
    """
    known = candidates()
    names = [candidate.key for candidate in known]
    for key in keys:
        if key not in names:
            raise ValueError(f"models has {key!r}, expected of {', '.join(names)}")
    return [c for c in known if not keys or c.key in (*keys, names[0])]


def phantom(pieces: Pieces, settings: dict[str, object]) -> pathlib.Path:
    """Prepares the phantom images; phantom.flags was tuned on other seeds."""
    path = pieces.path / "phantom"
    counts = [f"--{n}={settings[n]}" for n in ("num_train", "num_val", "num_test")]
    words = ["prepare_phantom", f"--out_dir={path}", *counts, "--seed=1"]
    pieces.run("prepare", *words)
    return path


def train(
    pieces: Pieces,
    models: Sequence[Candidate],
    words: Sequence[str],
    steps: int,
    member_steps: Sequence[int],
) -> dict[str, float]:
    """Trains models side by side, and each member of the ensemble as one of them.

    Args:
        pieces: of the comparison.
        models: which.
        words: flags of all models.
        steps: of each model but the ensemble.
        member_steps: of each member of the ensemble.

    Returns:
        The seconds that each took, by its key; for the ensemble, of all members.
    """
    keys, tasks = [], []
    for model in models:
        of_each = member_steps if model.is_ensemble else [steps]
        for seed, count in enumerate(of_each):
            name = f"{model.key}_{seed:02d}" if model.is_ensemble else model.key
            own = [f"--run_dir={pieces.path / name}", f"--seed={seed}", *model.flags]
            # Validated once, at the end: the last checkpoint is the one that counts.
            own += [f"--steps={count}", f"--validate_every={count}"]
            # The model's own flags come last: they win over those of the flag file.
            run = functools.partial(pieces.run, f"train_{name}", "train")
            tasks.append(functools.partial(run, *words, *own))
            keys.append(model.key)
    seconds = dict.fromkeys(keys, 0.0)
    for key, taken in zip(keys, pieces.side_by_side(tasks)):
        seconds[key] += taken
    return seconds


def trained(pieces: Pieces, model: Candidate) -> str:
    """Returns the flag that tells `run/export.py` where a trained model is."""
    path = pieces.path / model.key
    if model.is_ensemble:
        return f"--members={glob.escape(str(path))}_[0-9][0-9]"
    return f"--run_dir={path}"


def score(
    pieces: Pieces,
    model: Candidate,
    command: Sequence[str],
    many_samples: int | None = None,
) -> results_dir.Results | None:
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
        described = SavedModelDir(saved_model(pieces, model)).describe()
        most = described.metadata["max_samples"] or many_samples
        if not many_samples or most < many_samples:
            return None
        command = [*command, f"--num_samples={many_samples}", "--validation_split="]
    path = pieces.path / f"{model.key}{kind}_results"
    target = [f"--out_dir={path}", "--overwrite"]
    pieces.run(f"evaluate{kind}_{model.key}", *command, *target)
    return results_dir.read(path, model.title)


def saved_model(pieces: Pieces, model: Candidate) -> pathlib.Path:
    """Returns where a model is exported to."""
    return pieces.path / f"{model.key}_saved_model"


def time_samples(pieces: Pieces, model: Candidate, size: int) -> tuple[float, int]:
    """Times 16 samples of one image, or as many as there are; the best run counts.

    Returns:
        Seconds and number of samples, of now or of an earlier run.
    """
    path = saved_model(pieces, model)
    times = pieces.remember(f"time_{model.key}", lambda: _time_samples(path, size, 20))
    return times["seconds"], times["samples"]


def _time_samples(path: pathlib.Path, size: int, repeats: int) -> dict:
    import tensorflow as tf

    from tf_probunet.artifacts import saved_model

    model = saved_model.load(path)
    count = min(16, model.metadata["max_samples"] or 16)
    image = tf.zeros([1, size, size, model.network.image_channels])
    seconds = []
    for _ in range(repeats + 2):  # The first calls make the graph ready.
        start = time.perf_counter()
        model.functions.sample(image, count, 0)["labels"].numpy()
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds[2:]), "samples": count}
