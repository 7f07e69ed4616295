"""Tests of tf_probunet.preparation.processes."""

from __future__ import annotations

import os

import pytest

from tf_probunet.preparation import processes


def test_death_of_a_worker_is_told_in_one_line():
    with pytest.raises(OSError, match="one of 1 processes died.*--num_workers"):
        with processes.pool(1) as pool:
            pool.submit(os._exit, 9).result()


def test_workers_use_one_thread_each_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with processes.pool(1) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "3"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "3"
