"""A client of the service that tries again while the server is away or busy."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

_BUSY = (503, 504)
_PAUSE_SECONDS = 0.2


def predict(
    url: str, content: bytes, *, seconds: float = 120.0, **parameters: Any
) -> dict[str, Any]:
    """Sends an image and returns the answer.

    The same image, parameters and model always give the same answer, so it does no harm
    to ask twice.

    Args:
        url: of the server, such as "http://127.0.0.1:8080".
        content: of the image's file.
        seconds: to keep trying for.
        **parameters: of the query, such as `num_samples=16`.

    Raises:
        TimeoutError: the server has been away or busy all the time.
        ValueError: the server refuses the image; its message.
    """
    address = f"{url}/predict?{urllib.parse.urlencode(parameters)}"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = _ask(address, content, deadline - time.monotonic())
        if answer is not None:
            return answer
        time.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"{url}: no answer within {seconds:g} s")


def _ask(url: str, content: bytes, seconds: float) -> dict[str, Any] | None:
    """Sends an image once; None if the server is away or busy."""
    request = urllib.request.Request(url, content, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code in _BUSY:
            return None
        raise ValueError(_message(error)) from error
    # A server that is killed refuses, resets or stops in the middle of an answer.
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        return None


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return json.loads(text)["error"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"HTTP status {error.code}: {text[:300]}"
