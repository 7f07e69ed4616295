"""Writes PNG files of depths that Pillow does not write."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def encode(values: np.ndarray, *, bits: int, color_type: int) -> bytes:
    """Returns the file of values [H, W, C] of 4 (C = 1) or 16 bits.

    Args:
        values: W is even for 4 bits.
        bits: per value.
        color_type: 0 grey, 2 colours, 4 and 6 the same with alpha.
    """
    height, width, _ = values.shape
    if bits == 16:
        rows = [row.astype(">u2").tobytes() for row in values]
    else:
        pairs = values.reshape(height, -1, 2).astype(np.uint8)
        rows = [row.tobytes() for row in pairs[..., 0] << 4 | pairs[..., 1]]
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
