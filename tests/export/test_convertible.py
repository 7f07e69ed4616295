"""Models for converters: from runs, and from SavedModels with other weights or none."""

import numpy as np
import pytest
from helpers import run_dirs
from helpers.saved_models import levels, save
from helpers.threshold_model import save_threshold_model

from tf_probunet.dataset import records
from tf_probunet.export import convertible, export


@pytest.fixture(scope="module")
def made(tmp_path_factory, phantom_dir):
    """A model, its run and its SavedModel."""
    path = tmp_path_factory.mktemp("made")
    model = run_dirs.make_run(path / "run", phantom_dir)
    export.export_run(path / "run", path / "saved")
    return model, path / "run", path / "saved"


def test_a_saved_model_has_the_weights_and_settings_of_its_run(made):
    model, run_dir, saved = made
    for source in (convertible.load(run_dir), convertible.load(saved_model=saved)):
        for found, expected in zip(source.model.get_weights(), model.get_weights()):
            np.testing.assert_array_equal(found, expected)
        assert source.eval_size == 16
        assert source.size(0) == 16 and source.size(8) == 8
        assert source.config["data"]["crop_size"] == 16


def test_other_weights_are_not_taken_for_the_models(made, monkeypatch):
    _, _, saved = made
    build = convertible.export.models.build

    def shuffled(config):
        built = build(config)
        weights = built.trainable_variables
        same = [w for w in weights if w.shape == weights[2].shape]
        order = [*same[1:], same[0]]
        places = {id(w): order[i] for i, w in enumerate(same)}
        replaced = [places.get(id(w), w) for w in weights]
        monkeypatch.setattr(type(built), "trainable_variables", replaced)
        return built

    monkeypatch.setattr(convertible.export.models, "build", shuffled)
    with pytest.raises(ValueError, match="saved: this version builds another network"):
        convertible.load(saved_model=saved)


def test_what_cannot_be_converted_is_named(tmp_path, made, phantom_dir):
    _, run_dir, saved = made
    for given in ({}, {"run_dir": run_dir, "saved_model": saved}):
        with pytest.raises(ValueError, match="expected either --run_dir or --saved_mo"):
            convertible.load(**given)
    with pytest.raises(FileNotFoundError, match="no such directory, expected a Saved"):
        convertible.load(saved_model=tmp_path / "no")
    info = records.read_info(phantom_dir)
    without = save(tmp_path / "without", levels, info)
    with pytest.raises(ValueError, match="without: the model is 'made_up', expected o"):
        convertible.load(saved_model=without)
    other = save_threshold_model(tmp_path / "other")
    with pytest.raises(
        ValueError, match="other: has .* weights that do not fit the network of"
    ):
        convertible.load(saved_model=other)
    source = convertible.load(saved_model=saved)
    with pytest.raises(ValueError, match="image_size is 7, expected a multiple of 2"):
        source.size(7)


def test_a_mixture_prior_can_not_be_converted():
    with pytest.raises(ValueError, match="the prior is a mixture of 2 Gaussians"):
        convertible.check_latents(run_dirs.tiny_model(prior_components=2))


def test_two_formats_of_one_name_do_not_collide(tmp_path):
    for name in ("model.tflite", "model.onnx"):
        suffix = name[name.index(".") :]
        path = convertible.check_target(tmp_path / name, suffix, overwrite=False)
        convertible.write(path, b"content", {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["model.json", "model.onnx", "model.onnx.json", "model.tflite"]
    with pytest.raises(ValueError, match="model.onnx: exists already; --overwrite"):
        convertible.check_target(tmp_path / "model.onnx", ".onnx", overwrite=False)
