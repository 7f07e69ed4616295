"""How much memory the content of one file may take: the limit of every reader."""

from __future__ import annotations

# Of what a file becomes in memory. A CT volume of 2,000 slices fits: 512 x 512 pixels
# of 4 bytes. Readers work out what a file needs from its header or its length, and ask
# `check` before they make room.
MAX_BYTES = 2**31

# Deflate cannot pack tighter: whoever says so announces what is not there.
DEFLATE_RATIO = 1032


def check(needed: float, what: str, advice: str = "") -> None:
    """Checks that something fits into memory, before room is made for it.

    Args:
        needed: bytes, as many as it may take at once.
        what: it is, and where it comes from, for the message.
        advice: what a user can do, for the end of the message.

    Raises:
        ValueError: it takes over `MAX_BYTES`.
    """
    if needed > MAX_BYTES:
        raise ValueError(
            f"{what} would take {_size(needed)} of memory, expected at most "
            f"{_size(MAX_BYTES)}{advice and '; '}{advice}"
        )


def check_packed(announced: int, packed: int) -> None:
    """Checks that so many bytes can be packed, by deflate, into those of the file.

    Raises:
        ValueError: they cannot: the announced size is a lie.
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
