"""Tests of loading SavedModels: what they say, and what is refused."""

from __future__ import annotations

import json
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


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        saved_model.load(tmp_path / "absent")


def test_no_saved_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no saved_model\.pb"):
        saved_model.load(tmp_path)


def test_somebody_elses_saved_model(tmp_path):
    module = tf.Module()
    module.double = tf.function(
        lambda x: 2 * x, input_signature=[tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(module, str(tmp_path / "m"))
    with pytest.raises(
        ValueError, match="without assets/config.json, expected one wri"
    ):
        saved_model.load(tmp_path / "m")


def test_incomplete_assets(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    asset = copy / "assets" / "dataset.json"
    content = json.loads(asset.read_text())
    del content["intensity"], content["name"]
    asset.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"dataset\.json: lacks intensity, name$"):
        saved_model.load(copy)


def test_settings_of_another_version(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    asset = copy / "assets" / "config.json"
    content = json.loads(asset.read_text())
    content["training"] = {"from": "another version"}
    asset.write_text(json.dumps(content))
    assert saved_model.load(copy).network.latent_dim == 1
    content["model"]["wings"] = 2
    asset.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"config\.json: does not fit this version"):
        saved_model.load(copy)


@pytest.mark.parametrize(
    ("asset", "section", "name", "value", "message"),
    [
        (
            "metadata",
            None,
            "size_divisor",
            10**6,
            "size_divisor is 1000000, expected 1",
        ),
        ("metadata", None, "max_samples", 0, "max_samples is 0, expected at least 1"),
        ("config", "model", "num_classes", 10**8, "num_classes is 100000000, expected"),
        ("config", "model", "num_scales", 40, "num_scales is 40, expected at most 12"),
        ("config", "model", "latent_dim", 10**9, "expected at most 4096"),
        ("config", "data", "eval_size", 10**8, "eval_size is 100000000, expected at"),
    ],
)
def test_absurd_numbers(path, tmp_path, asset, section, name, value, message):
    copy = shutil.copytree(path, tmp_path / "m")
    file = copy / "assets" / f"{asset}.json"
    content = json.loads(file.read_text())
    (content[section] if section else content)[name] = value
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        saved_model.load(copy)
    assert str(caught.value).startswith(f"{file}: ")


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
