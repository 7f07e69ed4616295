"""The command `tf_probunet`, also as `python -m tf_probunet`."""

from __future__ import annotations

import sys

from tf_probunet import __version__
from tf_probunet.commands import COMMANDS, cli

_USAGE = """usage: tf_probunet <command> [--flags]

{commands}

`tf_probunet <command> --help` lists the flags of a command."""


def main() -> None:
    """Runs the command that the first word names."""
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word in ("-h", "--help", "help"):
        print(_USAGE.format(commands="\n".join(map(_line, COMMANDS))))
        return
    if word == "--version":
        print(__version__)
        return
    name = word.replace("-", "_")
    if name not in COMMANDS:
        known = ", ".join(map(cli.command_word, COMMANDS))
        sys.exit(f"error: unknown command {word!r}, expected one of {known}")
    sys.argv[:2] = [f"{cli.PROGRAM} {word}"]
    cli.run(name)


def _line(command: str) -> str:
    return f"  {cli.command_word(command):24s} {cli.summary(command)}"


if __name__ == "__main__":
    main()
