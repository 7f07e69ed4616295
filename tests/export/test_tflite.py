"""TensorFlow Lite files against the decoding of the same latents by the model."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_dirs

from tf_probunet.export import export, tflite
from tf_probunet.export.signatures import Signatures

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:  # On Python 3.9, where TensorFlow has its own.
    Interpreter = tf.lite.Interpreter

IMAGE = run_dirs.images(1, 8, 8, 1)
NOISE = np.random.default_rng(3).normal(size=(1, 5, 2)).astype(np.float32)
# Two classes and latents at the end: see the test of the exported file.
CASES = {
    "three_classes": {"num_classes": 3},
    "latents_at_the_start": {"name": "image2image_vae"},
    "averaged_features": {"average_symmetries": True},
}


def _check(content, model, tolerance):
    """Compares all outputs with the SavedModel's functions, for two sample counts."""
    functions = Signatures(model).functions()
    prior = functions["prior"](IMAGE)
    run = Interpreter(model_content=content).get_signature_runner()
    for noise in (NOISE, NOISE[:, :2]):
        outputs = run(image=IMAGE, noise=noise)
        z = prior["mean"][:, None] + prior["stddev"][:, None] * noise
        expected = functions["decode"](IMAGE, z)
        np.testing.assert_allclose(outputs["z"], z, atol=tolerance)
        probabilities = expected["probabilities"].numpy()
        np.testing.assert_allclose(
            outputs["probabilities"], probabilities, atol=tolerance
        )
        # Labels may differ only where two classes are as good as equal.
        best = np.sort(probabilities, axis=-1)
        clear = best[..., -1] - best[..., -2] > 2 * tolerance
        same = outputs["labels"] == expected["labels"].numpy()
        assert same[clear].all()
        assert outputs["labels"].dtype == np.int32
        assert clear.mean() > 0.5


@pytest.mark.parametrize("case", CASES)
def test_same_latents_give_the_same_samples(case):
    model = run_dirs.tiny_model(**CASES[case])
    _check(tflite.convert(model, 8), model, 1e-5)


def test_half_the_bits_make_half_the_file():
    model = run_dirs.tiny_model(base_channels=24)
    whole, half = (tflite.convert(model, 8, float16=f) for f in (False, True))
    assert len(half) < 0.6 * len(whole)
    interpreter = Interpreter(model_content=half)
    outputs = interpreter.get_signature_runner()(image=IMAGE, noise=NOISE)
    expected = Interpreter(model_content=whole).get_signature_runner()(
        image=IMAGE, noise=NOISE
    )
    np.testing.assert_allclose(
        outputs["probabilities"], expected["probabilities"], atol=0.05
    )


def test_export_describes_the_file_and_overwrites_only_if_asked(tmp_path, phantom_dir):
    model = run_dirs.make_run(tmp_path / "run", phantom_dir)
    path = tmp_path / "model.tflite"
    tflite.export_tflite(tmp_path / "run", path, image_size=8)
    _check(path.read_bytes(), model, 1e-5)
    description = json.loads((tmp_path / "model.json").read_text())
    assert description["inputs"] == {"image": [1, 8, 8, 1], "noise": [1, None, 2]}
    assert description["dataset"]["class_names"] == ["background", "lesion"]
    assert description["config"]["data"]["window_high"] == 400.0
    with pytest.raises(ValueError, match="model.tflite: exists already; --overwrite"):
        tflite.export_tflite(tmp_path / "run", path)
    path.unlink()
    with pytest.raises(ValueError, match="model.json: exists already"):
        tflite.export_tflite(tmp_path / "run", path)
    tflite.export_tflite(tmp_path / "run", path, overwrite=True)
    description = json.loads((tmp_path / "model.json").read_text())
    assert description["inputs"]["image"] == [1, 16, 16, 1]  # The evaluation's size.
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["model.json", "model.tflite", "run"]


def test_what_cannot_be_converted_is_named(tmp_path, phantom_dir):
    with pytest.raises(ValueError, match="image_size is 7, expected a multiple of 2"):
        tflite.convert(run_dirs.tiny_model(), 7)
    with pytest.raises(ValueError, match="the model is 'unet', expected one with lat"):
        tflite.convert(run_dirs.tiny_model(name="unet"), 8)
    with pytest.raises(ValueError, match="expected a name that ends in .tflite"):
        tflite.export_tflite(tmp_path, tmp_path / "model.json")
    with pytest.raises(FileNotFoundError, match="nowhere: no such run directory"):
        tflite.export_tflite(tmp_path / "nowhere", tmp_path / "model.tflite")


def test_a_saved_model_is_converted_as_its_run_is(tmp_path, phantom_dir):
    model = run_dirs.make_run(tmp_path / "run", phantom_dir)
    export.export_run(tmp_path / "run", tmp_path / "saved")
    paths = tmp_path / "a.tflite", tmp_path / "b.tflite"
    tflite.export_tflite(tmp_path / "run", paths[0], image_size=8)
    tflite.export_tflite(None, paths[1], saved_model=tmp_path / "saved", image_size=8)
    _check(paths[1].read_bytes(), model, 1e-5)
    of_run, of_saved = (json.loads(p.with_suffix(".json").read_text()) for p in paths)
    assert of_saved["inputs"] == of_run["inputs"]
    assert of_saved["dataset"] == of_run["dataset"]
    for section in ("model", "data"):
        assert of_saved["config"][section] == of_run["config"][section]
