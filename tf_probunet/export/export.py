"""SavedModels for serving: everything a model can do, with TensorFlow alone.

The assets of a SavedModel describe it: its configuration, the training data, a model
card. Evaluation and prediction need nothing else.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tf_probunet import damage, exchange, files, locks, models
from tf_probunet.artifacts import checksums
from tf_probunet.artifacts.saved_model_dir import (
    CONFIG_NAME,
    SCORES_NAME,
    Description,
    SavedModelDir,
    write_assets,
)
from tf_probunet.config import SAMPLING_SETTINGS, Config, read_config
from tf_probunet.export.model_card import model_card, read_scores
from tf_probunet.export.signatures import Signatures
from tf_probunet.imaging import windows
from tf_probunet.models.base import SegmentationModel
from tf_probunet.models.unet_ensemble import UNetEnsemble
from tf_probunet.training import ensemble
from tf_probunet.training.run_dir import CHECKPOINT_ERRORS, RunDir

_WEIGHT = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"  # TensorFlow's name for the i-th


class Run(Protocol):
    """What is asked of a run; a `RunDir` answers it."""

    def config(self) -> Config:
        """Returns the configuration of the run."""

    def dataset(self) -> dict[str, Any]:
        """Returns the description of the training data."""

    def history(self) -> list[dict[str, Any]]:
        """Returns what the weights were trained on before."""


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Where a model comes from, for the assets of its SavedModel.

    Attributes:
        config: of the run.
        dataset: the description of the training data.
        validation: the scores of the exported checkpoint, if there are any.
        members: of an ensemble: `run_dir`, `seed` and `validation` of each.
        history: the earlier trainings, if the run started from trained weights.
        scores: of an evaluation, if the weights are taken from a scored SavedModel.
    """

    config: Config
    dataset: dict[str, Any]
    validation: dict[str, Any] | None = None
    members: Sequence[dict[str, Any]] | None = None
    history: Sequence[dict[str, Any]] = ()
    scores: dict[str, Any] | None = None

    @property
    def sees(self) -> int | None:
        """The side of what the network sees of a frame; None for all of it.

        A frame can only be filled up where there is a background.
        """
        data = self.config.data
        if data.task == "switched" or self.dataset["class_names"][0] != "background":
            return None
        return data.eval_size or None


