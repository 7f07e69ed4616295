"""Tests of loading SavedModels and calling them."""

from __future__ import annotations

import shutil

import pytest
import tensorflow as tf
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import saved_model


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_threshold_model(tmp_path_factory.mktemp("saved") / "m", spacing_mm=0.5)


def test_says_what_it_was_trained_on(path):
    model = saved_model.load(path)
    assert model.size_divisor == 8
    assert model.spacing_mm == 0.5
    assert model.class_names == ["background", "lesion"]
    assert model.has("decode")
    assert not model.has("posterior")


def test_calls_give_arrays(path):
    image = tf.fill([1, 8, 8, 1], 0.25)
    prior = saved_model.load(path).call("prior", image, about="x")
    assert prior["mean"].tolist() == [[0.25]]


def test_a_failing_call_names_what_it_was_about(path):
    model = saved_model.load(path)
    with pytest.raises(ValueError, match=r"^slice 7: decode of .* fails on it \("):
        model.call(
            "decode", tf.zeros([2, 8, 8, 1]), tf.zeros([3, 1, 1]), about="slice 7"
        )


def test_damaged_graph(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    graph = copy / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"/m: damaged SavedModel \("):
        saved_model.load(copy)


def test_missing_variables(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    shutil.rmtree(copy / "variables")
    with pytest.raises(ValueError, match=r"/m: damaged SavedModel \("):
        saved_model.load(copy)
