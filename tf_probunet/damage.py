"""What libraries raise for damaged files, beside their own error types."""

from __future__ import annotations

import re
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


def stored_mode(image: PIL.Image.Image) -> str:
    """Returns how a picture's file stores its values, before it is loaded.

    Pillow cuts colours of 16 bits to 8 and stretches greys of 2 and 4 bits, and tells
    neither by `mode`: this is then not the mode, but "RGB;16B" or "L;4".
    """
    if not image.tile:
        return image.mode
    stored = image.tile[0][3]
    return str(stored[0] if isinstance(stored, tuple) else stored)


def reason(error: BaseException) -> str:
    """Returns an error's message on one line; its type where it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


# What TensorFlow wraps its messages in: "{{node x}} <reason> [Op:DecodePng]".
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*")


def graph_reason(error: BaseException) -> str:
    """Returns the line of TensorFlow's error that says what happened."""
    message = getattr(error, "message", None) or str(error)
    lines = [_WRAPPING.sub("", line).strip() for line in message.splitlines()]
    telling = [line for line in lines if line and not line.startswith("[[")]
    asserted = [line for line in telling if line.startswith("assertion failed: ")]
    if asserted:
        # "assertion failed: [a label map holds] [7]"
        return asserted[-1].partition(": ")[2].strip("[]").replace("] [", " ")[:300]
    return telling[-1][:300] if telling else type(error).__name__