def export_run(
    run_dir: files.Path,
    out_dir: files.Path,
    *,
    checkpoint: str = "best",
    results: files.Path | None = None,
    sampling: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the model of a run as a SavedModel.

    Args:
        run_dir: the training run.
        out_dir: where to write.
        checkpoint: "best" by validation, or "last".
        results: an evaluation of an earlier export of the same weights, for the model
            card.
        sampling: values that replace some of the `SAMPLING_SETTINGS`.
        overwrite: replace an existing SavedModel.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there is no run, no checkpoint in it, or no results.
        ValueError: `out_dir` exists already, the results are of another model, or the
            model can't sample in this way.
    """
    directory = RunDir(pathlib.Path(run_dir))
    model = directory.load_model(checkpoint)
    origin = _Origin(
        directory.config(),
        directory.dataset(),
        validation=directory.best_score() if checkpoint == "best" else None,
        history=directory.history(),
    )
    origin = _changed(model, origin, sampling)
    return _save(model, origin, out_dir, results, overwrite)


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
        out_dir: where to write. It is not a member, even if the pattern matches it.
        checkpoint: "best" by validation of each member, or "last".
        results: an evaluation of an earlier export of the same weights, for the model
            card.
        overwrite: replace an existing SavedModel.

    Returns:
        The SavedModel's directory. Its `config.json` is that of the first member.

    Raises:
        FileNotFoundError: nothing matches the pattern, a member has no checkpoint, or
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


def export_again(
    saved_model: files.Path,
    out_dir: files.Path,
    *,
    results: files.Path | None = None,
    sampling: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the model of a SavedModel as this version exports it.

    Args:
        saved_model: an export, perhaps of an earlier version.
        out_dir: where to write.
        results: an evaluation of the same weights, for the model card. Without it the
            scores of the earlier card are kept.
        sampling: values that replace some of the `SAMPLING_SETTINGS`. The scores of
            the earlier card are then left out.
        overwrite: replace an existing SavedModel.

    Returns:
        The new SavedModel's directory.

    Raises:
        FileNotFoundError: there is no SavedModel, or there are no results.
        ValueError: the SavedModel is damaged or does not fit this version, `out_dir`
            exists already, the results are of another model, or the model can't sample
            in this way.
    """
    directory = SavedModelDir(saved_model)
    described, scores = directory.describe(), None
    if not sampling and directory.asset(SCORES_NAME).is_file():
        scores = files.read_json(directory.asset(SCORES_NAME), "scores")
    origin = _Origin(
        read_config(directory.asset(CONFIG_NAME)),
        described.dataset,
        validation=described.metadata.get("validation"),
        members=described.metadata.get("members"),
        history=described.metadata.get("history", ()),
        scores=scores,
    )
    model = load_model(described)
    origin = _changed(model, origin, sampling)
    return _save(model, origin, out_dir, results, overwrite)


def _changed(
    model: SegmentationModel, origin: _Origin, sampling: Mapping[str, Any] | None
) -> _Origin:
    """Sets how a model samples, which no weight depends on."""
    if not sampling:
        return origin
    model.config = dataclasses.replace(model.config, **sampling)
    config = dataclasses.replace(origin.config, model=model.config)
    return dataclasses.replace(origin, config=config)


def load_model(described: Description) -> SegmentationModel:
    """Builds the Keras model of a SavedModel, with its weights.

    Raises:
        ValueError: the SavedModel is damaged, or its weights do not fit its network.
    """
    members = described.metadata.get("members")
    if members:
        built = [models.build(described.network) for _ in members]
        model: SegmentationModel = UNetEnsemble(built)
    else:
        model = models.build(described.network)
    variables, weights = model.trainable_variables, _read_weights(described.path)
    found, expected = ([tuple(w.shape) for w in ws] for ws in (weights, variables))
    if found != expected:
        raise ValueError(
            f"{described.path}: has {len(found)} weights that do not fit the network "
            f"of its {CONFIG_NAME}, expected {len(expected)} of its shapes"
        )
    for variable, weight in zip(variables, weights):
        variable.assign(weight)
    return model


def save(
    model: SegmentationModel,
    run_dir: Run,
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
        out_dir: where to write. If it is a symbolic link, its target is written.
        validation: the scores for the model card, if there are any.
        members: of an ensemble: `run_dir`, `seed` and `validation` of each.
        results: an evaluation of these weights, for the model card.
        overwrite: replace an existing SavedModel.

    Returns:
        The SavedModel's directory.

    Raises:
        FileNotFoundError: there are no results, or the SavedModel that was evaluated
            no longer exists.
        ValueError: `out_dir` exists already, or should be overwritten but holds
            something other than a SavedModel; the results are damaged or of another
            model; or another command is writing to `out_dir`.
    """
    origin = _Origin(
        run_dir.config(), run_dir.dataset(), validation, members, run_dir.history()
    )
    return _save(model, origin, out_dir, results, overwrite)


def _save(
    model: SegmentationModel,
    origin: _Origin,
    out_dir: files.Path,
    results: files.Path | None,
    overwrite: bool,
) -> pathlib.Path:
    target = pathlib.Path(os.path.realpath(out_dir))
    with locks.beside(target):
        exchange.recover(target.parent, target.name)
        _check_free(pathlib.Path(out_dir), overwrite)
        if results is not None:
            origin = dataclasses.replace(origin, scores=_scores_of(model, results))
        with exchange.staged(target.parent, target.name) as staging:
            _write(staging.new / target.name, staging.scratch, model, origin)
    return pathlib.Path(out_dir)


def _write(
    saved: pathlib.Path,
    scratch: pathlib.Path,
    model: SegmentationModel,
    origin: _Origin,
) -> None:
    """Writes the SavedModel; its assets are written to `scratch` first."""
    config, dataset = origin.config, origin.dataset
    signatures = Signatures(
        model,
        sees=origin.sees,
        values=windows.describe(dataset["intensity"], config.data),
    )
    network = signatures.network()
    functions = signatures.functions(network)
    module = tf.Module("tf_probunet")
    module.weights = list(model.trainable_variables)
    _attach(module, functions)  # For Python: loaded.sample(image)
    if origin.sees is not None:
        module.network = _attach(tf.Module("network"), network)
    functions["serving_default"] = functions.pop("sample")
    metadata = {
        "model": model.name,
        "signatures": sorted(functions),
        "default_samples": signatures.default_samples,
        "max_samples": model.max_samples,
        "is_stochastic": model.is_stochastic,
        "size_divisor": model.config.size_divisor,
        "sees": origin.sees,
        "frame": config.data.frame_size if origin.sees else None,
        "parameters": int(sum(np.prod(v.shape) for v in model.trainable_variables)),
    }
    if origin.validation:
        metadata["validation"] = origin.validation
    if origin.members:
        metadata["members"] = list(origin.members)
    if origin.history:
        metadata["history"] = list(origin.history)
    settings = config.to_json()
    # A directory of the machine where it was trained means nothing elsewhere.
    start_from = pathlib.PurePath(settings["training"]["start_from"]).name
    settings["training"]["start_from"] = start_from
    assets = write_assets(
        scratch,
        config=settings,
        dataset=dataset,
        metadata=metadata,
        card=model_card(config, dataset, metadata, origin.scores),
        scores=origin.scores,
    )
    module.assets = [tf.saved_model.Asset(str(path)) for path in assets]
    tf.saved_model.save(module, str(saved), signatures=functions)
    checksums.write(saved)


def _attach(module: tf.Module, functions: dict[str, Any]) -> tf.Module:
    for name, function in functions.items():
        setattr(module, name, function)
    return module


def _scores_of(model: SegmentationModel, results: files.Path) -> dict[str, Any]:
    """Reads the scores of a model, and checks that they belong to its weights.

    The fingerprint in the results covers the model card, so an export with another
    card has another one. Therefore the weights of the scored SavedModel are compared.
    """
    scores = read_scores(results)
    described = scores["model"]
    scored = SavedModelDir(described.pop("path"))  # Means nothing elsewhere.
    if not scored.exists:
        raise FileNotFoundError(
            f"{results}: holds the scores of {scored.path}, which is not a SavedModel "
            "(any more); it is needed to compare the weights"
        )
    if described["fingerprint"] not in scored.scored_fingerprints():
        raise ValueError(
            f"{results}: holds the scores of a SavedModel with the fingerprint "
            f"{described['fingerprint']}, but {scored.path} is another one now; "
            "expected that one, or results of run/evaluate.py --overwrite"
        )
    weights, expected = _read_weights(scored.path), model.trainable_variables
    if len(weights) != len(expected) or not all(
        np.array_equal(weight, variable.numpy())
        for weight, variable in zip(weights, expected)
    ):
        raise ValueError(
            f"{results}: holds the scores of {scored.path}, which has other weights "
            "than the model to export, expected those of the same run and checkpoint"
        )
    network = scored.describe().network
    for name in SAMPLING_SETTINGS:
        found, expected = getattr(network, name), getattr(model.config, name)
        if found != expected:
            raise ValueError(
                f"{results}: holds the scores of {scored.path}, whose {name} is "
                f"{found}, expected {expected}"
            )
    return scores


def _read_weights(path: pathlib.Path) -> list[np.ndarray]:
    """Reads the weights of a SavedModel, in the order of the model's variables."""
    try:
        with files.without_patterns(path) as plain:
            reader = tf.train.load_checkpoint(str(plain / "variables" / "variables"))
            shapes = reader.get_variable_to_shape_map()
            number = sum(name.startswith("weights/") for name in shapes)
            return [reader.get_tensor(_WEIGHT.format(i)) for i in range(number)]
    except CHECKPOINT_ERRORS as error:
        reason = damage.reason(error)
        raise ValueError(f"{path}: damaged SavedModel ({reason})") from error


def _check_free(out_dir: pathlib.Path, overwrite: bool) -> None:
    """Checks that nothing is in the way that may not be replaced."""
    if not out_dir.exists():
        return
    if not overwrite:
        raise ValueError(f"{out_dir}: exists already; --overwrite replaces it")
    is_empty = out_dir.is_dir() and not any(out_dir.iterdir())
    if not is_empty and not SavedModelDir(out_dir).exists:
        raise ValueError(
            f"{out_dir}: holds something other than a SavedModel; it is not replaced"
        )
