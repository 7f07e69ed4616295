"""Trains on a prepared data set, as `run/train.py` does."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from tf_probunet import files
from tf_probunet.api.predictor import Predictor, load
from tf_probunet.artifacts import pretrained
from tf_probunet.commands import train_flags
from tf_probunet.config import Config
from tf_probunet.export import export
from tf_probunet.training import strategy
from tf_probunet.training import train as train_lib

# The directory of the flag files that come with the package.


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run that has ended.

    Attributes:
        run_dir: its directory, with configuration, checkpoints and logs.
        step: how many steps were made.
        best: the best validation (`step`, `ged`, `loss`, ...), or None.
    """

    run_dir: pathlib.Path
    step: int
    best: dict[str, Any] | None

    def export(
        self,
        out_dir: files.Path,
        *,
        checkpoint: str = "best",
        overwrite: bool = False,
    ) -> Predictor:
        """Writes the model as a SavedModel, and loads it.

        Args:
            out_dir: where to write.
            checkpoint: "best" by validation, or "last".
            overwrite: replace a SavedModel that is there.

        Returns:
            The model as `pu.load(out_dir)` gives it.
        """
        return load(
            export.export_run(
                self.run_dir, out_dir, checkpoint=checkpoint, overwrite=overwrite
            )
        )


def train(
    config: Config | files.Path | None = None,
    *,
    data_dir: files.Path | None = None,
    run_dir: files.Path | None = None,
    resume: bool = True,
    **settings: Any,
) -> TrainedRun:
    """Trains a model on a prepared data set, or continues a run that was stopped.

    `pu.train("lidc_cpu", data_dir=..., run_dir=..., steps=500)` is
    `run/train.py --flagfile=lidc_cpu.flags --data_dir=... --run_dir=... --steps=500`.

    Args:
        config: a flag file, by its path or by the name of one that comes with the
            package ("phantom", "lidc", "lidc_cpu", "cityscapes", ...); or a
            `config.Config`. None is the paper's settings for LIDC.
        data_dir: a prepared data set; the flag file's by default.
        run_dir: where configuration, checkpoints and logs go; likewise.
        resume: continue the run in `run_dir`; otherwise such a run is an error.
        **settings: flags of `run/train.py` by their names, such as `model="unet"`.

    Returns:
        How it ended. `export` turns the run into a model to use.

    Raises:
        FileNotFoundError: there is no such flag file or data set.
        ValueError: settings, data and run directory do not fit together.
    """
    if isinstance(config, Config):
        if settings:
            raise ValueError(
                f"{', '.join(settings)}: settings change a flag file, expected none "
                "with a Config, which holds all of them"
            )
        paths: dict[str, str | None] = {}
    else:
        flag_file = None if config is None else _find(config)
        config, paths = train_flags.read(flag_file, settings)
    data_dir = _given("data_dir", data_dir or paths.get("data_dir"))
    run_dir = _given("run_dir", run_dir or paths.get("run_dir"))
    outcome = train_lib.train(
        config,
        data_dir=data_dir,
        run_dir=run_dir,
        strategy=strategy.create("mirrored", 1),
        resume=resume,
    )
    return TrainedRun(pathlib.Path(run_dir), outcome.step, outcome.best)


def _given(name: str, path: files.Path | None) -> files.Path:
    if not path:
        raise ValueError(f"{name} is {path!r}, expected a directory")
    return path


def _find(flag_file: files.Path) -> pathlib.Path:
    """Returns a flag file: that of the user, or the one that comes with the package."""
    given = pathlib.Path(flag_file)
    named = (
        given if given.suffix == ".flags" else given.with_name(f"{given.name}.flags")
    )
    for path in (given, named, pretrained.flag_file(named.name)):
        if path is not None and path.is_file():
            return path
    known = ", ".join(name[: -len(".flags")] for name in pretrained.flag_file_names())
    raise FileNotFoundError(
        f"{given}: no such flag file, expected a path or one of {known or 'none'}"
    )
