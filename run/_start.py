"""Starts a command of the package from a script in this directory."""

import pathlib
import sys

# The checkout's own package, also where another version is installed.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import _environment  # noqa: F401  (before any package that may not be there)


def command(name: str) -> None:
    """Runs `tf_probunet/commands/<name>.py` with the words of the command line."""
    from tf_probunet.commands import cli

    cli.run(name)
