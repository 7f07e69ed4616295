"""Drives a headless Chromium over its debugging pipe: real pointer and key events."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def executable() -> str:
    """Returns the browser; skips the test if there is none."""
    for name in _NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")


class Browser:
    """One page in a browser of its own; a context manager.

    Attributes:
        requests: addresses that the page asked for.
        errors: messages of exceptions in the page.
    """

    def __init__(self, profile: pathlib.Path, size: tuple[int, int] = (1160, 1200)):
        self._profile, self._size = profile, size
        self._number, self._buffer = 0, b""
        self.requests: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Browser:
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        command = [
            "sh",
            "-c",
            f'exec "$@" 3</dev/fd/{to_browser} 4>/dev/fd/{from_browser}',
            "sh",
            executable(),
            *_OPTIONS,
            f"--user-data-dir={self._profile}",
            f"--window-size={self._size[0]},{self._size[1]}",
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self._send("Target.createTarget", {"url": "about:blank"})
        attached = self._send(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command of the DevTools protocol and returns its answer."""
        return self._send(method, params, session=self._session)

    def open(self, url: str) -> None:
        """Opens an address."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60.0) -> Any:
        """Waits until a JavaScript expression is true, and returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"{expression} did not come true; errors: {self.errors}")

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Presses, moves or releases the mouse."""
        pressed = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def key(self, name: str, modifiers: int = 0) -> None:
        """Presses and releases a key; 8 is Shift."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, modifiers=modifiers
            )

    def screenshot(self, path: pathlib.Path) -> None:
        """Writes the whole page as PNG."""
        answer = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def _send(
        self, method: str, params: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", details).get("description", ""))

    def _receive(self, seconds: float = 60.0) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], seconds)
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
