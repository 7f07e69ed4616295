"""Tests of tf_probunet.preparation.phantom."""

from __future__ import annotations

import itertools

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from helpers import datasets
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.config import PhantomConfig
from tf_probunet.dataset import records
from tf_probunet.preparation import phantom

_CONFIG = PhantomConfig(image_size=48, seed=11)
_NUM_EXAMPLES = 400


@pytest.fixture(scope="module")
def examples() -> list[records.Example]:
    return [phantom.draw_example(_CONFIG, "train", i) for i in range(_NUM_EXAMPLES)]


def test_same_arguments_same_example(examples):
    again = phantom.draw_example(_CONFIG, "train", 5)
    np.testing.assert_array_equal(again.image, examples[5].image)
    np.testing.assert_array_equal(again.labels, examples[5].labels)
    np.testing.assert_array_equal(again.modes, examples[5].modes)
    np.testing.assert_array_equal(again.mode_probs, examples[5].mode_probs)


def test_seed_split_and_index_change_the_example(examples):
    others = [
        phantom.draw_example(PhantomConfig(image_size=48, seed=12), "train", 5),
        phantom.draw_example(_CONFIG, "val", 5),
        phantom.draw_example(_CONFIG, "train", 6),
    ]
    images = {example.image.tobytes() for example in [*others, examples[5]]}
    assert len(images) == 4


def _free_probs(presence: float, halo: float) -> np.ndarray:
    """Mode probabilities of one grader drawn freely, from the description."""
    outlines = np.array(phantom.OUTLINE_PROBS)
    marked = np.concatenate([(1 - halo) * outlines, halo * outlines])
    return np.concatenate([[1 - presence], presence * marked])


@settings(max_examples=25)
@given(st.floats(0.05, 0.999), st.floats(0.01, 0.99))
def test_probs_given_marked_against_enumeration(presence, halo):
    # Three modes suffice: nothing, and two that share the rest.
    probs = np.array([1 - presence, presence * halo, presence * (1 - halo)])
    expected = np.zeros(3)
    total = 0.0
    for graders in itertools.product(range(3), repeat=phantom.NUM_GRADERS):
        if not any(graders):
            continue
        weight = np.prod(probs[list(graders)])
        total += weight
        expected[graders[0]] += weight
    np.testing.assert_allclose(
        phantom.probs_given_marked(probs), expected / total, rtol=1e-9
    )


def test_stored_probabilities_are_those_of_the_description(examples):
    # Presence and halo follow from the stored numbers; the others must fit to them.
    for example in examples[:50]:
        probs = example.mode_probs
        halo = probs[4:].sum() / probs[1:].sum()
        assert 0.1 <= halo <= 0.9
        # P(nothing | marked) grows with q = 1 - presence: find q by bisection.
        low, high = 0.0, 0.7
        for _ in range(60):
            q = (low + high) / 2
            larger = phantom.probs_given_marked(_free_probs(1 - q, halo))[0] > probs[0]
            low, high = (low, q) if larger else (q, high)
        expected = phantom.probs_given_marked(_free_probs(1 - q, halo))
        np.testing.assert_allclose(probs, expected, atol=1e-9)
        assert probs.sum() == pytest.approx(1, abs=1e-12)


def test_at_least_one_grader_marks_the_lesion(examples):
    assert all(example.labels.any() for example in examples)
    smaller = PhantomConfig(image_size=32)
    drawn = (phantom.draw_example(smaller, "test", i) for i in range(200))
    assert all(example.labels.any() for example in drawn)


def test_up_to_three_graders_mark_nothing(examples):
    empty = [sum(not m.any() for m in example.labels) for example in examples]
    assert set(empty) == {0, 1, 2, 3}


def test_modes_are_nested(examples):
    for example in examples[:100]:
        assert not example.modes[0].any()
        core, with_halo = example.modes[1:4], example.modes[4:]
        for tight, wide in (
            (core[0], core[1]),
            (core[1], core[2]),
            (with_halo[0], with_halo[1]),
            (with_halo[1], with_halo[2]),
            *zip(core, with_halo),
        ):
            assert (tight <= wide).all()
            assert 0 < tight.sum() < wide.sum()


def test_labels_are_modes(examples):
    for example in examples:
        modes = {mode.tobytes() for mode in example.modes}
        assert all(label.tobytes() in modes for label in example.labels)


