"""The client tries again while the server is away or busy, and no longer."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading

import pytest

from tf_probunet.serve import client


@contextlib.contextmanager
def _scripted(*answers):
    """A server that gives these answers: a status and a body, or None to hang up."""
    left, seen = list(answers), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(
                (self.path, self.rfile.read(int(self.headers["content-length"])))
            )
            answer = left.pop(0)
            if answer is None:
                self.connection.close()
                return
            self.send_response(answer[0])
            self.end_headers()
            self.wfile.write(answer[1])

        def log_message(self, *_):
            """Says nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_it_asks_until_there_is_an_answer():
    answers = [(503, b"{}"), None, (200, b'{"hypo'), (200, b'{"hypotheses": []}')]
    with _scripted(*answers) as (url, seen):
        found = client.predict(url, b"pixels", num_samples=4, region="0,0,8,8")
    assert found == {"hypotheses": []}
    assert seen == [("/predict?num_samples=4&region=0%2C0%2C8%2C8", b"pixels")] * 4


def test_a_refusal_is_final():
    refusal = json.dumps({"error": "image: is in colour"}).encode()
    with _scripted((400, refusal), (500, b"oops")) as (url, _):
        with pytest.raises(ValueError, match="^image: is in colour$"):
            client.predict(url, b"x")
        with pytest.raises(ValueError, match="^HTTP status 500: oops$"):
            client.predict(url, b"x")


def test_it_gives_up_in_time():
    with _scripted() as (url, _):
        pass
    with pytest.raises(TimeoutError, match=f"{url}: no answer within 0.3 s"):
        client.predict(url, b"x", seconds=0.3)
