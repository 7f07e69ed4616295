"""The documents: links, paths and commands that exist, and examples that hold."""

from __future__ import annotations

import doctest
import pathlib
import re

import pytest

import tf_probunet
from tf_probunet.commands import COMMANDS

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_DOCUMENTS = sorted(
    [*_ROOT.glob("*.md"), *(_ROOT / "docs").glob("*.md"), _ROOT / "data" / "README.md"]
)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
_PATH = re.compile(r"\b(?:run|tests|tf_probunet)/[\w/]+\.py\b")
_COMMAND = re.compile(r"\brun/(\w+)\.py\b")


def _name(path: pathlib.Path) -> str:
    return str(path.relative_to(_ROOT))


def _anchors(path: pathlib.Path) -> set[str]:
    """Returns the anchors of a document's headings, as code forges make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        for text in headings
    }


@pytest.mark.parametrize("path", _DOCUMENTS, ids=_name)
def test_links_lead_somewhere(path):
    for target, anchor in _LINK.findall(path.read_text(encoding="utf-8")):
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in _anchors(found), f"{target} has no heading {anchor}"


@pytest.mark.parametrize("path", _DOCUMENTS, ids=_name)
def test_named_files_exist(path):
    text = path.read_text(encoding="utf-8")
    missing = {name for name in _PATH.findall(text) if not (_ROOT / name).exists()}
    assert not missing


def test_every_command_is_documented():
    text = "".join(path.read_text(encoding="utf-8") for path in _DOCUMENTS)
    assert set(COMMANDS) - set(_COMMAND.findall(text)) <= {"demo"}  # `make demo`
    assert "make demo" in text


def test_the_example_of_the_evaluation_holds():
    text = (_ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(text, {}, "evaluation.md", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    failed, tried = runner.run(example)
    assert tried > 5
    assert not failed


def test_one_version_everywhere():
    changes = (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(.*?)\]", changes, re.MULTILINE)[1] == (
        tf_probunet.__version__
    )
    citation = (_ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tf_probunet.__version__}\n" in citation
