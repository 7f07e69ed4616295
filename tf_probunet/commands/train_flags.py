"""The flags of the commands that train, and their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

from tf_probunet import config as config_lib
from tf_probunet import files
from tf_probunet.commands import cli

_SECTIONS = {
    "model": config_lib.ModelConfig,
    "data": config_lib.DataConfig,
    "augmentation": config_lib.AugmentationConfig,
    "training": config_lib.TrainingConfig,
}
# These settings come from the data set.
_FROM_DATA = {
    "num_classes": 2,
    "image_channels": 1,
    "ignore_label": None,
    "switched": False,
}


def define(
    run_dir: str, flag_values: flags.FlagValues = cli.FLAGS, **fixed: Any
) -> None:
    """Defines --data_dir, --run_dir, the devices and a flag for each setting.

    Args:
        run_dir: the help text of --run_dir.
        flag_values: where they are defined.
        **fixed: settings of the model that the command decides; they get no flag.
    """
    main = {"module_name": cli.main_module(), "flag_values": flag_values}
    flags.DEFINE_string("data_dir", None, "a prepared data set", **main)
    flags.DEFINE_string("run_dir", None, run_dir, **main)
    flags.DEFINE_enum(
        "strategy",
        "mirrored",
        ["mirrored", "multi_worker"],
        "mirrored: all GPUs of this machine; multi_worker: the machines in TF_CONFIG",
        **main,
    )
    flags.DEFINE_integer(
        "cpu_devices",
        1,
        "without a GPU: number of replicas that the CPU is split into",
        lower_bound=1,
        **main,
    )
    for section in _SECTIONS.values():
        cli.define_config_flags(section, [*_FROM_DATA, *fixed], flag_values)


def config(
    flag_values: flags.FlagValues = cli.FLAGS, **fixed: Any
) -> config_lib.Config:
    """Builds the configuration from the flags.

    Args:
        flag_values: where they are defined.
        **fixed: as for `define`.
    """
    sections = {
        name: cli.config_from_flags(
            section,
            flag_values,
            **({**_FROM_DATA, **fixed} if name == "model" else {}),
        )
        for name, section in _SECTIONS.items()
    }
    return config_lib.Config(**sections)


def read(
    flag_file: files.Path | None, settings: Mapping[str, Any]
) -> tuple[config_lib.Config, dict[str, str | None]]:
    """Reads a flag file without a command line.

    Args:
        flag_file: None for the defaults.
        settings: values of flags by name, which win over those of the file.

    Returns:
        The configuration, and `data_dir` and `run_dir` where the file names them.

    Raises:
        ValueError: a flag is unknown, or its value does not fit.
    """
    values = flags.FlagValues()
    define("", values)
    words = [] if flag_file is None else [f"--flagfile={flag_file}"]
    for name, value in settings.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words.append(f"--{name}={value}")
    try:
        rest = values(["train", *words])[1:]
    except flags.Error as error:
        raise ValueError(str(error)) from error
    if rest:
        raise ValueError(f"{flag_file}: {rest[0]!r} is not a flag; they start with --")
    paths = {name: values[name].value for name in ("data_dir", "run_dir")}
    return config(values), paths
