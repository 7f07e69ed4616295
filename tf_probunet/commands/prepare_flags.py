"""The flags of the commands that write records."""

from __future__ import annotations

from typing import Any

from absl import flags

from tf_probunet.commands import cli

REQUIRED = ["out_dir"]


def define(num_workers: int = 0, *, strict: bool = True) -> None:
    """Defines --out_dir, --num_workers, --overwrite, --preview and --strict.

    Args:
        num_workers: the default number of processes.
        strict: whether the command reads files, which may have problems.
    """
    place = {"module_name": cli.main_module()}
    flags.DEFINE_string("out_dir", None, "where to write the data set", **place)
    flags.DEFINE_integer(
        "num_workers",
        num_workers,
        "processes; 0 for one per core",
        lower_bound=0,
        **place,
    )
    flags.DEFINE_bool(
        "overwrite", False, "replace a data set of other settings", **place
    )
    flags.DEFINE_integer(
        "preview",
        0,
        "number of images on a contact sheet, preview.png",
        lower_bound=0,
        **place,
    )
    if strict:
        flags.DEFINE_bool(
            "strict", False, "stop at the first problem in the data", **place
        )


def settings() -> dict[str, Any]:
    """Returns what the flags say, as arguments of a `prepare` function."""
    values = cli.FLAGS
    found = {
        "num_workers": values.num_workers,
        "overwrite": values.overwrite,
        "num_preview": values.preview,
    }
    if "strict" in values:
        found["strict"] = values.strict
    return found
