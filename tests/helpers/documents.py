"""The commands in the documents, and the flags that the commands have."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .+\n)+", re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
# In two groups: the script of run/, or the word behind `tf_probunet`.
_COMMAND = re.compile(
    r"run/(\w+)\.py\b|(?<!from )(?<!import )\btf_probunet ([a-z][\w-]*)"
)
_FLAG = re.compile(r"(?<![\w-])--([a-z]\w*)(?:=([\w.]+)(?![\w.]))?")
# Writes the flags of each command and bench as JSON.
_READER = """
import importlib, json, pathlib, sys
from absl import flags
from tf_probunet.commands import COMMANDS
sys.path.insert(0, "run")
scripts = [path.stem for path in pathlib.Path("run").glob("[!_]*.py")]
others = sorted(set(scripts) - set(COMMANDS))
common = set(flags.FLAGS)
found = {}
for name in [*COMMANDS, *others]:
    module = f"tf_probunet.commands.{name}" if name in COMMANDS else name
    importlib.import_module(module)
    own = {flag: flags.FLAGS[flag] for flag in set(flags.FLAGS) - common}
    found[name] = {
        flag: {
            "boolean": value.boolean,
            "choices": getattr(value.parser, "enum_values", None),
        }
        for flag, value in own.items()
    }
    for flag in own:
        delattr(flags.FLAGS, flag)
print(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command in a document.

    Attributes:
        name: such as `prepare_lidc`; empty for flags without a command.
        flags: pairs of name and value; the value is empty where none is given.
    """

    name: str
    flags: tuple[tuple[str, str], ...]


def blocks(text: str, *languages: str) -> list[str]:
    """Returns the fenced blocks in these languages; "" is a block that names none."""
    return [code for language, code in _FENCE.findall(text) if language in languages]


def lines(block: str) -> list[str]:
    """Returns the commands of a block, without comments, each in one line."""
    joined = block.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip() and line.strip()[0] != "#"]


def commands(text: str) -> list[Command]:
    """Returns all commands of this package in a document, and flags without one."""
    shell = blocks(text, "", "bash", "sh", "console")
    plain = _FENCE.sub("", text)
    shell += _INDENTED.findall(plain)
    found = [
        command
        for block in shell
        for line in lines(block)
        for command in _in_line(line)
        if command.name
    ]
    spans = [" ".join(span.split()) for span in _INLINE.findall(plain)]
    return found + [command for span in spans for command in _in_line(span)]


def _in_line(line: str) -> list[Command]:
    """Returns the commands of a line; a line of only flags is one without a name."""
    matches = list(_COMMAND.finditer(line))
    if not matches:
        flags = _FLAG.findall(line) if line.startswith("--") else []
        return [Command("", tuple(flags))] if flags else []
    ends = [match.start() for match in matches[1:]] + [len(line)]
    return [
        Command(
            (match[1] or match[2]).replace("-", "_"),
            tuple(_FLAG.findall(line[match.end() : end])),
        )
        for match, end in zip(matches, ends)
    ]


def known_flags() -> dict[str, dict[str, dict]]:
    """Returns the flags of each command: whether boolean, and which choices."""
    done = subprocess.run(
        [sys.executable, "-c", _READER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
