"""Every command and flag in the documents and help texts exists."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest
from helpers import documents

_ROOT = documents.ROOT
_DOCUMENTS = [
    *sorted(_ROOT.glob("*.md")),
    *sorted((_ROOT / "docs").glob("*.md")),
    _ROOT / "data" / "README.md",
]
_DOCUMENTS.remove(_ROOT / "CHANGELOG.md")  # It tells of flags that are gone.
_HELP_TEXTS = sorted((_ROOT / "tf_probunet" / "commands").glob("*.py"))
# Flags of absl, which every command has.
_COMMON = {"help", "helpshort", "helpfull", "flagfile"}
# Flags of other programs that documents name without the program.
_FOREIGN = {"logdir", "signal"}
# Their flags have flags of train.py as values.
_TRAINS = {"compare_models", "compare_settings"}


@pytest.fixture(scope="module")
def known():
    return documents.known_flags()


def _text(path: pathlib.Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    # A help text's commands are indented, or are its only paragraphs.
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return re.sub(r"^ *(python run/)", r"    \1", docstring + "\n", flags=re.MULTILINE)


def _problems(command: documents.Command, known) -> list[str]:
    if command.name and command.name not in known:
        return [f"no command {command.name}"]
    candidates = [known[command.name]] if command.name else list(known.values())
    if command.name in _TRAINS:
        candidates.append(known["train"])
    problems = []
    for flag, value in command.flags:
        if flag in _COMMON or (not command.name and flag in _FOREIGN):
            continue
        found = [flags[flag] for flags in candidates if flag in flags]
        found += [
            flags[flag[2:]]
            for flags in candidates
            if flag[:2] == "no" and flags.get(flag[2:], {}).get("boolean")
        ]
        choices = {choice for entry in found for choice in entry["choices"] or ()}
        where = command.name or "any command"
        if not found:
            problems.append(f"no flag --{flag} of {where}")
        elif value and all(entry["choices"] for entry in found):
            if not set(value.split(",")) <= choices:
                problems.append(f"--{flag}={value} of {where}: {sorted(choices)}")
    return problems


def test_this_test_sees_what_is_wrong(known):
    text = (
        "`run/train.py --stesp=3`\n```\ntf_probunet no-such --x\n"
        "python run/train.py \\\n    --model=vnet\n# --comment\n```\n"
        "`--no_such`, `--noflip`, `--nosteps`\n\n"
        "    python run/predict.py --nopad=1 --x\n"
    )
    found = [p for c in documents.commands(text) for p in _problems(c, known)]
    assert [problem.partition(":")[0] for problem in found] == [
        "no command no_such",
        "--model=vnet of train",
        "no flag --x of predict",
        "no flag --stesp of train",
        "no flag --no_such of any command",
        "no flag --nosteps of any command",
    ]


@pytest.mark.parametrize(
    "path", [*_DOCUMENTS, *_HELP_TEXTS], ids=lambda path: str(path.relative_to(_ROOT))
)
def test_commands_and_flags_exist(path, known):
    found = documents.commands(_text(path))
    assert [p for command in found for p in _problems(command, known)] == []


def test_flag_files_and_make_targets_exist():
    makefile = (_ROOT / "Makefile").read_text(encoding="utf-8")
    for path in _DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"--(?:flagfile|settings)=(\w+\.flags)", text):
            assert (_ROOT / name).is_file(), f"{path}: {name}"
        for target in re.findall(r"(?:`|^)make ([a-z][\w-]*)", text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (
                f"{path}: make {target}"
            )
