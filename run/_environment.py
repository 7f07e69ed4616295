"""Finds the virtual environment of `make setup`, so that none must be activated.

All scripts import it first, through `_start`. It must not import anything that is not
there without the environment.
"""

import importlib.util
import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Those of `make` without and with LANE=; see the Makefile.
_NAMES = (".venv", ".venv-current", ".venv-legacy")
_NEEDED = ("tf_probunet", "tensorflow", "tensorflow_probability", "numpy", "absl")


def enter() -> None:
    """Restarts the command with the environment's Python if this one lacks packages.

    Ends with exit code 1 and one clear line if there is no such environment.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if not missing:
        return
    for name in _NAMES:
        environment = os.path.join(_ROOT, name)
        # Complete, and not the one that lacks the packages.
        if os.path.exists(os.path.join(environment, ".installed")):
            if os.path.realpath(environment) != os.path.realpath(sys.prefix):
                python = os.path.join(environment, "bin", "python")
                os.execv(python, [python, *sys.argv])
    sys.stderr.write(
        f"error: {sys.executable} has no {', '.join(missing)}, and {_ROOT} has no "
        "virtual environment; `make setup` there creates one\n"
    )
    sys.exit(1)


enter()
