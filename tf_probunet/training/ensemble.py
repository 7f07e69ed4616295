"""The U-Net Ensemble: trains its members in turn, and finds members to combine."""

from __future__ import annotations

import dataclasses
import glob
import pathlib
from collections.abc import Callable

import tensorflow as tf

from tf_probunet import files
from tf_probunet.config import Config
from tf_probunet.training import train
from tf_probunet.training.run_dir import RunDir, latest_checkpoint

MEMBER_MODEL = "unet"


def member_dir(run_dir: files.Path, index: int) -> pathlib.Path:
    """Returns the run directory of a member: `runs/unet` and 3 give `runs/unet_03`."""
    path = pathlib.Path(run_dir)
    return path.with_name(f"{path.name}_{index:02d}")


def member_config(config: Config, index: int) -> Config:
    """Returns the configuration of a member: a U-Net with the next seeds in turn."""
    model = dataclasses.replace(config.model, name=MEMBER_MODEL)
    seed = config.training.seed + index
    training = dataclasses.replace(config.training, seed=seed)
    return dataclasses.replace(config, model=model, training=training)


def train_members(
    config: Config,
    *,
    data_dir: files.Path,
    run_dir: files.Path,
    num_members: int,
    strategy: tf.distribute.Strategy,
    report: Callable[[str], None],
) -> list[train.Outcome]:
    """Trains U-Nets one after another, or resumes where training was stopped.

    Args:
        config: the configuration of the first member. The others have the seeds that
            follow.
        data_dir: the prepared data set.
        run_dir: the members' run directories have this name and a number.
        num_members: the number of members.
        strategy: the devices.
        report: called with a line about each member before it is trained.

    Returns:
        How each run ended. A signal ends the list. Its member is saved, and the same
        call resumes it.

    Raises:
        ValueError: for the reasons of `train.train`.
        FileNotFoundError: there is no data.
    """
    outcomes = []
    for index in range(num_members):
        directory = member_dir(run_dir, index)
        report(f"member {index + 1} of {num_members}: {directory}")
        outcome = train.train(
            member_config(config, index),
            data_dir=data_dir,
            run_dir=directory,
            strategy=strategy,
        )
        outcomes.append(outcome)
        if outcome.signal is not None:
            break
        # Otherwise Keras keeps the graphs of all models.
        tf.keras.backend.clear_session()
    return outcomes


def find_members(pattern: str, excluded: files.Path | None = None) -> list[RunDir]:
    """Finds runs that can be combined, in the order of their seeds.

    Args:
        pattern: the pattern of the run directories, such as "runs/unet_*".
        excluded: a directory that is not a member, even if it matches the pattern.

    Raises:
        FileNotFoundError: nothing matches the pattern, or a directory has no run or no
            checkpoint.
        ValueError: a run has another model, configuration, data set or last step than
            the first, or the same seed as another. The message names it.
    """
    left_out = pathlib.Path(excluded).resolve() if excluded is not None else None
    paths = [pathlib.Path(match) for match in sorted(glob.glob(pattern))]
    found = [
        RunDir(path) for path in paths if path.is_dir() and path.resolve() != left_out
    ]
    if not found:
        hint = ""
        if pathlib.Path(pattern).parent.is_dir() and "[" in str(pattern):
            hint = "; for a bracket in a name write [[]"
        raise FileNotFoundError(f"{pattern}: no run directory matches{hint}")
    by_seed: dict[int, RunDir] = {}
    for member in found:
        _check_member(member, found[0])
        seed = member.config().training.seed
        if seed in by_seed:
            raise ValueError(
                f"{member.path}: has the seed {seed}, as {by_seed[seed].path} does; "
                "expected members with different seeds"
            )
        by_seed[seed] = member
    return [by_seed[seed] for seed in sorted(by_seed)]


def _check_member(member: RunDir, first: RunDir) -> None:
    """Checks that a run is a U-Net and differs from the first only in its seed."""
    config = member.config()
    if config.model.name != MEMBER_MODEL:
        raise ValueError(
            f"{member.path}: a run of the model {config.model.name!r}, expected "
            f"members of the model {MEMBER_MODEL!r}"
        )
    differences = _without_seed(first.config()).differences(_without_seed(config))
    if differences:
        raise ValueError(
            f"{member.path}: another configuration than {first.path} "
            f"({'; '.join(differences)}); expected the same, except for the seed"
        )
    data, first_data = member.dataset(), first.dataset()
    if data["fingerprint"] != first_data["fingerprint"]:
        raise ValueError(
            f"{member.path}: trained on data with the fingerprint "
            f"{data['fingerprint']}, but {first.path} on {first_data['fingerprint']}"
        )
    if data["class_names"] != first_data["class_names"]:
        raise ValueError(
            f"{member.path}: trained on data with the classes {data['class_names']}, "
            f"but {first.path} on {first_data['class_names']}"
        )
    step, first_step = last_step(member), last_step(first)
    if step != first_step:
        raise ValueError(
            f"{member.path}: stopped at step {step}, but {first.path} at step "
            f"{first_step}; train it further, or leave it out"
        )


def last_step(run_dir: RunDir) -> int:
    """Returns the step of a run's last checkpoint.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it has no number.
    """
    name = latest_checkpoint(run_dir.checkpoints)
    if name is None:
        raise FileNotFoundError(f"{run_dir.checkpoints}: no checkpoint; train first")
    # Checkpoints are numbered by their step.
    step = name.rpartition("-")[2]
    if not step.isdecimal():
        raise ValueError(
            f"{run_dir.checkpoints / name}: a checkpoint without its step, expected "
            "<name>-<step>"
        )
    return int(step)


def _without_seed(config: Config) -> Config:
    return dataclasses.replace(
        config, training=dataclasses.replace(config.training, seed=0)
    )
