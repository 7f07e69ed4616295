"""What loaded SavedModels compute: in Python, by signature, as docs/serving.md says."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_dirs, serving_json

from tf_probunet.export.signatures import Signatures
from tf_probunet.training.run_dir import RunDir

IMAGE = run_dirs.images(2, 8, 6, 1)
LABELS = np.random.default_rng(1).integers(0, 2, (2, 8, 6), np.int32)
Z = np.random.default_rng(2).normal(size=(2, 3, 2)).astype(np.float32)
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"

CALLS = {
    "sample": {"image": IMAGE, "num_samples": 4, "seed": [5, 6]},
    "mean": {"image": IMAGE, "num_samples": 4, "seed": 5},
    "prior": {"image": IMAGE},
    "posterior": {"image": IMAGE, "labels": LABELS},
    "decode": {"image": IMAGE, "z": Z},
    "features": {"image": IMAGE},
    "log_likelihood": {
        "image": IMAGE,
        "labels": LABELS,
        "num_samples": 4,
        "seed": [5, 6],
    },
}


@pytest.fixture(scope="module")
def functions(run):
    """The functions before they are made graphs, of the weights in the checkpoint."""
    graphs = Signatures(RunDir(run).load_model()).functions()
    return {name: graph.python_function for name, graph in graphs.items()}


def _assert_close(outputs, expected):
    assert sorted(outputs) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", CALLS)
def test_loaded_functions_and_signatures_compute_what_the_model_does(
    loaded, functions, name
):
    expected = functions[name](**CALLS[name])
    _assert_close(getattr(loaded, name)(**CALLS[name]), expected)
    signature = loaded.signatures["serving_default" if name == "sample" else name]
    tensors = {k: tf.constant(v) for k, v in CALLS[name].items()}
    _assert_close(signature(**tensors), expected)


def test_the_exported_weights_are_the_checkpoints(loaded):
    expected = run_dirs.tiny_model().trainable_variables
    assert len(loaded.weights) == len(expected)
    for weights, variable in zip(loaded.weights, expected):
        np.testing.assert_array_equal(weights, variable)


def test_number_and_seed_are_optional_in_python(loaded):
    expected = loaded.sample(IMAGE, 16, 0)
    _assert_close(loaded.sample(IMAGE), expected)
    assert np.abs(loaded.sample(IMAGE, 16, 1)["labels"] - expected["labels"]).any()


def test_bad_inputs_are_still_named_after_loading(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="nearest are 6 x 6 and"):
        loaded.sample(IMAGE[:, :7])


@pytest.fixture(scope="module")
def without_package(saved_model, tmp_path_factory):
    """What a process that can't import the package computes of `IMAGE`."""
    code = """
import sys
sys.modules["tf_probunet"] = None
import numpy as np, tensorflow as tf
from tensorflow.python.tools import saved_model_cli
path, directory = sys.argv[1:]
loaded = tf.saved_model.load(path)
outputs = loaded.sample(np.load(directory + "/image.npy"), 4, [5, 6])
np.savez(directory + "/loaded.npz", **{k: v.numpy() for k, v in outputs.items()})
try:
    import tf_probunet
except ImportError:
    print("no such package")
sys.argv = ["saved_model_cli", "run", "--dir", path, "--tag_set", "serve"]
sys.argv += ["--signature_def", "serving_default", "--outdir", directory]
sys.argv += ["--inputs", f"image={directory}/image.npy"]
saved_model_cli.main()
"""
    directory = tmp_path_factory.mktemp("without_package")
    np.save(directory / "image.npy", IMAGE)
    command = [sys.executable, "-c", code, str(saved_model), str(directory)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.startswith("no such package")
    return directory


def test_loads_and_samples_alike_in_another_process(without_package, loaded):
    outputs = dict(np.load(without_package / "loaded.npz"))
    _assert_close(outputs, loaded.sample(IMAGE, 4, [5, 6]))


def test_saved_model_cli_runs_the_serving_graph_on_an_image_alone(
    without_package, loaded
):
    names = ("labels", "probabilities")
    outputs = {name: np.load(without_package / f"{name}.npy") for name in names}
    _assert_close(outputs, loaded.sample(IMAGE))


def _documented_json():
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    return [json.loads(block) for block in blocks]


def _arrays(response):
    """Returns the outputs by name, whichever format they came in."""
    if "outputs" in response:
        return {k: np.array(v) for k, v in response["outputs"].items()}
    rows = response["predictions"]
    return {k: np.array([row[k] for row in rows]) for k in rows[0]}


def test_documented_rest_requests_get_the_documented_responses(loaded):
    documented = _documented_json()
    assert len(documented) == 4
    for request, expected in zip(documented[::2], documented[1::2]):
        response = json.loads(serving_json.predict(loaded, json.dumps(request)))
        assert sorted(response) == sorted(expected)
        for name, values in _arrays(expected).items():
            np.testing.assert_allclose(_arrays(response)[name], values, atol=1e-4)


def test_rest_requests_must_name_all_inputs(loaded):
    request = _documented_json()[0]
    del request["inputs"]["seed"]
    with pytest.raises(ValueError, match="got the inputs"):
        serving_json.predict(loaded, json.dumps(request))
