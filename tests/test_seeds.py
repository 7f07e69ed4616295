"""Tests of tf_probunet.seeds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tf_probunet import seeds


def _seed() -> tf.Tensor:
    # Not a constant of the module: collecting tests must not start TensorFlow.
    return tf.constant([12, -7], tf.int32)


def _distinct(values: list[tf.Tensor]) -> bool:
    return len({tuple(v.numpy().tolist()) for v in values}) == len(values)


def test_fold_in_is_a_function_of_its_arguments():
    first, second = seeds.fold_in(_seed(), 5), seeds.fold_in(_seed(), tf.constant(5))
    assert first.dtype == tf.int32 and first.shape == [2]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(
        first, seeds.fold_in(_seed(), tf.constant(5, tf.int64))
    )


def test_all_64_bits_of_the_folded_number_count():
    numbers = [0, -1] + [1 << bit for bit in range(63)] + [-(1 << 63)]
    assert _distinct([seeds.fold_in(_seed(), n) for n in numbers])


def test_both_words_of_the_seed_count():
    words = [[0, 0], [1, 0], [0, 1], [1 << 30, 0], [0, 1 << 30], [-1, 0], [0, -1]]
    assert _distinct([seeds.fold_in(tf.constant(w, tf.int32), 3) for w in words])


def test_order_of_folding_counts():
    first = seeds.fold_in(seeds.fold_in(_seed(), 1), 2)
    second = seeds.fold_in(seeds.fold_in(_seed(), 2), 1)
    assert _distinct([first, second])


def test_root_tells_the_users_numbers_apart():
    assert _distinct([seeds.root(n) for n in (0, 1, 2, -1, 2**32, 2**62, -(2**63))])
    np.testing.assert_array_equal(seeds.root(4), seeds.root(tf.constant(4)))


def test_consecutive_numbers_give_unrelated_draws():
    draw = tf.function(lambda: seeds.uniform(seeds.per_image(_seed(), 500), []))
    draws = draw().numpy()
    assert stats.kstest(draws, "uniform").pvalue > 1e-4
    # Standard deviation of the correlation: 1 / sqrt(500) = 0.045.
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.2


def test_split_gives_distinct_seeds_every_time_alike():
    parts = seeds.split(_seed(), 5)
    assert len(parts) == 5
    assert _distinct([_seed(), *parts])
    for first, second in zip(parts, seeds.split(_seed(), 5)):
        np.testing.assert_array_equal(first, second)


def test_replicas_draw_differently():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    on_replicas = strategy.run(lambda: seeds.for_replica(_seed()))
    first, second = strategy.experimental_local_results(on_replicas)
    assert _distinct([_seed(), first, second])
    np.testing.assert_array_equal(first, seeds.for_replica(_seed()))


def test_outside_of_replicas_is_like_a_single_one(monkeypatch):
    here = seeds.for_replica(_seed())
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: None)
    np.testing.assert_array_equal(here, seeds.for_replica(_seed()))


def test_per_image_does_not_depend_on_the_batch():
    many = seeds.per_image(_seed(), 7)
    np.testing.assert_array_equal(many[:3], seeds.per_image(_seed(), 3))
    np.testing.assert_array_equal(many[4], seeds.fold_in(_seed(), 4))
    assert _distinct(list(many))


def test_per_image_keeps_seeds_that_are_given():
    given = tf.constant([[1, 2], [3, 4]], tf.int32)
    np.testing.assert_array_equal(seeds.per_image(given, 2), given)


def test_normal_draws_each_image_from_its_own_seed():
    each = seeds.per_image(_seed(), 3)
    numbers = seeds.normal(each, [2000, 2])
    assert numbers.shape == [3, 2000, 2]
    np.testing.assert_array_equal(
        numbers[1], tf.random.stateless_normal([2000, 2], each[1])
    )
    np.testing.assert_array_equal(numbers[:2], seeds.normal(each[:2], [2000, 2]))
    for image in numbers.numpy():
        assert stats.kstest(image.ravel(), "norm").pvalue > 1e-4


def test_uniform_draws_each_image_from_its_own_seed():
    each = seeds.per_image(_seed(), 2)
    numbers = seeds.uniform(each, tf.constant([3000]))
    np.testing.assert_array_equal(
        numbers[1], tf.random.stateless_uniform([3000], each[1])
    )
    for image in numbers.numpy():
        assert stats.kstest(image, "uniform").pvalue > 1e-4


def test_fold_in_each_is_fold_in_of_each():
    each = seeds.per_image(_seed(), 3)
    folded = seeds.fold_in_each(each, 9)
    for i in range(3):
        np.testing.assert_array_equal(folded[i], seeds.fold_in(each[i], 9))


@pytest.mark.parametrize("number", [0, 3, 2**40])
def test_graph_and_eager_agree(number):
    in_graph = tf.function(lambda n: seeds.fold_in(seeds.root(1), n))
    data = tf.constant(number, tf.int64)
    np.testing.assert_array_equal(in_graph(data), seeds.fold_in(seeds.root(1), number))
