"""SavedModels for serving: all that a model can do, with TensorFlow alone.

Beside the signatures a SavedModel carries `config.json`, `dataset.json` and a model
card in its assets, so that evaluation and prediction need nothing else.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import checksums, files
from tf_probunet.model_card import model_card
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.unet_ensemble import UNetEnsemble
from tf_probunet.signatures import Signatures
from tf_probunet.training import ensemble
from tf_probunet.training.run_dir import CONFIG_NAME, DATASET_NAME, RunDir

METADATA_NAME = "metadata.json"
CARD_NAME = "README.md"


def export_run(
    run_dir: files.Path,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the model of a run as a SavedModel.

    Args:
        run_dir: of the training.
        out_dir: where to write.
        checkpoint: "best" by validation, or "last".
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there is no run, or no checkpoint in it.
        ValueError: `out_dir` exists already.
    """
    directory = RunDir(pathlib.Path(run_dir))
    model = directory.load_model(checkpoint)
    best = directory.best_score() if checkpoint == "best" else None
    return save(model, directory, out_dir, validation=best, overwrite=overwrite)


def export_ensemble(
    members: str,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes independent U-Nets as one SavedModel; n samples are n members.

    Args:
        members: a pattern for their run directories, such as "runs/unet_*".
        out_dir: where to write; not a member, even where the pattern fits.
        checkpoint: "best" by validation of each member, or "last".
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory. Its `config.json` is that of the first member.

    Raises:
        FileNotFoundError: nothing fits the pattern, or a member has no checkpoint.
        ValueError: the members do not belong together, or `out_dir` exists already.
    """
    directories = ensemble.find_members(members, excluded=out_dir)
    model = UNetEnsemble([member.load_model(checkpoint) for member in directories])
    described = [
        {
            "run_dir": str(member.path),
            "seed": member.config().training.seed,
            "validation": member.best_score() if checkpoint == "best" else None,
        }
        for member in directories
    ]
    return save(
        model,
        directories[0],
        out_dir,
        validation=None,
        members=described,
        overwrite=overwrite,
    )


def save(
    model: SegmentationModel,
    run_dir: RunDir,
    out_dir: files.Path,
    *,
    validation: dict[str, Any] | None,
    members: Sequence[dict[str, Any]] | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a model as a SavedModel, whole or not at all.

    Args:
        model: with its weights.
        run_dir: the run that `config.json` and `dataset.json` are taken from.
        out_dir: where to write.
        validation: the scores for the model card, if there are any.
        members: of an ensemble: `run_dir`, `seed` and `validation` of each.
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        ValueError: `out_dir` exists already, or is to be overwritten and holds
            something else than a SavedModel.
    """
    out_dir = pathlib.Path(out_dir)
    _check_free(out_dir, overwrite)
    module = tf.Module("tf_probunet")
    module.weights = list(model.trainable_variables)
    signatures = Signatures(model)
    functions = signatures.functions()
    for name, function in functions.items():
        setattr(module, name, function)  # For Python: loaded.sample(image)
    functions["serving_default"] = functions.pop("sample")
    metadata = {
        "model": model.name,
        "signatures": sorted(functions),
        "default_samples": signatures.default_samples,
        "max_samples": model.max_samples,
        "is_stochastic": model.is_stochastic,
        "size_divisor": model.config.size_divisor,
        "parameters": int(sum(np.prod(v.shape) for v in model.trainable_variables)),
    }
    if members:
        metadata["members"] = list(members)
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(
        tempfile.mkdtemp(prefix=f".{out_dir.name}.", dir=out_dir.parent)
    )
    try:
        assets = temporary / "write"
        files.write_json(assets / CONFIG_NAME, run_dir.config().to_json())
        files.write_json(assets / DATASET_NAME, run_dir.dataset())
        files.write_json(assets / METADATA_NAME, metadata)
        card = model_card(run_dir.config(), run_dir.dataset(), metadata, validation)
        files.write_text(assets / CARD_NAME, card)
        module.assets = [tf.saved_model.Asset(str(p)) for p in sorted(assets.iterdir())]
        saved = temporary / "saved_model"
        tf.saved_model.save(module, str(saved), signatures=functions)
        checksums.write(saved)
        if out_dir.exists():
            os.replace(out_dir, temporary / "replaced")
        os.replace(saved, out_dir)
    finally:
        shutil.rmtree(temporary)
    return out_dir


def _check_free(out_dir: pathlib.Path, overwrite: bool) -> None:
    """Checks that there is nothing in the way that may not be replaced."""
    if not out_dir.exists():
        return
    if not overwrite:
        raise ValueError(f"{out_dir}: exists already; --overwrite replaces it")
    is_empty = out_dir.is_dir() and not any(out_dir.iterdir())
    if not is_empty and not (out_dir / "saved_model.pb").is_file():
        raise ValueError(
            f"{out_dir}: holds something else than a SavedModel; it is not replaced"
        )
