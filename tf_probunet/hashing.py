"""Salted hashes of names: an order and a split that no directory listing decides."""

from __future__ import annotations

import hashlib


def salted_hash(text: str, salt: str) -> int:
    """Returns a 64-bit number for `text`; another salt gives an unrelated one."""
    digest = hashlib.blake2b(
        text.encode("utf-8"),
        digest_size=8,
        key=hashlib.blake2b(salt.encode("utf-8")).digest(),
    )
    return int.from_bytes(digest.digest(), "big")
