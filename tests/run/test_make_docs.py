"""The API page and the tutorial: current, and every example in them runs."""

from __future__ import annotations

import doctest
import importlib.util
import json
import pathlib
import re
import sys

import numpy as np
import pytest

import tf_probunet as pu

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_MAX_CODE_CELLS = 15


@pytest.fixture(scope="module")
def make_docs():
    """The script run/make_docs.py as a module."""
    sys.path.insert(0, str(_ROOT / "run"))
    try:
        path = _ROOT / "run" / "make_docs.py"
        spec = importlib.util.spec_from_file_location("make_docs", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(_ROOT / "run"))
    return module


def _examples() -> list:
    page = (_DOCS / "api.md").read_text("utf-8")
    parts = re.split(r"^#{3,4} `(?:pu\.)?([\w.]+).*$", page, flags=re.MULTILINE)
    return [
        pytest.param(code, id=name)
        for name, text in zip(parts[1::2], parts[2::2])
        for code in re.findall(
            r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
        )
    ]


def test_the_api_page_is_current_and_complete(make_docs):
    page = (_DOCS / "api.md").read_text("utf-8")
    assert page == make_docs.api_page(), "python run/make_docs.py makes it anew"
    for name in pu.__all__:
        assert re.search(rf"^### `pu\.{name}\b", page, re.MULTILINE), name


def test_docstrings_become_markdown(make_docs):
    args = "Args:\n    one: a\n        b.\n    two: c.\n\n"
    text = f"Does it.\n\n{args}Returns:\n    d\n    e."
    assert make_docs._markdown(text) == (
        "Does it.\n\n**Arguments**\n\n- `one`: a b.\n- `two`: c.\n\n**Returns**: d e."
    )


@pytest.mark.parametrize("code", _examples())
def test_every_example_of_the_api_page_runs(code):
    test = doctest.DocTestParser().get_doctest(code, {"np": np, "pu": pu}, "", "", 0)
    assert test.examples
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not failed, "".join(report)


def test_the_notebook_is_the_tutorial_with_output(make_docs):
    tutorial = make_docs.cells((_DOCS / "tutorial.md").read_text("utf-8"))
    made = json.loads((_DOCS / "tutorial.ipynb").read_text("utf-8"))
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]
    assert found == tutorial, "python run/make_docs.py makes it anew"
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(code) <= _MAX_CODE_CELLS
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"execute_result", "stream"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 4


def test_the_tutorial_runs(make_docs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tutorial = (_DOCS / "tutorial.md").read_text("utf-8")
    made = make_docs.notebook(tutorial)
    scores, nothing = (
        "".join(cell["outputs"][0]["data"]["text/plain"])
        for cell in made["cells"]
        if "pu.evaluate(" in "".join(cell["source"]) and cell["cell_type"] == "code"
    )
    ged, ged_of_nothing = (
        float(re.search(r"GED².* (\S+)$", text, re.MULTILINE).group(1))
        for text in (scores, nothing)
    )
    assert ged < 0.6 < 0.8 < ged_of_nothing
