"""Settings of the service: this computer only by default, and sensible limits."""

import pytest

from tf_probunet.serve.config import ServeConfig


def test_only_this_computer_can_connect_by_default():
    assert ServeConfig().host == "127.0.0.1"


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("port", 65536, "0 to 65535"),
        ("max_batch", 0, "1 to 1024"),
        ("max_memory_mib", 4096, "1 to 2048"),
        ("timeout_seconds", float("nan"), "0.1 to 86400"),
    ],
)
def test_numbers_out_of_range_are_named(name, value, expected):
    with pytest.raises(ValueError, match=f"{name} is {value}, expected {expected}"):
        ServeConfig(**{name: value})
