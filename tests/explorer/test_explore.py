"""Tests of what the explorer refuses before it loads a model."""

import pytest

from tf_probunet.explorer.explore import explore


def test_one_source_of_images_is_expected(tmp_path):
    for sources in ({}, {"data_dir": "d", "input_path": "i"}):
        with pytest.raises(ValueError, match="data_dir is .* expected one of them"):
            explore(model_path="m", out=tmp_path / "page.html", **sources)
    assert not (tmp_path / "page.html").exists()


def test_the_number_of_samples_is_checked(tmp_path):
    with pytest.raises(ValueError, match="num_samples is 0, expected at least 1"):
        explore(model_path="m", out=tmp_path / "p", input_path="i", num_samples=0)


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        explore(model_path=tmp_path / "nowhere", out=tmp_path / "p", input_path="i")
