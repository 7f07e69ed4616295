"""What libraries raise for damaged files, beside their own error types."""

from __future__ import annotations

import struct
import zlib

import PIL.Image

# Pillow, for PNG and TIFF; SyntaxError too, for a broken chunk.
PICTURE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    PIL.Image.DecompressionBombError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


def reason(error: BaseException) -> str:
    """Returns an error's message on one line; its type where it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__
