"""A few weighted segmentations instead of many samples."""

from __future__ import annotations

import numpy as np
import pytest

import tf_probunet as pu


@pytest.fixture(scope="module")
def found(lidc, lesion):
    return lidc.hypotheses(lesion, 3, num_samples=64, seed=1)


def test_they_stand_for_the_samples(lidc, lesion, found):
    samples = lidc.sample(lesion, 64, seed=1, sampling="stratified")
    chosen = pu.representatives(samples, 3)
    np.testing.assert_array_equal(found.labels, samples[chosen.indices])
    np.testing.assert_allclose(found.weights, chosen.weights)
    assert len(found) == 3
    assert found.explained == pytest.approx(chosen.explained)
    assert found.explained > 0.8


def test_they_are_drawn_with_their_probabilities(found):
    figure = found.plot()
    assert len(figure.axes) == 1 + len(found)
    drawn = [axis.texts[0].get_text() for axis in figure.axes[1:]]
    assert drawn == [f"{weight:.0%}" for weight in found.weights]
    assert found._repr_png_().startswith(b"\x89PNG")


def test_they_read_as_a_line(found):
    first = f"{found.weights[0]:.0%} ({found.labels[0].sum()} pixels)"
    assert repr(found).startswith(f"Hypotheses({first}, ")
    assert repr(found).endswith("of the diversity of 64 samples)")


def test_a_batch_is_refused(lidc, lesion):
    with pytest.raises(ValueError, match=r"\(1, 128, 128, 1\); expected one image"):
        lidc.hypotheses(lesion[None, ..., None])
