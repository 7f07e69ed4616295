"""SavedModels for serving: all that a model can do, with TensorFlow alone.

Beside the signatures a SavedModel carries `config.json`, `dataset.json` and a model
card in its assets, so that evaluation and prediction need nothing else.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import damage, exchange, files, locks
from tf_probunet.artifacts import checksums
from tf_probunet.export.model_card import model_card, read_scores
from tf_probunet.export.signatures import Signatures
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.unet_ensemble import UNetEnsemble
from tf_probunet.training import ensemble
from tf_probunet.training.run_dir import (
    CHECKPOINT_ERRORS,
    CONFIG_NAME,
    DATASET_NAME,
    RunDir,
)

METADATA_NAME = "metadata.json"
CARD_NAME = "README.md"
SCORES_NAME = "scores.json"
_WEIGHT = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"  # TensorFlow's name for the i-th


def export_run(
    run_dir: files.Path,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    results: files.Path | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the model of a run as a SavedModel.

    Args:
        run_dir: of the training.
        out_dir: where to write.
        checkpoint: "best" by validation, or "last".
        results: of an evaluation of an earlier export of the same weights, for the
            model card.
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there is no run, no checkpoint in it, or no results.
        ValueError: `out_dir` exists already, or the results are of another model.
    """
    directory = RunDir(pathlib.Path(run_dir))
    model = directory.load_model(checkpoint)
    best = directory.best_score() if checkpoint == "best" else None
    return save(
        model,
        directory,
        out_dir,
        validation=best,
        results=results,
        overwrite=overwrite,
    )


def export_ensemble(
    members: str,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    results: files.Path | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes independent U-Nets as one SavedModel; n samples are n members.

    Args:
        members: a pattern for their run directories, such as "runs/unet_*".
        out_dir: where to write; not a member, even where the pattern fits.
        checkpoint: "best" by validation of each member, or "last".
        results: of an evaluation of an earlier export of the same weights, for the
            model card.
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory. Its `config.json` is that of the first member.

    Raises:
        FileNotFoundError: nothing fits the pattern, a member has no checkpoint, or
            there are no results.
        ValueError: the members do not belong together, `out_dir` exists already, or
            the results are of another model.
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
        results=results,
        overwrite=overwrite,
    )


def save(
    model: SegmentationModel,
    run_dir: RunDir,
    out_dir: files.Path,
    *,
    validation: dict[str, Any] | None,
    members: Sequence[dict[str, Any]] | None = None,
    results: files.Path | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a model as a SavedModel, whole or not at all.

    Args:
        model: with its weights.
        run_dir: the run that `config.json` and `dataset.json` are taken from.
        out_dir: where to write. Of a symbolic link, what it points to is written.
        validation: the scores for the model card, if there are any.
        members: of an ensemble: `run_dir`, `seed` and `validation` of each.
        results: of an evaluation of these weights, for the model card.
        overwrite: replace what lies in `out_dir`.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there are no results, or no longer the SavedModel that was
            evaluated.
        ValueError: `out_dir` exists already, or is to be overwritten and holds
            something else than a SavedModel; the results are damaged or of another
            model; or another command is writing to `out_dir`.
    """
    target = pathlib.Path(os.path.realpath(out_dir))
    with locks.beside(target):
        exchange.recover(target.parent, target.name)
        _check_free(pathlib.Path(out_dir), overwrite)
        with exchange.staged(target.parent, target.name) as staging:
            saved = staging.new / target.name
            _write(saved, staging.scratch, model, run_dir, validation, members, results)
    return pathlib.Path(out_dir)


def _write(
    saved: pathlib.Path,
    assets: pathlib.Path,
    model: SegmentationModel,
    run_dir: RunDir,
    validation: dict[str, Any] | None,
    members: Sequence[dict[str, Any]] | None,
    results: files.Path | None,
) -> None:
    """Writes the SavedModel, and what it copies to the directory `assets` first."""
    scores = None if results is None else _scores_of(model, results)
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
    files.write_json(assets / CONFIG_NAME, run_dir.config().to_json())
    files.write_json(assets / DATASET_NAME, run_dir.dataset())
    files.write_json(assets / METADATA_NAME, metadata)
    card = model_card(run_dir.config(), run_dir.dataset(), metadata, validation, scores)
    files.write_text(assets / CARD_NAME, card)
    if scores:
        files.write_json(assets / SCORES_NAME, scores)
    module.assets = [tf.saved_model.Asset(str(p)) for p in sorted(assets.iterdir())]
    tf.saved_model.save(module, str(saved), signatures=functions)
    checksums.write(saved)


def _scores_of(model: SegmentationModel, results: files.Path) -> dict[str, Any]:
    """Reads the scores of a model, and checks that they are those of its weights.

    The results' fingerprint is of a SavedModel with its card, so that an export with
    another card has another: the weights of that SavedModel are compared instead.
    """
    scores = read_scores(results)
    described = scores["model"]
    scored = pathlib.Path(described.pop("path"))  # Means nothing elsewhere.
    if not (scored / "saved_model.pb").is_file():
        raise FileNotFoundError(
            f"{results}: holds the scores of {scored}, which is no SavedModel (any "
            "more), expected it to compare the weights with"
        )
    if described["fingerprint"] not in _fingerprints(scored):
        raise ValueError(
            f"{results}: holds the scores of a SavedModel with the fingerprint "
            f"{described['fingerprint']}, but {scored} is another one now; expected "
            "that one, or results of run/evaluate.py --overwrite"
        )
    if not _has_weights(scored, model):
        raise ValueError(
            f"{results}: holds the scores of {scored}, which has other weights than "
            "the model to export, expected those of the same run and checkpoint"
        )
    return scores


def _fingerprints(scored: pathlib.Path) -> set[str]:
    """Returns the fingerprints that a SavedModel has, or had without its scores."""
    found = {checksums.fingerprint(scored)}
    file = scored / "assets" / SCORES_NAME
    if file.is_file():
        described = files.read_json(file, "scores in a SavedModel")
        files.check_fields(described, {"model": [dict]}, file)
        files.check_fields(described["model"], {"fingerprint": [str]}, file)
        found.add(described["model"]["fingerprint"])
    return found


def _has_weights(scored: pathlib.Path, model: SegmentationModel) -> bool:
    """Whether a SavedModel has exactly the weights of a model."""
    weights = model.trainable_variables
    try:
        with files.without_patterns(scored) as plain:
            reader = tf.train.load_checkpoint(str(plain / "variables" / "variables"))
            shapes = reader.get_variable_to_shape_map()
            names = [_WEIGHT.format(i) for i in range(len(weights))]
            if {n for n in shapes if n.startswith("weights/")} != set(names):
                return False
            return all(
                np.array_equal(reader.get_tensor(name), variable.numpy())
                for name, variable in zip(names, weights)
            )
    except CHECKPOINT_ERRORS as error:
        reason = damage.reason(error)
        raise ValueError(f"{scored}: damaged SavedModel ({reason})") from error


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
