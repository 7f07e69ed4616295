"""Uploaded files become the hypotheses that `run/predict.py` would draw."""

import base64
import io
import json
import time

import numpy as np
import PIL.Image
import pytest
from helpers import dicom_writer

from tf_probunet import limits, metrics
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.predict.config import PredictConfig
from tf_probunet.predict.prediction import predict_image
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.serve.config import ServeConfig
from tf_probunet.serve.service import Service


@pytest.fixture(scope="module")
def service(ct_model):
    made = Service(ct_model, ServeConfig(max_samples=40))
    yield made
    made.close()


@pytest.fixture(scope="module")
def picture_service(picture_model):
    made = Service(picture_model, ServeConfig())
    yield made
    made.close()


def _ask(service, content, **parameters):
    texts = {name: str(value) for name, value in parameters.items()}
    answer = service.answer(content, texts, time.monotonic() + 60)
    assert answer.media_type == "application/json"
    return json.loads(answer.content)


def _label_maps(answer):
    """Decodes the label maps [K, H, W] of an answer."""
    pngs = (base64.b64decode(h["png"]) for h in answer["hypotheses"])
    return np.stack([np.array(PIL.Image.open(io.BytesIO(png))) for png in pngs])


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_hypotheses_are_the_weighted_samples_of_predict(
    service, ct_model, upload, tmp_path
):
    (tmp_path / "x.npy").write_bytes(upload)
    (image,) = read_inputs([str(tmp_path / "x.npy")], CropConfig())
    config = PredictConfig(num_samples=20, seed=5)
    expected = predict_image(image, ct_model, CropConfig(), config)
    chosen = metrics.representatives(expected.labels, 3)
    answer = _ask(service, upload, num_samples=20, seed=5, hypotheses=3)
    assert len(answer["hypotheses"]) == 3
    np.testing.assert_array_equal(_label_maps(answer), expected.labels[chosen.indices])
    weights = [h["probability"] for h in answer["hypotheses"]]
    np.testing.assert_allclose(weights, chosen.weights)
    assert sum(weights) == pytest.approx(1)
    first = answer["hypotheses"][0]
    assert first["areas"]["lesion"]["pixels"] == _label_maps(answer)[0].sum() > 0
    assert answer["explained"] == pytest.approx(chosen.explained)
    assert answer["presence_probability"] == 1.0
    assert answer["class_names"] == ["background", "lesion"]
    assert (answer["shape"], answer["num_samples"], answer["seed"]) == ([16, 16], 20, 5)


def test_the_shipped_model_answers_as_predict_does(shipped_model, tmp_path):
    values = np.random.default_rng(0).integers(0, 256, [64, 64]).astype(np.uint8)
    np.save(tmp_path / "x.npy", values)
    (image,) = read_inputs([str(tmp_path / "x.npy")], CropConfig())
    config = PredictConfig(num_samples=8, seed=5, hypotheses=3)
    expected = predict_image(image, shipped_model, CropConfig(), config)
    service = Service(shipped_model, ServeConfig())
    answer = _ask(service, _npy(values), num_samples=8, seed=5, hypotheses=3)
    service.close()
    chosen = [one.sample for one in expected.hypotheses.found]
    np.testing.assert_array_equal(_label_maps(answer), expected.labels[chosen])


def test_npz_holds_the_same_and_the_maps(service, upload):
    expected = _ask(service, upload, seed=2)
    answer = service.answer(
        upload, {"format": "npz", "seed": "2"}, time.monotonic() + 60
    )
    assert answer.media_type == "application/x-npz"
    with np.load(io.BytesIO(answer.content)) as arrays:
        np.testing.assert_array_equal(arrays["labels"], _label_maps(expected))
        weights = [h["probability"] for h in expected["hypotheses"]]
        np.testing.assert_array_equal(arrays["probabilities"], weights)
        assert arrays["mean"].shape == (16, 16, 2)
        np.testing.assert_allclose(arrays["mean"].sum(-1), 1, atol=1e-5)
        entropy = -np.sum(arrays["mean"] * np.log(arrays["mean"].clip(1e-30)), -1)
        np.testing.assert_allclose(arrays["entropy"], entropy, atol=1e-5)
        summary = json.loads(str(arrays["summary"]))
    for hypothesis in expected["hypotheses"]:
        del hypothesis["png"]
    assert summary == expected


