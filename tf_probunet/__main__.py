"""The command `tf_probunet`, also as `python -m tf_probunet`."""

from __future__ import annotations

import os
import sys

from tf_probunet import __version__
from tf_probunet.commands import COMMANDS, cli

_USAGE = """usage: tf_probunet <command> [--flags]

{commands}

`tf_probunet <command> --help` lists the flags of a command. To complete commands and
flags with the Tab key, type this in Bash, or put it into ~/.bashrc:

  complete -o default -C "tf_probunet --complete" tf_probunet"""


def main() -> None:
    """Runs the command that the first word names."""
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word in ("-h", "--help", "help"):
        cli.show(_USAGE.format(commands="\n".join(map(_line, COMMANDS))))
        return
    if word == "--version":
        print(__version__)
        return
    if word == "--complete":
        print("\n".join(_completions(os.environ.get("COMP_LINE", ""))))
        return
    name = word.replace("-", "_")
    if name not in COMMANDS:
        known = ", ".join(map(cli.command_word, COMMANDS))
        sys.exit(f"error: unknown command {word!r}, expected one of {known}")
    sys.argv[:2] = [f"{cli.PROGRAM} {word}"]
    cli.run(name)


def _completions(line: str) -> list[str]:
    """Returns the words that may stand at the end of a command line in their place.

    For values of flags there are none: the shell completes names of files instead.
    """
    words = line.split(" ")
    if len(words) <= 2:
        candidates = [cli.command_word(command) for command in COMMANDS]
    else:
        name = words[1].replace("-", "_")
        has_flags = name in COMMANDS and words[-1].startswith("-")
        candidates = cli.flag_names(name) if has_flags else []
        candidates = [f"--{flag}" for flag in candidates]
    return [candidate for candidate in candidates if candidate.startswith(words[-1])]


def _line(command: str) -> str:
    return f"  {cli.command_word(command):24s} {cli.summary(command)}"


if __name__ == "__main__":
    main()
