"""Damages valid files: byte by byte, number by number, or as JSON values.

Everything is drawn from a `random.Random` that the caller seeds, so that each input can
be made again.
"""

from __future__ import annotations

import copy
import random
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

# Where declared sizes, counts and positions go wrong.
_INTEGERS = (0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 100_000)
_LARGE = (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    *("0", "-1", "1", "2.5", "1e5", "1e999", "-1e999", "nan", "inf", "-inf", "0x10"),
    *("100000", "2147483648", "9223372036854775808", "1" + "0" * 400, "9" * 5000),
    *("", " ", "\x00", "é", "\u2028", "-", "1,2", "../../x", "/etc/passwd", "None"),
)
_JSON = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2.5,
        10**9,
        2**31,
        2**63,
        2**64,
        10**400,
        -(10**400),
    ),
    *(
        float("inf"),
        float("nan"),
        "",
        "x",
        "\x00",
        "\ud800",
        "../../x",
        "/abs",
        "x" * 999,
    ),
    *([], {}, [[]], [None], {"": None}, [0] * 50, {"a": {"b": []}}),
)
# Files say the important things at their start.
_HEAD = 400


def mutate(
    data: bytes, rng: random.Random, others: Sequence[bytes] = (), edits: int = 3
) -> bytes:
    """Returns `data` after one to `edits` random changes.

    Args:
        data: a valid file.
        rng: what to draw from.
        others: further files of the kind, of which pieces are spliced in.
        edits: at most so many changes.
    """
    for _ in range(rng.randint(1, edits)):
        change = rng.choice(_EDITS)
        if change is _splice:
            data = _splice(data, rng, rng.choice([*others, data]))
        else:
            data = change(data, rng)
    return data


def mutate_in_place(data: bytes, rng: random.Random) -> bytes:
    """Returns `data` with some bytes changed, and all others where they were."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def mutate_text(text: str, rng: random.Random, edits: int = 3) -> str:
    """Returns a text after some numbers became extreme, or lines and words moved."""
    for _ in range(rng.randint(1, edits)):
        text = rng.choice(_TEXT_EDITS)(text, rng)
    return text


def mutate_json(value: Any, rng: random.Random, edits: int = 2) -> Any:
    """Returns a copy of a JSON value with entries replaced, removed, added or moved."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, edits)):
        places = list(_places(value))
        if not places or rng.random() < 0.01:
            return copy.deepcopy(rng.choice(_JSON))
        container, key = rng.choice(places)
        change = rng.random()
        if change < 0.65:
            container[key] = _json_value(container[key], rng)
        elif change < 0.85:
            del container[key]
        elif isinstance(container, dict):
            container[rng.choice(["", "x", "../x", f"{key}_", "\x00"])] = container[key]
        else:
            container.insert(key, copy.deepcopy(rng.choice(_JSON)))
    return value


def with_png_checksums(data: bytes) -> bytes:
    """Returns a PNG file with the right CRC for every chunk that is still whole."""
    result, at = bytearray(data[:8]), 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        end = at + 12 + length
        if end > len(data):
            break
        body = data[at + 4 : end - 4]
        result += data[at : at + 4] + body + struct.pack(">I", zlib.crc32(body))
        at = end
    return bytes(result + data[at:])


def _position(data: bytes, rng: random.Random) -> int:
    end = min(len(data), _HEAD) if rng.random() < 0.5 else len(data)
    return rng.randrange(end) if end else 0


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: _position(data, rng)]


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 4, 16])):
        if changed:
            changed[_position(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_byte(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[_position(data, rng)] = rng.choice([0, 1, 10, 32, 127, 128, 254, 255])
    return bytes(changed)


def _delete(data: bytes, rng: random.Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + data[at + rng.choice([1, 2, 4, 16, 256]) :]


def _duplicate(data: bytes, rng: random.Random) -> bytes:
    at = _position(data, rng)
    piece = data[at : at + rng.choice([1, 2, 4, 16, 256])]
    return data[:at] + piece * rng.choice([2, 2, 50]) + data[at + len(piece) :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + rng.randbytes(rng.choice([1, 2, 4, 16])) + data[at:]


def _splice(data: bytes, rng: random.Random, other: bytes) -> bytes:
    start, end = sorted((_position(other, rng), _position(other, rng)))
    at = _position(data, rng)
    return data[:at] + other[start:end] + data[at + (end - start) :]


def _extreme_number(data: bytes, rng: random.Random) -> bytes:
    """Overwrites two, four or eight bytes with a number at a limit."""
    size, code = rng.choice([(2, "H"), (4, "I"), (8, "Q")])
    number = rng.choice(_INTEGERS + _LARGE) % 256**size
    at = _position(data, rng)
    if rng.random() < 0.5:
        at -= at % size
    packed = struct.pack(rng.choice("<>") + code, number)
    return data[:at] + packed + data[at + size :]


def _extreme_digits(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("latin-1")
    return _replace_number(text, rng).encode("latin-1", "replace")


def _replace_number(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"-?\d+(?:\.\d+)?", text))
    if not found:
        return text + rng.choice(_TEXTS)
    place = rng.choice(found)
    return text[: place.start()] + rng.choice(_TEXTS) + text[place.end() :]


def _drop_line(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return "".join(lines)


def _copy_piece(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    piece = text[start : start + rng.choice([1, 8, 64])]
    at = rng.randrange(len(text) + 1)
    return text[:at] + piece + text[at:]


def _cut_piece(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.choice([1, 2, 8, 64]) :]


def _insert_text(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(_TEXTS) + text[at:]


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


def _json_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, (int, float)) and abs(value) < 10**9 and rng.random() < 0.4:
        return rng.choice([-value, value + 1, value * 10**6, float(value), str(value)])
    if isinstance(value, str) and rng.random() < 0.3:
        return mutate_text(value, rng)
    return copy.deepcopy(rng.choice(_JSON))


_EDITS = (
    *(_truncate, _flip_bits, _set_byte, _delete, _duplicate, _insert, _splice),
    *(_extreme_number, _extreme_number, _extreme_digits),
)
_TEXT_EDITS = (
    *(_replace_number, _replace_number, _replace_number),
    *(_drop_line, _copy_piece, _cut_piece, _insert_text),
)
