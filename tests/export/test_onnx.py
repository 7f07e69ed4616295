"""ONNX files in ONNX Runtime against the SavedModel's functions."""

import dataclasses
import json
import sys

import numpy as np
import pytest
from helpers import run_dirs

from tf_probunet.export import convertible, export, onnx

pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory, phantom_dir):
    """A run and its SavedModel."""
    path = tmp_path_factory.mktemp("made")
    run_dirs.make_run(path / "run", phantom_dir)
    export.export_run(path / "run", path / "saved")
    return path / "run", path / "saved"


def test_a_saved_model_as_onnx_samples_the_same(tmp_path, made):
    _, saved = made
    path = tmp_path / "model.onnx"
    difference = onnx.export_onnx(None, path, saved_model=saved, image_size=8)
    assert 0 < difference <= onnx.TOLERANCE
    session = onnx.run_session(path.read_bytes())
    assert {i.name for i in session.get_inputs()} == {"image", "noise"}
    image = run_dirs.images(1, 8, 8, 1, seed=9)
    for count in (1, 7):
        noise = np.random.default_rng(count).normal(size=(1, count, 2))
        feeds = {"image": image, "noise": noise.astype(np.float32)}
        expected = convertible.load(saved_model=saved).sample(**feeds)
        for name, found in zip(expected, session.run(list(expected), feeds)):
            np.testing.assert_allclose(found, expected[name], atol=onnx.TOLERANCE)
    description = json.loads((tmp_path / "model.onnx.json").read_text())
    assert description["inputs"] == {"image": [1, 8, 8, 1], "noise": [1, None, 2]}
    assert description["opset"] == 17
    assert description["difference"] == difference


@pytest.mark.parametrize(
    "changes",
    [{"num_classes": 3}, {"name": "image2image_vae"}, {"average_symmetries": True}],
)
def test_other_networks_are_converted_too(changes):
    source = _source(run_dirs.tiny_model(**changes))
    assert onnx.compare(onnx.convert(source.model, 8), source, 8) <= onnx.TOLERANCE


def _source(model):
    functions = convertible.Signatures(model).functions()
    return convertible.Convertible(model, functions, {}, {}, None)


def test_an_output_that_is_an_input_has_its_own_name():
    helper = pytest.importorskip("onnx").helper
    noise = helper.make_tensor_value_info("main_noise:0", 1, [1, 2, 3])
    graph = helper.make_graph([], "graph", [noise], [noise])
    onnx._rename(graph)
    opsets = [helper.make_opsetid("", onnx.OPSET)]
    # The newest onnx writes files that are too new for the newest ONNX Runtime.
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnx.run_session(model.SerializeToString())
    given = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(session.run(["z"], {"noise": given})[0], given)


def test_a_conversion_that_differs_is_not_written(tmp_path, made, monkeypatch):
    run_dir, _ = made
    load = convertible.load

    def changed(*args, **kwargs):
        source = load(*args, **kwargs)
        other = convertible.Signatures(run_dirs.tiny_model(num_scales=1)).functions()
        return dataclasses.replace(source, functions=other)

    monkeypatch.setattr(convertible, "load", changed)
    with pytest.raises(ValueError, match="model.onnx: not written, .* at most 1e-05"):
        onnx.export_onnx(run_dir, tmp_path / "model.onnx", image_size=8)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'tf_probunet\[onnx\]'"):
        onnx.export_onnx(tmp_path, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="expected a name that ends in .onnx"):
        onnx.export_onnx(tmp_path, tmp_path / "model.tflite")
