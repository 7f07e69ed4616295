"""The one limit of memory, and its messages."""

from __future__ import annotations

import pytest

from tf_probunet import limits


@pytest.mark.parametrize(
    ("needed", "size"),
    [
        (2**31 + 1, "2.00 GiB"),
        (5 * 2**30, "5.00 GiB"),
        (float("inf"), "1,125,899,906,842,624.00 GiB"),
        (10**400, "1,125,899,906,842,624.00 GiB"),
    ],
)
def test_what_takes_too_much_is_named(needed, size):
    with pytest.raises(ValueError) as caught:
        limits.check(needed, "x.png: 9 values", "cut it")
    assert str(caught.value) == (
        f"x.png: 9 values would take {size} of memory, expected at most 2.00 GiB; "
        "cut it"
    )


def test_what_just_fits():
    limits.check(limits.MAX_BYTES, "x")


def test_small_sizes_have_their_unit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="x would take 1.5 KiB of .* most 1000 bytes"):
        limits.check(1536, "x")


def test_deflate_packs_a_thousand_bytes_into_one():
    limits.check_packed(1032 * 11, 10)
    with pytest.raises(ValueError, match="announces 11353 bytes, packed into 10"):
        limits.check_packed(1032 * 11 + 1, 10)
