"""What all tests share: a quiet TensorFlow, no windows, a small phantom data set."""

from __future__ import annotations

import os
import pathlib
import sys

import hypothesis
import pytest

import tf_probunet  # noqa: F401  (quietens TensorFlow before any test imports it)

os.environ["MPLBACKEND"] = "Agg"
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flag that replaces the committed outputs of the models."""
    parser.addoption(
        "--renew_goldens",
        action="store_true",
        help="write the outputs of the models to tests/goldens instead of comparing",
    )


def pytest_collection_finish() -> None:
    """Splits the CPU for tests of two replicas, before any test starts TensorFlow."""
    if "tensorflow" in sys.modules:
        from tf_probunet.training import strategy

        strategy.split_cpu(2)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many damaged inputs the tests in tests/fuzz tried."""
    tried: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, number in getattr(report, "user_properties", ()):
                if name == "fuzz_inputs":
                    tried[report.nodeid] = number
    if tried:
        by_file: dict[str, int] = {}
        for nodeid, number in tried.items():
            name = pathlib.PurePath(nodeid.partition("::")[0]).stem
            by_file[name] = by_file.get(name, 0) + number
        listed = ", ".join(f"{name} {n}" for name, n in sorted(by_file.items()))
        terminalreporter.write_line(
            f"fuzz: {sum(tried.values())} inputs tried ({listed})"
        )


@pytest.fixture(scope="session")
def phantom_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A prepared phantom data set: 24, 8 and 8 images of 32x32."""
    from tf_probunet.config import PhantomConfig
    from tf_probunet.preparation import phantom

    out_dir = tmp_path_factory.mktemp("phantom")
    config = PhantomConfig(image_size=32, num_train=24, num_val=8, num_test=8, seed=3)
    phantom.prepare(config, out_dir)
    return out_dir
