"""The service over HTTP, on loopback: answers, one JSON error per fault, metrics."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import threading
import time

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

from tf_probunet.serve import app as apps
from tf_probunet.serve.config import ServeConfig


@contextlib.contextmanager
def _running(model, **settings):
    """Serves a model in a thread; gives the application and a function to ask it."""
    config = ServeConfig(port=0, **settings)
    with apps.listen(config) as listening:
        app = apps.App(model, config)
        server = apps.server(app, config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        port = listening.getsockname()[1]

        def ask(method, path, body=None, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers

        try:
            yield app, ask
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture(scope="module")
def ask(ct_model):
    with _running(ct_model, max_upload_mib=1) as (_, ask):
        yield ask


def _error(answer, status):
    found, body, headers = answer
    assert found == status
    assert headers["content-type"] == "application/json"
    assert list(json.loads(body)) == ["error"]
    return json.loads(body)["error"]


def test_health_says_which_model_it_is(ask):
    status, body, _ = ask("GET", "/health")
    assert status == 200
    assert json.loads(body) == {
        "status": "ok",
        "model": "ct_model",
        "trained_on": "made up",
        "fingerprint": "0123456789abcdef",
    }


def test_predictions_and_errors_are_counted(ask, upload):
    status, body, headers = ask("POST", "/predict?hypotheses=2", upload)
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert len(json.loads(body)["hypotheses"]) == 2
    assert ask("POST", "/predict?format=npz", upload)[1].startswith(b"PK")
    message = _error(ask("POST", "/predict?seed=x", upload), 400)
    assert message.startswith("seed is 'x', expected a whole number")
    status, body, headers = ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    lines = body.decode().splitlines()
    assert 'tf_probunet_requests_total{status="200"} 2.0' in lines
    assert 'tf_probunet_requests_total{status="400"} 1.0' in lines
    assert "tf_probunet_request_seconds_count 3.0" in lines
    assert "tf_probunet_active_requests 0.0" in lines
    assert 'tf_probunet_batch_size_sum{function="decode"} 2.0' in lines


def test_other_paths_and_methods_are_named(ask):
    message = _error(ask("GET", "/nothing"), 404)
    assert message.startswith("no GET /nothing, expected one of POST /predict, GET")
    assert _error(ask("GET", "/predict"), 405).startswith("no GET /predict, expected")


def test_too_large_an_upload_is_refused_after_it_is_sent(ask):
    message = _error(ask("POST", "/predict", bytes(3 * 2**20)), 413)
    assert message == "image: expected at most 1 MiB"
    unknown = _error(ask("POST", "/predict", bytes(2**20)), 400)
    assert unknown.startswith("image: of an unknown kind")


def test_a_form_is_refused_with_advice(ask, upload):
    headers = {"content-type": "multipart/form-data; boundary=x"}
    message = _error(ask("POST", "/predict", upload, **headers), 415)
    assert message.startswith("image: sent as a form, expected the file itself")


def test_late_and_surplus_requests_are_told_to_come_back(ct_model, upload, monkeypatch):
    settings = {"max_requests": 1, "timeout_seconds": 2.0}
    with _running(ct_model, **settings) as (app, ask):
        free = threading.Event()
        answer = app.service.answer

        def slow(*arguments):
            assert free.wait(60)
            return answer(*arguments)

        monkeypatch.setattr(app.service, "answer", slow)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            late = threads.submit(ask, "POST", "/predict", upload)
            while not app._active:
                time.sleep(0.001)
            surplus = ask("POST", "/predict", upload)
            assert _error(surplus, 503).startswith("1 requests are waiting already")
            assert surplus[2]["retry-after"] == "1"
            assert _error(late.result(), 504).startswith("no answer within 2 s")
        free.set()
        assert ask("POST", "/predict", upload)[0] == 200


def test_our_own_faults_are_no_details_for_clients(ct_model, upload, monkeypatch):
    with _running(ct_model) as (app, ask):

        def broken(*_):
            raise RuntimeError("secret")

        monkeypatch.setattr(app.service, "answer", broken)
        message = _error(ask("POST", "/predict", upload), 500)
        assert message == "internal error; the server's log says more"
        assert ask("GET", "/health")[0] == 200


def test_an_address_in_use_is_named():
    with apps.listen(ServeConfig(port=0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(
            ValueError, match=rf"{port} \(Address already in use\), exp"
        ):
            apps.listen(ServeConfig(port=port))