def test_a_dicom_file_gives_what_its_values_give(service, scan, tmp_path):
    values = scan.round()
    path = dicom_writer.write_slice(tmp_path / "x.dcm", values, z_mm=0, uid="1.2.3")
    found = _ask(service, path.read_bytes())
    np.testing.assert_array_equal(
        _label_maps(found), _label_maps(_ask(service, _npy(values)))
    )
    area = found["hypotheses"][0]["areas"]["lesion"]
    assert area["mm2"] == 0.25 * area["pixels"]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_picture_gives_what_its_values_give(picture_service, kind):
    values = np.tile(np.arange(16, dtype=np.uint8) * 16, (16, 1))
    buffer = io.BytesIO()
    PIL.Image.fromarray(values).save(buffer, kind)
    found = _ask(picture_service, buffer.getvalue())
    expected = _ask(picture_service, _npy(values))
    np.testing.assert_array_equal(_label_maps(found), _label_maps(expected))


def test_a_part_of_a_larger_image(service):
    image = np.zeros([40, 56], np.float32)
    image[8:16, 24:32] = 400
    answer = _ask(service, _npy(image), region="0,16,24,24")
    assert answer["shape"] == [40, 56]
    marked = _label_maps(answer)[0].astype(bool)
    np.testing.assert_array_equal(marked, image == 400)


def _refusal(service, content, **parameters):
    with pytest.raises(ValueError) as raised:
        _ask(service, content, **parameters)
    message = str(raised.value)
    assert "/tmp" not in message and "--" not in message
    return message


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"samples": 3}, "unknown parameter 'samples', expected one of slice, region"),
        (
            {"num_samples": 41},
            "num_samples is '41', expected a whole number from 1 to 40",
        ),
        ({"num_samples": "9" * 5000}, "num_samples is '99999"),
        ({"hypotheses": 0}, "hypotheses is '0', expected a whole number from 1 to 16"),
        ({"seed": "x"}, "seed is 'x', expected a whole number"),
        ({"format": "xml"}, "format is 'xml', expected one of json, npz"),
        ({"pad": "maybe"}, "pad is 'maybe', expected true or false"),
        ({"center": "0,8,8"}, "center is '0,8,8', expected row,col"),
        ({"region": "1,2"}, "region is '1,2', expected 4 whole numbers"),
        (
            {"region": "0,0,9,9"},
            "image: 9x9 pixels, but the model needs multiples of 8",
        ),
    ],
)
def test_bad_parameters_are_named(service, upload, parameters, words):
    assert words in _refusal(service, upload, **parameters)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "image: of an unknown kind, expected DICOM, PNG, TIFF, JPEG or NumPy"),
        (b"<html>" * 99, "image: of an unknown kind"),
        (b"\x89PNG\r\n\x1a\nrubbish", "image: expected a PNG, TIFF, JPEG or BMP"),
        (b"\0" * 128 + b"DICM" + b"\xff" * 99, "image"),
        (_npy(np.zeros([3, 16, 16])), "image: holds 3 images, slice chooses one"),
        (_npy(np.full([16, 16], np.nan)), "image: 256 values are NaN or infinite"),
        (_npy(np.array(["x"])), "image: expected an NPY file of numbers"),
        (
            _npy(np.zeros([16, 16, 3])[..., :2]),
            "image: has 2 channels, but the model in",
        ),
    ],
    ids=["empty", "html", "png", "dicom", "stack", "nan", "text", "channels"],
)
def test_bad_images_are_named(service, content, words):
    assert words in _refusal(service, content)


def test_an_image_over_the_limit_is_refused(service, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", 64 * 64 * 100)
    message = _refusal(service, _npy(np.zeros([64, 64], np.float32)))
    assert "image: 40 samples of 64x64 pixels would take" in message
    assert message.endswith("give a smaller image, or fewer num_samples")


def test_a_deadline_that_has_passed(service, upload):
    with pytest.raises(TimeoutError):
        service.answer(upload, {}, time.monotonic() - 1)


def test_warming_up_finds_a_model_that_fails(ct_model, monkeypatch):
    def fails(self, function, *tensors, about):
        raise ValueError(f"{about}: {function} fails")

    service = Service(ct_model, ServeConfig())
    service.warm_up()
    monkeypatch.setattr(type(ct_model), "call", fails)
    with pytest.raises(ValueError, match="warm-up: prior fails"):
        service.warm_up()
    service.close()
