"""Finds the weights and the flag files that come with the package."""

from __future__ import annotations

import pathlib

DEFAULT = "lidc_cpu"

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def checkout() -> pathlib.Path | None:
    """Returns the root of the checkout that runs; None if the package is installed.

    An editable installation runs its checkout.
    """
    # Only the wheel has the flag files inside the package: see setup.py.
    return None if (_PACKAGE / "flag_files").is_dir() else _PACKAGE.parent


def names() -> list[str]:
    """Returns the names of the SavedModels that come with the package."""
    return sorted(path.name for path in _models().glob("*") if path.is_dir())


def model_path(name: str = DEFAULT) -> pathlib.Path:
    """Returns the directory of a SavedModel that comes with the package.

    Raises:
        FileNotFoundError: there is no such model.
    """
    if name not in names():
        raise FileNotFoundError(
            f"{_models() / name}: no such pretrained model, expected "
            f"{' or '.join(names()) or 'a complete checkout or installation'}"
        )
    return _models() / name


def flag_file(name: str) -> pathlib.Path | None:
    """Returns a flag file that comes with the package, or None if there is none.

    Args:
        name: such as `lidc.flags`, without directories.
    """
    path = (checkout() or _PACKAGE / "flag_files") / name
    is_plain = pathlib.PurePath(name).name == name and path.suffix == ".flags"
    return path if is_plain and path.is_file() else None


def flag_file_names() -> list[str]:
    """Returns the names of the flag files that come with the package."""
    directory = checkout() or _PACKAGE / "flag_files"
    return sorted(path.name for path in directory.glob("*.flags"))


def _models() -> pathlib.Path:
    root = checkout()
    return root / "data" / "pretrained" if root else _PACKAGE / "pretrained"
