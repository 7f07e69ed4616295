"""The way of the data flows one way: reads all imports and finds reversed arrows."""

from __future__ import annotations

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGE = "tf_probunet"

# What each part of the package may import of it. Nobody imports the commands.
_BASE = {
    *("", "files", "damage", "arrays", "hashing", "progress", "config"),
    *("exchange", "labels", "lane", "limits", "locks", "resume"),
}
_METRICS = _BASE | {"metrics"}
_AFTER_EXPORT = "readers of saved models"
_ALLOWED = {
    **{part: _BASE for part in _BASE},
    "seeds": _BASE,
    "noise": _BASE | {"seeds"},
    "dataset": _BASE | {"seeds", "dataset"},
    "imaging": _BASE | {"imaging"},
    "preparation": _BASE | {"dataset", "imaging", "preparation"},
    "models": _BASE | {"seeds", "noise", "models"},
    "training": _METRICS
    | {"seeds", "dataset", "models", "figures", "artifacts", "training"},
    "artifacts": _BASE | {"artifacts", "results"},
    "results": _BASE,
    "export": _BASE
    | {"seeds", "imaging", "models", "training", "artifacts", "results", "export"},
    "metrics": _METRICS,
    "evaluation": _METRICS | {"results", "evaluation"},
    "figures": _METRICS | {"results", "evaluation", "figures", _AFTER_EXPORT},
}
# Whatever comes after the export knows no model: the SavedModel is all it sees.
_BEFORE_EXPORT = {"preparation", "models", "training", "export", "commands", "api"}
# These read SavedModels, unlike the metrics and figures beside them.
_READ_SAVED_MODELS = {
    f"{_PACKAGE}.evaluation.evaluate",
    f"{_PACKAGE}.evaluation.protocol_table",
    f"{_PACKAGE}.evaluation.sampling_study",
    f"{_PACKAGE}.evaluation.sources",
    f"{_PACKAGE}.figures.latent_plane",
}
# Tables of names that every part may read, and the metrics: rooms inside of rooms.
_PARTS = {
    f"{_PACKAGE}.dataset.cityscapes_labels": "labels",
    f"{_PACKAGE}.dataset.lesion_keys": "labels",
    f"{_PACKAGE}.dataset.task": "labels",
    f"{_PACKAGE}.models.registry": "labels",
    f"{_PACKAGE}.artifacts.results_dir": "results",
    f"{_PACKAGE}.evaluation.metrics": "metrics",
}
_TENSORFLOW = ("tensorflow", "tensorflow_probability", "keras", "tf_keras")
_RAW_FILES = {"pydicom", "defusedxml"}


def _modules() -> dict[str, pathlib.Path]:
    """Returns the file of each module of the package, by dotted name."""
    found = {}
    for path in sorted((_ROOT / _PACKAGE).rglob("*.py")):
        parts = path.relative_to(_ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


_MODULES = _modules()
_SCRIPTS = sorted((_ROOT / "run").glob("*.py"))


@functools.cache
def _imports(path: pathlib.Path) -> frozenset[str]:
    """Returns the dotted names that a file imports, inside of functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names.add(node.module)
            # A name imported from a package may be a module.
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def _own_imports(module: str) -> set[str]:
    found = _imports(_MODULES[module]) & set(_MODULES)
    # "from tf_probunet import records" is about records, not about the package.
    packages = {name.rpartition(".")[0] for name in found}
    return found - packages


def _part(module: str) -> str:
    """Returns the name of the part of the package that a module belongs to."""
    if module in _READ_SAVED_MODELS:
        return _AFTER_EXPORT
    for start, part in _PARTS.items():
        if module == start or module.startswith(f"{start}."):
            return part
    return (module.split(".") + [""])[1]


def _all_imports(module: str) -> set[str]:
    """Returns what a module imports, itself or through others of the package."""
    waiting, seen, outside = [module], set(), set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        outside |= _imports(_MODULES[current])
        waiting += _own_imports(current)
    return outside


def _within(names: set[str] | frozenset[str], package: str) -> set[str]:
    return {n for n in names if n == package or n.startswith(f"{package}.")}


def test_this_test_sees_the_imports():
    own = _own_imports(f"{_PACKAGE}.dataset.input_pipeline")
    names = ("dataset.records", "seeds", "dataset.augmentation")
    assert {f"{_PACKAGE}.{name}" for name in names} <= own
    assert _PACKAGE not in own
    assert "tensorflow" in _all_imports(f"{_PACKAGE}.preparation.phantom")
    addons = _imports(
        _MODULES[f"{_PACKAGE}.dataset.augmentation"]
    )  # inside of a function
    assert "tensorflow_addons.image" in addons


@pytest.mark.parametrize("module", sorted(_MODULES))
def test_arrows_point_forward(module):
    part = _part(module)
    if part in ("api", "commands", "__main__"):
        return  # They join everything.
    imported = {_part(name) for name in _own_imports(module)}
    if part in _ALLOWED:
        assert imported <= _ALLOWED[part], f"{module}: may not import these"
    else:
        assert not imported & _BEFORE_EXPORT, f"{module}: comes after the export"


def test_no_import_goes_round_in_a_circle():
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join([*way, module])
        if module not in done:
            for imported in sorted(_own_imports(module)):
                visit(imported, (*way, module))
            done.add(module)

    for module in _MODULES:
        visit(module, ())


@pytest.mark.parametrize(
    "module", [m for m in _MODULES if _part(m) in _METRICS | {"results", "evaluation"}]
)
def test_metrics_do_without_tensorflow(module):
    imported = _all_imports(module)
    assert not any(_within(imported, package) for package in _TENSORFLOW)


@pytest.mark.parametrize("module", [m for m in _MODULES if _part(m) == "figures"])
def test_figures_of_results_do_without_tensorflow(module):
    imported = _imports(_MODULES[module])
    assert not any(_within(imported, package) for package in _TENSORFLOW)


def test_importing_metrics_and_figures_does_not_load_tensorflow():
    parts = _METRICS | {"evaluation", "figures"}
    modules = ", ".join(m for m in _MODULES if _part(m) in parts)
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, check=False)
    assert done.returncode == 0


def test_only_the_augmentation_uses_tensorflow_addons():
    users = [
        module
        for module, path in _MODULES.items()
        if _within(_imports(path), "tensorflow_addons")
    ]
    assert users == [f"{_PACKAGE}.dataset.augmentation"]


def test_only_imaging_preparation_and_prediction_read_raw_files():
    for module, path in _MODULES.items():
        if _part(module) not in ("imaging", "preparation", "predict"):
            for package in _RAW_FILES:
                assert not _within(_imports(path), package), module


@pytest.mark.parametrize(
    "path", [*_MODULES.values(), *_SCRIPTS], ids=lambda p: str(p.relative_to(_ROOT))
)
def test_no_internals_of_other_packages(path):
    for internal in ("keras.src", "keras.api", "tensorflow.python", "tensorflow.core"):
        assert not _within(_imports(path), internal)


@pytest.mark.parametrize(
    "module", sorted(m for m in _MODULES if _part(m) != "commands")
)
def test_flags_are_defined_in_commands_only(module):
    imported = _imports(_MODULES[module])
    assert not _within(imported, "absl.flags") | _within(imported, "absl.app")


def test_the_package_does_not_import_run():
    scripts = {path.stem for path in _SCRIPTS}
    for module, path in _MODULES.items():
        assert not _imports(path) & (scripts | {"run"}), module
