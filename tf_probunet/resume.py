"""Where an interrupted command keeps the parts that it has finished.

The parts lie in `.parts/<hash>` below the output directory. The hash covers everything
that the parts depend on, so a command never uses the parts of other settings.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

from tf_probunet import files
from tf_probunet.hashing import salted_hash

_NAME = ".parts"


def parts_dir(out_dir: files.Path, settings: dict[str, Any]) -> pathlib.Path:
    """Returns the directory for the parts of a command; it may not exist yet.

    Args:
        out_dir: the output directory of the command.
        settings: everything that the parts depend on, as a JSON object.
    """
    text = json.dumps(settings, sort_keys=True)
    return pathlib.Path(out_dir, _NAME, f"{salted_hash(text, 'parts'):016x}")


def has_parts(out_dir: files.Path) -> bool:
    """Whether an interrupted command has left parts below its output directory."""
    return pathlib.Path(out_dir, _NAME).is_dir()


def remove_parts(out_dir: files.Path, keep: pathlib.Path | None = None) -> None:
    """Removes the parts below an output directory.

    Args:
        out_dir: the output directory.
        keep: the result of `parts_dir` for parts that are still needed.
    """
    parts = pathlib.Path(out_dir, _NAME)
    if keep is None:
        shutil.rmtree(parts, ignore_errors=True)
        return
    for other in parts.iterdir() if parts.is_dir() else ():
        if other != keep:
            shutil.rmtree(other)
