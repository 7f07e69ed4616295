"""The flags of the commands that train, and their configuration."""

from __future__ import annotations

from typing import Any

from absl import flags

from tf_probunet import config as config_lib
from tf_probunet.commands import cli

_SECTIONS = {
    "model": config_lib.ModelConfig,
    "data": config_lib.DataConfig,
    "augmentation": config_lib.AugmentationConfig,
    "training": config_lib.TrainingConfig,
}
# These settings come from the data set.
_FROM_DATA = {"num_classes": 2, "image_channels": 1, "ignore_label": None}


def define(run_dir: str, **fixed: Any) -> None:
    """Defines --data_dir, --run_dir, the devices and a flag for each setting.

    Args:
        run_dir: the help text of --run_dir.
        **fixed: settings of the model that the command decides; they get no flag.
    """
    main = {"module_name": cli.main_module()}
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
        cli.define_config_flags(section, skip=[*_FROM_DATA, *fixed])


def config(**fixed: Any) -> config_lib.Config:
    """Builds the configuration from the flags.

    Args:
        **fixed: as for `define`.
    """
    sections = {
        name: cli.config_from_flags(
            section, **({**_FROM_DATA, **fixed} if name == "model" else {})
        )
        for name, section in _SECTIONS.items()
    }
    return config_lib.Config(**sections)
