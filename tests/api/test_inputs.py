"""Which images a model takes, and how they become what the network sees."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from tf_probunet.api.inputs import Inputs
from tf_probunet.artifacts import saved_model
from tf_probunet.config import DataConfig


def _with(model: saved_model.LoadedModel, data=None, **dataset):
    """Returns the model as if it had been trained on other data."""
    return dataclasses.replace(
        model, data=data or model.data, dataset={**model.dataset, **dataset}
    )


@pytest.fixture(scope="module")
def loaded(lidc):
    return lidc._model


def test_the_network_sees_the_middle_and_maps_go_back_there(loaded, lesion):
    inputs = Inputs(lesion, loaded)
    assert inputs.seen.shape == (1, 64, 64, 1)
    np.testing.assert_array_equal(
        inputs.seen[0, ..., 0], (lesion[32:96, 32:96] / 255).astype(np.float32)
    )
    back = inputs.labels(np.ones([1, 3, 64, 64], np.int32))
    assert back.shape == (3, 128, 128)
    assert back.dtype == np.uint8
    assert back[:, 32:96, 32:96].all()
    assert back.sum() == 3 * 64 * 64
    probabilities = inputs.probabilities(np.full([1, 3, 64, 64, 2], 0.5, np.float32))
    np.testing.assert_array_equal(probabilities[0, 0, 0], [1, 0])
    np.testing.assert_array_equal(probabilities[0, 64, 64], [0.5, 0.5])


@pytest.mark.parametrize(
    "convert",
    [
        lambda image: image[..., None],
        lambda image: np.repeat(image[..., None], 3, axis=-1),
        lambda image: image / 255,
        lambda image: (image / 255).astype(np.float32),
        # The pictures that the model learned from were rescaled to their range.
        lambda image: image.astype(np.int16) * 3 - 1000,
    ],
    ids=["channel", "grey as RGB", "float64", "float32", "HU"],
)
def test_the_same_image_in_other_forms(loaded, lesion, convert):
    image = lesion.copy()
    image[0, 0], image[0, 1] = 0, 255
    expected, found = Inputs(image, loaded), Inputs(convert(image), loaded)
    np.testing.assert_allclose(found.frames, expected.frames, atol=1e-6)


def test_hounsfield_units_are_windowed(loaded):
    model = _with(loaded, intensity="hu", preparation={})
    image = np.array([[-1500, -1000], [-300, 900]]).repeat(32, 0).repeat(32, 1)
    found = Inputs(image, model).frames[0, ::32, ::32, 0]
    np.testing.assert_allclose(found, [[0, 0], [0.5, 1]])
    with pytest.raises(ValueError, match="8-bit values, but .* Hounsfield"):
        Inputs(np.zeros([64, 64], np.uint8), model)


def test_values_outside_of_the_range_are_refused(loaded):
    model = _with(loaded, preparation={})
    with pytest.raises(ValueError, match="image: .* from 0 to 255, .* expects 0 to 1"):
        Inputs(np.linspace(0, 255, 64 * 64).reshape(64, 64), model)
    with pytest.raises(ValueError, match="image 1 has values that are not finite"):
        Inputs(np.stack([np.zeros([64, 64, 1]), np.full([64, 64, 1], np.nan)]), loaded)
    with pytest.raises(ValueError, match="image holds bool, expected numbers"):
        Inputs(np.zeros([64, 64], bool), loaded)


def test_values_that_are_stretched_are_said(loaded, lesion):
    with pytest.warns(UserWarning, match="image: int64 values from 30 to 150 become 0"):
        Inputs(lesion.astype(np.int64), loaded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Inputs(lesion, loaded)
    units = _with(loaded, intensity="hu", preparation={})
    with pytest.warns(UserWarning, match="from 0.1.* to 0.5.* taken for Hounsfield"):
        Inputs(lesion / 255, units)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((512, 512), "512x512, but .* at most 128x128, .* in the middle"),
        ((48, 64), "48x64, but .* at least 64x64"),
        ((64,), r"shape \(64,\); expected \[H, W\]"),
        ((0, 64, 64, 1), r"shape \(0, 64, 64, 1\)"),
        ((64, 64, 2), "has 2 channels, but .* expects 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(loaded, shape, message):
    with pytest.raises(ValueError, match=message):
        Inputs(np.zeros(shape, np.uint8), loaded)


def test_a_model_of_whole_images_sees_others_with_a_mirrored_border(loaded):
    model = _with(loaded, data=DataConfig(crop_size=0, eval_size=0))
    whole = Inputs(np.zeros([32, 512], np.uint8), model)
    assert whole.seen.shape == (1, 32, 512, 1)
    whole.refuse_border()
    image = np.random.default_rng(0).integers(0, 256, [41, 32], np.uint8)
    inputs = Inputs(image, model)
    border = [(0, 0), (3, 4), (0, 0), (0, 0)]
    expected = np.pad(inputs.frames, border, mode="symmetric")
    np.testing.assert_array_equal(inputs.seen, expected)
    # What comes back has the size of the image.
    np.testing.assert_array_equal(
        inputs.maps(inputs.seen[..., 0]), inputs.frames[0, ..., 0]
    )
    twice = np.repeat(inputs.seen, 2, axis=-1)[:, None]
    np.testing.assert_array_equal(
        inputs.probabilities(twice)[0, ..., 1], inputs.frames[0, ..., 0]
    )
    with pytest.raises(ValueError, match="41x32, but the likelihood .* of 16"):
        inputs.refuse_border()


def test_seeds(loaded, lesion):
    batch = Inputs(np.stack([lesion] * 3)[..., None], loaded)
    assert batch.seeds(5) == [5, 6, 7]
    assert batch.seeds([9, 1, 4]) == [9, 1, 4]
    with pytest.raises(ValueError, match="seed is 1.7, expected whole numbers"):
        batch.seeds(1.7)
    with pytest.raises(ValueError, match="2 seeds for 3 images"):
        batch.seeds([1, 2])
    with pytest.raises(ValueError, match="seed is 2147483648, expected 32 bits"):
        batch.seeds(2**31 - 1)


def test_labels_are_cut_as_the_images_are(loaded, lesion):
    inputs = Inputs(lesion, loaded)
    labels = (lesion > 100).astype(int)
    np.testing.assert_array_equal(
        inputs.seen_labels(labels)[0, 0], labels[32:96, 32:96]
    )
    with pytest.raises(ValueError, match=r"\(64, 64\); expected \(128, 128\)"):
        inputs.seen_labels(labels[:64, :64])
