"""Tests of what SavedModels say about themselves, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest
import tensorflow as tf
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import checksums
from tf_probunet.artifacts.saved_model_dir import SavedModelDir, write_assets


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_threshold_model(tmp_path_factory.mktemp("saved") / "m", spacing_mm=0.5)


def test_says_what_it_was_trained_on(path):
    described = SavedModelDir(path).describe()
    assert described.size_divisor == 8
    assert described.spacing_mm == described.input_spacing_mm == 0.5
    assert described.class_names == ["background", "lesion"]
    assert described.has_background and not described.is_lidc
    assert described.camera_frame is None


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        SavedModelDir(tmp_path / "absent").describe()


def test_no_saved_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no saved_model\.pb"):
        SavedModelDir(tmp_path).describe()


def test_somebody_elses_saved_model(tmp_path):
    module = tf.Module()
    module.double = tf.function(
        lambda x: 2 * x, input_signature=[tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(module, str(tmp_path / "m"))
    with pytest.raises(
        ValueError, match="without assets/config.json, expected one wri"
    ):
        SavedModelDir(tmp_path / "m").describe()


def test_incomplete_assets(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    asset = copy / "assets" / "dataset.json"
    content = json.loads(asset.read_text())
    del content["intensity"], content["name"]
    asset.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"dataset\.json: lacks intensity, name$"):
        SavedModelDir(copy).describe()


def test_settings_of_another_version(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    asset = copy / "assets" / "config.json"
    content = json.loads(asset.read_text())
    content["training"] = {"from": "another version"}
    content["model"]["free_bits"] = 0.5  # A setting of an earlier version.
    asset.write_text(json.dumps(content))
    assert SavedModelDir(copy).describe().network.latent_dim == 1
    content["model"]["wings"] = 2
    asset.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"config\.json: does not fit this version"):
        SavedModelDir(copy).describe()


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
        SavedModelDir(copy).describe()
    assert str(caught.value).startswith(f"{file}: ")


def test_signatures_are_names(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "m")
    file = copy / "assets" / "metadata.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "signatures": ["prior", 3]}))
    with pytest.raises(ValueError, match=r"metadata\.json: signatures is not a list"):
        SavedModelDir(copy).describe()
    file.write_text(json.dumps({**content, "signatures": ["prior"]}))
    assert SavedModelDir(copy).describe().signatures == ["prior"]


def test_assets_are_written_where_they_are_read(tmp_path):
    objects = {"config": {"a": 1}, "dataset": {"b": 2}, "metadata": {"c": 3}}
    assets = SavedModelDir(tmp_path).asset("x").parent
    assets.mkdir()
    paths = write_assets(assets, **objects, card="# card\n", scores=None)
    names = ["README.md", "config.json", "dataset.json", "metadata.json"]
    assert [path.name for path in paths] == names
    for name, content in objects.items():
        file = SavedModelDir(tmp_path).asset(f"{name}.json")
        assert json.loads(file.read_text()) == content
    scores = {"model": {"fingerprint": "abc"}}
    paths = write_assets(assets, **objects, card="# card\n", scores=scores)
    assert json.loads(paths[-1].read_text()) == scores
    directory = SavedModelDir(tmp_path)
    assert directory.scored_fingerprints() == {"abc", checksums.fingerprint(tmp_path)}
