"""The limit on the memory that the content of one file may take."""

from __future__ import annotations

# A CT volume of 2,000 slices of 512 x 512 pixels of 4 bytes fits. Readers compute the
# memory from the header or the length of the file, and call `check` before they
# allocate it.
MAX_BYTES = 2**31

# Deflate cannot compress more than this, so a larger announced size is wrong.
DEFLATE_RATIO = 1032


def check(needed: float, what: str, advice: str = "") -> None:
    """Checks that something is within the limit, before it is allocated.

    Args:
        needed: the largest number of bytes that it may take.
        what: what it is and where it comes from, for the message.
        advice: what the user can do, for the end of the message.

    Raises:
        ValueError: it takes over `MAX_BYTES`.
    """
    if needed > MAX_BYTES:
        raise ValueError(
            f"{what} would take {_size(needed)} of memory, expected at most "
            f"{_size(MAX_BYTES)}{advice and '; '}{advice}"
        )


def check_packed(announced: int, packed: int) -> None:
    """Checks that deflate can compress the announced bytes into those of the file.

    Raises:
        ValueError: it cannot, so the announced size is wrong.
    """
    if announced > DEFLATE_RATIO * (packed + 1):
        raise ValueError(f"announces {announced} bytes, packed into {packed}")


def _size(number: float) -> str:
    """Returns bytes in a unit that is easy to read."""
    number = float(min(number, 2**80))  # Numbers of files may be larger than floats.
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.4g} {unit}"
        number /= 1024
    return f"{number:,.2f} GiB"
