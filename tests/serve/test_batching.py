"""Calls that wait together are joined, and none suffers from the others."""

import concurrent.futures
import dataclasses
import threading
import time

import numpy as np
import pytest

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.serve import batching
from tf_probunet.serve.batching import Batcher


@dataclasses.dataclass(frozen=True)
class _Doubling(LoadedModel):
    """Doubles images once `free` is set; refuses batches with a NaN."""

    free: threading.Event
    sizes: list

    def call(self, function, *tensors, about):
        image = tensors[0]
        self.sizes.append(len(image))
        assert self.free.wait(60)
        if np.isnan(image).any():
            raise ValueError(f"{about}: not a number")
        return {"doubled": 2 * image, "function": np.full(len(image), function)}


@pytest.fixture
def model(ct_model):
    fields = dataclasses.fields(ct_model)
    values = {field.name: getattr(ct_model, field.name) for field in fields}
    return _Doubling(**values, free=threading.Event(), sizes=[])


def _image(value, side=8):
    return np.full([1, side, side, 1], value, np.float32)


def _start(batcher, threads, images, model):
    """Calls `prior` of all images: the first alone, the others while it runs."""
    request = batcher.model(time.monotonic() + 60)
    started = []
    for i, image in enumerate(images):
        started.append(threads.submit(request.call, "prior", image, about=f"image {i}"))
        while not model.sizes:
            time.sleep(0.001)
        while len(batcher._waiting) < i:
            time.sleep(0.001)
    return started


def _run(model, images, max_batch=8):
    batcher = Batcher(model, max_batch)
    with concurrent.futures.ThreadPoolExecutor(len(images)) as threads:
        started = _start(batcher, threads, images, model)
        model.free.set()
        concurrent.futures.wait(started)
    batcher.close()
    return started


def test_waiting_calls_of_one_size_are_joined(model):
    images = [_image(v) for v in range(4)] + [_image(4, side=16)]
    found = _run(model, images)
    assert model.sizes == [1, 3, 1]
    for image, result in zip(images, found):
        np.testing.assert_array_equal(result.result()["doubled"], 2 * image)


def test_batches_are_bounded_in_images_and_pixels(model, monkeypatch):
    _run(model, [_image(v) for v in range(6)], max_batch=3)
    assert model.sizes == [1, 3, 2]
    model.sizes.clear()
    model.free.clear()
    monkeypatch.setattr(batching, "_MAX_PIXELS", 2 * 8 * 8)
    _run(model, [_image(v) for v in range(6)])
    assert model.sizes == [1, 2, 2, 1]


def test_a_bad_image_fails_alone(model):
    images = [_image(0), _image(1), _image(np.nan), _image(3)]
    found = _run(model, images)
    with pytest.raises(ValueError, match="image 2: not a number"):
        found[2].result()
    for i in (0, 1, 3):
        np.testing.assert_array_equal(found[i].result()["doubled"], 2 * images[i])


def test_what_is_late_is_not_computed(model):
    batcher = Batcher(model, 8)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        (first,) = _start(batcher, threads, [_image(0)], model)
        late = batcher.model(time.monotonic() + 0.05)
        with pytest.raises(TimeoutError):
            late.call("prior", _image(1), about="late")
        model.free.set()
        first.result()
    batcher.close()
    assert model.sizes == [1]
    with pytest.raises(TimeoutError, match="the service is stopping"):
        late.call("prior", _image(1), about="late")


@pytest.mark.parametrize(
    ("kind", "function", "side"),
    [
        ("ct_model", "sample", 8),
        ("picture_model", "sample", 8),
        ("shipped_model", "stratified_latents", 32),
        ("shipped_model", "stratified", 32),
    ],
)
def test_samples_do_not_depend_on_the_batch(kind, function, side, request):
    model = request.getfixturevalue(kind)
    images = np.random.default_rng(0).random([4, 1, side, side, 1], np.float32)
    calls = [
        batching._Call(function, (image, 5, [seed]), "x")
        for seed, image in enumerate(images)
    ]
    assert len({call.key for call in calls}) == 1
    assert calls[0].key != batching._Call(function, (images[0], 6, [0]), "x").key
    joined = model.call(function, *batching._joined(calls), about="x")
    for seed, image in enumerate(images):
        alone = model.call(function, image, 5, [seed], about="x")
        for name in joined:
            np.testing.assert_allclose(
                joined[name][seed : seed + 1], alone[name], atol=1e-5
            )
    assert calls[0].pixels == 5 * side * side


def test_a_call_that_makes_no_sense_fails_alone(model):
    batcher = Batcher(model, 8)
    request = batcher.model(time.monotonic() + 60)
    with pytest.raises(AttributeError):
        request.call("prior", 5, about="x")
    model.free.set()
    found = request.call("prior", _image(1), about="x")
    np.testing.assert_array_equal(found["doubled"], 2 * _image(1))
    batcher.close()
