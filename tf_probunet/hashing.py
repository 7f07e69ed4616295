"""Salted hashes of names, for orders and splits that do not depend on the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def salted_hash(text: str, salt: str) -> int:
    """Returns a 64-bit number for `text`; another salt gives an unrelated one."""
    digest = hashlib.blake2b(
        text.encode("utf-8"),
        digest_size=8,
        key=hashlib.blake2b(salt.encode("utf-8")).digest(),
    )
    return int.from_bytes(digest.digest(), "big")


def content_hash(names: Iterable[str]) -> str:
    """Returns a hash of the sorted names of all pieces of an input."""
    return f"{salted_hash(chr(10).join(sorted(names)), 'content'):016x}"
