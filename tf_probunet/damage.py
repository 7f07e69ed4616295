"""The errors that libraries raise for damaged files, and their messages."""

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

    Pillow cuts 16-bit colours to 8 bits and stretches greys of 2 and 4 bits, but `mode`
    shows neither. The result is then "RGB;16B" or "L;4" instead of the mode.
    """
    tile = getattr(image, "tile", None)
    if not tile:
        return image.mode
    stored = tile[0][3]
    return str(stored[0] if isinstance(stored, tuple) else stored)


def reason(error: BaseException) -> str:
    """Returns an error's message on one line; its type where it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


# TensorFlow wraps its messages: "{{node x}} <reason> [Op:DecodePng]".
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*")


def graph_reason(error: BaseException) -> str:
    """Returns the line of TensorFlow's error that says what happened."""
    message = getattr(error, "message", None) or str(error)
    lines = [_WRAPPING.sub("", line).strip() for line in message.splitlines()]
    telling = [line for line in lines if line and not line.startswith("[[")]
    # "assertion failed: [a label map holds] [7]", also behind the name of an iterator.
    asserted = [line.partition("assertion failed: ")[2] for line in telling]
    if any(asserted):
        return [a for a in asserted if a][-1].strip("[]").replace("] [", " ")[:300]
    return telling[-1][:300] if telling else type(error).__name__
