"""Makes docs/api.md from the docstrings and docs/tutorial.ipynb from docs/tutorial.md.

python run/make_docs.py

The notebook's cells are run, in a directory of their own, and their output is kept.
--notutorial makes the API page alone, which is quick.
"""

import ast
import base64
import contextlib
import inspect
import io
import json
import os
import pathlib
import re
import tempfile
import textwrap

import _start  # noqa: F401  (the checkout's own package)
from absl import flags

import tf_probunet as pu
from tf_probunet import files
from tf_probunet.commands import cli

flags.DEFINE_bool("tutorial", True, "make the notebook, too")

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
API_NAME, TUTORIAL_NAME, NOTEBOOK_NAME = "api.md", "tutorial.md", "tutorial.ipynb"
FENCED = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

_INTRODUCTION = """# The Python functions

`import tf_probunet as pu` is quick; TensorFlow is loaded when it is first needed.
[tutorial.md](tutorial.md) shows the functions at work. In the examples, `np` is NumPy.

*Made from the docstrings by `python run/make_docs.py`; the tests run every example.*
"""
_SECTIONS = {
    "Use a trained model": "load pretrained Predictor Hypotheses plot_samples",
    "Train a model": (
        "ProbUNet UNet DropoutUNet MHeads SSN Mixture HPUNet "
        "Image2ImageVAE train TrainedRun"
    ),
    "Score": (
        "evaluate Scores energy_distance hungarian_iou best_dice collective_insight "
        "threshold_dice soft_dice dice_max dice_match consensus_dice multirater_ece "
        "curvas_crps staple Staple "
        "representatives Representatives switched_energy_distance switched_mode_counts"
    ),
}
_HEADINGS = ("Args", "Returns", "Raises", "Attributes", "Example")
_NAMES = {"Args": "Arguments"}


def api_page() -> str:
    """Returns docs/api.md."""
    parts = [_INTRODUCTION]
    for title, names in _SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names.split():
            parts += _described(f"pu.{name}", getattr(pu, name), "###")
            parts += [
                part
                for method, function in _methods(name)
                for part in _described(f"{name}.{method}", function, "####")
            ]
    return "\n".join(parts)


def _methods(name: str) -> list[tuple[str, object]]:
    """Returns the documented methods of a class; models share those of ProbUNet."""
    value = getattr(pu, name)
    if not inspect.isclass(value):
        return []
    # The first base of a model is what it shares with the other models.
    owner = value.__mro__[1] if name == "ProbUNet" else value
    return [
        (method, function)
        for method, function in vars(owner).items()
        if inspect.isfunction(function)
        and not method.startswith("_")
        and not method.endswith("_step")
    ]


def _described(title: str, value: object, level: str) -> list[str]:
    call = "" if inspect.isclass(value) else _signature(value)
    return [f"{level} `{title}{call}`\n", _markdown(inspect.getdoc(value)), ""]


def _signature(function: object) -> str:
    """Returns the arguments and their defaults, without annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    ]
    return str(inspect.Signature(parameters))


def _markdown(docstring: str) -> str:
    """Turns the sections of a docstring into lists and code."""
    parts: list[str] = []
    for paragraph in _paragraphs(docstring):
        heading, _, body = paragraph.partition(":\n")
        if heading not in _HEADINGS:
            parts += _with_formulas(paragraph)
        elif heading == "Example":
            parts.append(f"```python\n{textwrap.dedent(body)}\n```")
        elif heading == "Returns":
            parts.append(f"**Returns**: {' '.join(body.split())}")
        else:
            name, listed = _NAMES.get(heading, heading), _bullets(textwrap.dedent(body))
            parts.append(f"**{name}**\n\n{listed}")
    return "\n\n".join(parts)


def _paragraphs(docstring: str) -> list[str]:
    """Splits a docstring at blank lines before text that is not indented."""
    return [p.rstrip() for p in re.split(r"\n\n(?=\S)", docstring)]


def _with_formulas(paragraph: str) -> list[str]:
    """Splits a paragraph; what is indented in it is a formula."""
    return [
        f"```\n{textwrap.dedent(part)}\n```" if part.startswith(" ") else part
        for part in re.split(r"\n\n", paragraph)
    ]


def _bullets(body: str) -> str:
    """Turns `name: text`, which may go on in indented lines, into a list."""
    entries = re.split(r"\n(?=\S)", body)
    lines = []
    for entry in entries:
        name, _, text = entry.partition(": ")
        lines.append(f"- `{name}`: {' '.join(text.split())}")
    return "\n".join(lines)


def cells(tutorial: str) -> list[tuple[str, str]]:
    """Splits the tutorial into ("markdown" or "code", text)."""
    found, place = [], 0
    for fence in FENCED.finditer(tutorial):
        found.append(("markdown", tutorial[place : fence.start()].strip()))
        found.append(("code", fence.group(1).strip()))
        place = fence.end()
    found.append(("markdown", tutorial[place:].strip()))
    return [(kind, text) for kind, text in found if text]


def run_cell(code: str, names: dict[str, object]) -> list[dict[str, object]]:
    """Runs a cell and returns its output as a notebook keeps it.

    Args:
        code: of the cell.
        names: the variables, which the cell changes.
    """
    tree = ast.parse(code)
    shown = None
    if isinstance(tree.body[-1], ast.Expr):
        shown = ast.Expression(tree.body.pop().value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(shown, "<cell>", "eval"), names) if shown else None
    outputs: list[dict[str, object]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode()
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def notebook(tutorial: str) -> dict[str, object]:
    """Runs the tutorial and returns the notebook."""
    names: dict[str, object] = {}
    made, count = [], 0
    for number, (kind, text) in enumerate(cells(tutorial)):
        cell = {
            "id": f"cell-{number}",
            "cell_type": kind,
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        if kind == "code":
            count += 1
            outputs = run_cell(text, names)
            for output in outputs:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
            cell.update(execution_count=count, outputs=outputs)
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main() -> None:
    files.write_text(DOCS / API_NAME, api_page())
    print(f"wrote {DOCS / API_NAME}")
    if not cli.FLAGS.tutorial:
        return
    tutorial = (DOCS / TUTORIAL_NAME).read_text("utf-8")
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            made = notebook(tutorial)
        finally:
            os.chdir(before)
    text = json.dumps(made, indent=1, ensure_ascii=False)
    files.write_text(DOCS / NOTEBOOK_NAME, f"{text}\n")
    print(f"wrote {DOCS / NOTEBOOK_NAME}")


if __name__ == "__main__":
    cli.start(main)
