from __future__ import annotations

import numpy as np
import pytest

from tf_probunet.evaluation.metrics import checks

MASKS = np.zeros((3, 2, 4, 5), np.uint8)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.int64, np.float32])
def test_any_number_type_of_zeros_and_ones_is_the_same_mask(dtype):
    masks = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(dtype)
    checked = checks.binary_masks(masks, "samples")
    assert checked.dtype == np.uint8
    np.testing.assert_array_equal(checked, masks.astype(int))


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan, np.inf])
def test_other_values_are_errors_that_say_where(value):
    masks = MASKS.astype(np.float64)
    masks[1, 1, 2, 3] = value
    message = rf"^samples hold {value}(\.0)? in image 1 of the batch; expected only 0"
    with pytest.raises(checks.MaskError, match=message) as caught:
        checks.binary_masks(masks, "samples")
    assert caught.value.image == 1


@pytest.mark.parametrize("shape", [(4, 5), (0, 4, 5), (2, 0, 5), (1, 2, 3, 4, 5)])
def test_other_shapes_are_errors(shape):
    with pytest.raises(ValueError, match=r"graders have shape .* expected \[masks"):
        checks.binary_masks(np.zeros(shape, np.uint8), "graders")


def test_text_is_an_error():
    with pytest.raises(ValueError, match="samples are <U1; expected numbers"):
        checks.binary_masks(np.full((1, 2, 2), "1"), "samples")


def test_label_maps_allow_the_ignored_label_only_where_it_is_named():
    maps = np.array([[[0, 3, 255]]])
    checks.label_maps(maps, "graders", num_classes=4, ignore=255)
    with pytest.raises(ValueError, match="graders hold 255; expected labels 0 to 3$"):
        checks.label_maps(maps, "graders", num_classes=4)
    with pytest.raises(ValueError, match="hold 3; expected labels 0 to 2 or 255"):
        checks.label_maps(maps, "graders", num_classes=3, ignore=255)
    with pytest.raises(ValueError, match="float64; expected integer labels"):
        checks.label_maps(maps.astype(float), "graders", num_classes=4)


def test_unequal_sizes_are_errors():
    with pytest.raises(ValueError, match=r"\(3, 2, 4, 5\) and graders \(3, 2, 4, 6\)"):
        checks.same_pixels(MASKS, np.zeros((3, 2, 4, 6)), ("samples", "graders"))
    with pytest.raises(ValueError, match="same number of images"):
        checks.same_pixels(MASKS, np.zeros((2, 2, 4, 5)), ("samples", "graders"))
    with pytest.raises(ValueError, match="same number of images"):
        checks.same_pixels(MASKS, np.zeros((2, 4, 5)), ("samples", "graders"))


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_probabilities_lie_between_0_and_1(value):
    with pytest.raises(ValueError, match="expected values in"):
        checks.probabilities(np.full((1, 2, 2), value), "samples")


@pytest.mark.parametrize("weights", [[0.5, 0.4], [1.5, -0.5], [np.nan, 1.0], [1.0]])
def test_weights_are_probabilities(weights):
    with pytest.raises(ValueError, match="weights"):
        checks.mode_weights(np.array(weights), (2,))


def test_shared_weights_are_broadcast_and_bad_ones_located():
    shared = checks.mode_weights(np.array([0.25, 0.75]), (3, 2))
    np.testing.assert_array_equal(shared, [[0.25, 0.75]] * 3)
    with pytest.raises(checks.MaskError) as caught:
        checks.mode_weights(np.array([[0.5, 0.5], [0.5, 0.6]]), (2, 2))
    assert caught.value.image == 1


def test_naming_puts_the_key_first():
    bad = MASKS.copy()
    bad[2, 0, 0, 0] = 7
    with pytest.raises(ValueError, match="^patient-9/slice-4: samples hold 7"):
        with checks.naming("patient-9/slice-4"):
            checks.binary_masks(bad[2], "samples")
    with pytest.raises(ValueError, match="^c: samples hold 7"):
        with checks.naming(["a", "b", "c"]):
            checks.binary_masks(bad, "samples")
    with pytest.raises(ValueError, match="^a to c: samples have shape"):
        with checks.naming(["a", "b", "c"]):
            checks.binary_masks(bad[:, :0], "samples")


def test_naming_leaves_other_errors_alone():
    with pytest.raises(KeyError):
        with checks.naming("key"):
            raise KeyError("other")
