"""A finished run, for the tests that only look at one."""

import pytest
from helpers import tiny


@pytest.fixture(scope="session")
def finished(phantom_dir, tmp_path_factory):
    """The directory and the outcome of `tiny.run`, which nothing interrupted."""
    from helpers import runs

    run_dir = tmp_path_factory.mktemp("finished")
    return run_dir, runs.train(tiny.run(), phantom_dir, run_dir)