def test_graders_follow_the_stored_probabilities(examples):
    observed, expected, variance = np.zeros((3, phantom.NUM_MODES))
    used = 0
    for example in examples:
        if len({mode.tobytes() for mode in example.modes}) < phantom.NUM_MODES:
            continue  # two modes look alike: which was drawn can't be told
        used += 1
        p = example.mode_probs
        drawn = (example.labels[:, None] == example.modes).all(axis=(2, 3))  # [G, M]
        observed += drawn.sum(axis=0)
        expected += phantom.NUM_GRADERS * p
        variance += phantom.NUM_GRADERS * p * (1 - p)
    assert used > 0.9 * len(examples)
    assert observed.sum() == phantom.NUM_GRADERS * used
    # Graders of an image are almost independent: given that one at least marks the
    # lesion, those that do not are a little fewer than binomial.
    assert (np.abs(observed - expected) / np.sqrt(variance)).max() < 4.5


def test_presence_is_calibrated_where_it_is_doubtful(examples):
    probs = np.array([example.mode_probs[0] for example in examples])
    empty = np.array([(~e.labels.any(axis=(1, 2))).mean() for e in examples])
    for low, high in ((0.0, 0.15), (0.15, 0.35), (0.35, 0.7)):
        chosen = (probs >= low) & (probs < high)
        error = np.sqrt((probs * (1 - probs))[chosen].sum() / 4) / chosen.sum()
        assert chosen.sum() > 40
        assert abs(empty[chosen].mean() - probs[chosen].mean()) < 4.5 * error


def test_presence_can_be_read_off_the_contrast(examples):
    probs = [example.mode_probs[0] for example in examples]
    core = [e.image[..., 0][e.modes[1] == 1].mean() for e in examples]
    assert np.corrcoef(core, probs)[0, 1] < -0.9


def test_halo_can_be_read_off_its_brightness(examples):
    probs = [e.mode_probs[4:].sum() / e.mode_probs[1:].sum() for e in examples]
    halo = [
        np.median(e.image[..., 0][(e.modes[5] == 1) & (e.modes[3] == 0)])
        for e in examples
    ]
    assert np.corrcoef(halo, probs)[0, 1] > 0.85


def test_background_looks_like_lung(examples):
    for example in examples[:20]:
        outside = example.image[..., 0][example.modes[-1] == 0]
        assert -900 < np.median(outside) < -700
        assert example.image.dtype == np.int16


def test_prepared_data_set_holds_the_examples(phantom_dir):
    info = records.read_info(phantom_dir)
    assert {name: split["count"] for name, split in info.splits.items()} == {
        "train": 24,
        "val": 8,
        "test": 8,
    }
    spec = info.spec
    config = PhantomConfig(**spec.preparation)
    serialized = next(iter(tf.data.TFRecordDataset(info.shard_paths("val"))))
    parsed = records.parse(serialized, spec)
    index = int(parsed["key"].numpy().decode().split("-")[1])
    expected = phantom.draw_example(config, "val", index)
    image = records.decode_image(parsed["image"], spec).numpy()
    np.testing.assert_array_equal(image, expected.image)
    labels = records.decode_all_labels(parsed["labels"], spec).numpy()
    np.testing.assert_array_equal(labels, expected.labels)
    modes = records.decode_all_labels(parsed["modes"], spec).numpy()
    np.testing.assert_array_equal(modes, expected.modes)
    np.testing.assert_allclose(parsed["mode_probs"], expected.mode_probs, rtol=1e-6)


def test_preparing_again_gives_the_same_bytes(phantom_dir, tmp_path):
    config = PhantomConfig(**records.read_info(phantom_dir).spec.preparation)
    report = phantom.prepare(config, tmp_path)
    assert datasets.contents(tmp_path) == datasets.contents(phantom_dir)
    assert report["counts"]["masks"] == 160
    assert 0 < report["counts"]["empty masks"] < 120


def test_preview(tmp_path):
    config = PhantomConfig(image_size=48, num_train=3, num_val=1, num_test=1)
    phantom.prepare(config, tmp_path, num_preview=4)
    # Two rows and columns of images at twice their size, with a caption each.
    with PIL.Image.open(tmp_path / "preview.png") as sheet:
        assert sheet.size == (2 * 96, 2 * (96 + 14))
