"""Tests of tf_probunet.hashing."""

from __future__ import annotations

import numpy as np

from tf_probunet.hashing import salted_hash


def test_values_never_change():
    # The order of records and the splits hang on them.
    assert salted_hash("LIDC-IDRI-0001", "split") == 0xAD5E3658BD60BEBB
    assert salted_hash("", "") == 0xA98EDDB26842F708


def test_is_a_64_bit_number():
    values = [salted_hash(f"name {i}", "salt") for i in range(2000)]
    assert len(set(values)) == 2000
    assert 0 <= min(values) < 2**54
    assert 2**64 - 2**54 < max(values) < 2**64


def test_values_are_uniform_and_salts_unrelated():
    first = np.array([salted_hash(f"name {i}", "one") / 2**64 for i in range(4000)])
    second = np.array([salted_hash(f"name {i}", "two") / 2**64 for i in range(4000)])
    counts, _ = np.histogram(first, bins=10, range=(0, 1))
    # Standard deviation of a count: sqrt(4000 * 0.1 * 0.9) = 19.
    assert np.abs(counts - 400).max() < 95
    # Standard deviation of the correlation: 1 / sqrt(4000) = 0.016.
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08
